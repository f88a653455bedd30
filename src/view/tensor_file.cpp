// SPDX-License-Identifier: Apache-2.0
#include "view/tensor_file.h"

#include "reshardfs/error.h"

#include "base/blocks.h"
#include "base/checked.h"
#include "base/sha256.h"
#include "view/source_attribute.h"

namespace reshardfs {
namespace {

// The kernel's file sizes are signed.
constexpr std::uint64_t kMaxSize = (1ULL << 63U) - 4097;

std::string hash_of(const VirtualFile& file) {
  Sha256 hash;
  for_each_block(file, 0, file.size(),
                 [&](std::span<const std::byte> bytes) { hash.update(bytes); });
  return hash.finish();
}

}  // namespace

TensorFile::TensorFile(std::shared_ptr<const TargetTable> target, std::int64_t rank)
    : target_(std::move(target)), rank_(rank) {}

void TensorFile::set_size(std::uint64_t image, std::uint64_t behind) {
  const std::uint64_t bytes = add_or_throw(image, behind, "a file's size");
  if (bytes > kMaxSize) {
    throw Error(ErrorKind::kBadInput, "a file of destination rank " + std::to_string(rank_) +
                                          " would have " + std::to_string(bytes) + " bytes");
  }
  image_bytes_ = image;
  size_ = bytes;
}

const FileImage& TensorFile::image() const {
  once_.call([this] {
    auto image = build();
    if (image->size() != image_bytes_) {
      throw Error(ErrorKind::kInternal, "a file of destination rank " + std::to_string(rank_) +
                                            " has " + std::to_string(image->size()) +
                                            " bytes instead of " + std::to_string(image_bytes_));
    }
    image_ = std::move(image);
  });
  return *image_;
}

void TensorFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  image().read_at(offset, out);
}

std::vector<std::string> TensorFile::attribute_names() const {
  std::vector<std::string> names{"source"};
  if (!target_->source().checkpoint().step().empty()) names.emplace_back("step");
  return names;
}

std::optional<std::string> TensorFile::attribute(std::string_view name) const {
  if (name == "source") return source_attribute(*target_, rank_, parameters());
  if (name == "sha256") {
    hashed_.call([this] { sha256_ = hash_of(*this); });
    return sha256_;
  }
  const std::string& step = target_->source().checkpoint().step();
  if (name == "step" && !step.empty()) return step;
  return std::nullopt;
}

}  // namespace reshardfs
