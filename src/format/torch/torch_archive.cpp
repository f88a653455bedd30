// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_archive.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "format/torch/pickle_globals.h"
#include "format/torch/torch_tensor.h"
#include "format/torch/torch_values.h"

namespace reshardfs {
namespace {

constexpr std::string_view kZipMark("PK\x03\x04");

std::string first_bytes_of(const ByteSource& source) {
  constexpr std::uint64_t kLooked = 32;
  std::string begin(static_cast<std::size_t>(std::min(source.size(), kLooked)), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(begin)));
  return begin;
}

}  // namespace

bool begins_like_torch(std::string_view begin) noexcept {
  return begin.starts_with(kZipMark) || is_torch_stream(begin);
}

bool begins_like_torch_zip(const ByteSource& source) {
  return first_bytes_of(source).starts_with(kZipMark);
}

bool begins_like_torch(const ByteSource& source) {
  return begins_like_torch(first_bytes_of(source));
}

TorchArchive::TorchArchive(const ByteSource& source) : source_(source) {
  const std::string begin = first_bytes_of(source);
  if (is_torch_stream(begin)) {
    stream_ = read_torch_stream(source);
    tree_ = std::move(stream_.tree);
  } else if (begin.starts_with(kZipMark)) {
    tree_ = read_zip();
  } else {
    throw Error(ErrorKind::kBadInput, "is not a file of torch.save").in_file(source.name());
  }
  try {
    require_one_type_each(*tree_);
  } catch (Error& error) {
    throw error.in_file(source.name());
  }
  values_.emplace(
      *tree_, [this](std::string_view key) { return storage(key); }, TorchValues::Views::kAny);
}

std::unique_ptr<const PickleTree> TorchArchive::read_zip() {
  zip_.emplace(source_, ByteRange::whole(source_.size()));
  const std::uint64_t at = zip_->entry("data.pkl").offset();
  std::string bytes = zip_->read("data.pkl", kMostSavedPickle);
  zip_->foresee("data/");
  try {
    return std::make_unique<const PickleTree>(std::move(bytes), pickle::kSavedRules);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message())
        .in_file(source_.name())
        .at_offset(at + error.offset().value_or(0));
  }
}

ByteRange TorchArchive::storage(std::string_view key) const {
  if (zip_) return zip_->entry("data/" + std::string(key));
  const auto found = stream_.storages.find(key);
  if (found == stream_.storages.end()) {
    throw Error(ErrorKind::kBadInput, "its storage is not in the file");
  }
  return found->second;
}

}  // namespace reshardfs
