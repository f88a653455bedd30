// SPDX-License-Identifier: Apache-2.0
#include "view/files/tensor_file.h"

#include "reshardfs/error.h"

#include "base/byte_range.h"
#include "base/sha256.h"
#include "view/files/source_attribute.h"

namespace reshardfs {
namespace {

// The kernel's file sizes are signed.
constexpr std::uint64_t kMaxSize = (1ULL << 63U) - 4097;

std::string hash_of(const VirtualFile& file) {
  Sha256 hash;
  for_each_block(file, ByteRange::whole(file.size()),
                 [&](std::span<const std::byte> bytes) { hash.update(bytes); });
  return hash.finish();
}

}  // namespace

TensorFile::TensorFile(std::shared_ptr<const TargetTable> target, Rank rank)
    : target_(std::move(target)), rank_(rank) {}

void TensorFile::set_size(std::uint64_t bytes) {
  if (bytes > kMaxSize) {
    throw Error(ErrorKind::kBadInput, "a file of target rank " + to_string(rank_) + " would have " +
                                          std::to_string(bytes) + " bytes");
  }
  size_ = bytes;
}

void TensorFile::require_inside(std::uint64_t offset, std::uint64_t length) const {
  if (offset <= size_ && length <= size_ - offset) return;
  throw Error(ErrorKind::kBadInput, "a read beyond the end of the file").at_offset(offset);
}

std::vector<std::string> TensorFile::attribute_names() const {
  std::vector<std::string> names{"source"};
  if (!target_->source().checkpoint().step().empty()) names.emplace_back("step");
  return names;
}

std::optional<std::string> TensorFile::attribute(std::string_view name) const {
  if (name == "source") return source_attribute(*target_, rank_, parameters());
  if (name == "sha256") {
    Hash& hash = sha256_.get();
    hash.once.call([&] { hash.text = hash_of(*this); });
    return hash.text;
  }
  const std::string& step = target_->source().checkpoint().step();
  if (name == "step" && !step.empty()) return step;
  return std::nullopt;
}

}  // namespace reshardfs
