// SPDX-License-Identifier: Apache-2.0
#include "view/ckpt_file.h"

#include <algorithm>

#include "base/checked.h"
#include "format/ckpt.h"
#include "plan/record_order.h"

namespace reshardfs {
namespace {

/// Calls visit(offset, length) for each record of a parameter. No content, no record: MindSpore
/// writes none for a parameter without elements either.
template <typename Visit>
void for_each_record(std::uint64_t content_bytes, Visit&& visit) {
  for (std::uint64_t offset = 0; offset < content_bytes; offset += ckpt::kRecordContentLimit) {
    visit(offset, std::min(ckpt::kRecordContentLimit, content_bytes - offset));
  }
}

/// The shape that the records state; text has one dimension of 0.
Shape record_shape(const SourceParameter& source, Shape slice) {
  return source.dtype == DType::kString ? Shape{} : std::move(slice);
}

}  // namespace

CkptFile::CkptFile(std::shared_ptr<const TargetTable> target, std::int64_t rank)
    : target_(std::move(target)), rank_(rank), size_(compute_size()) {}

std::uint64_t CkptFile::compute_size() const {
  // The kernel's file sizes are signed.
  constexpr std::uint64_t kMaxSize = (1ULL << 63) - 4097;
  std::uint64_t size = 0;
  for (const TargetParameter& parameter : target_->parameters()) {
    if (!target_->has(parameter, rank_)) continue;
    const SourceParameter& source = *parameter.source;
    const DType dtype = TargetTable::target_dtype(source.dtype);
    const Shape slice = target_->slice_shape(parameter, rank_);
    const auto content = static_cast<std::uint64_t>(element_count(slice) * element_size(dtype));
    for_each_record(content, [&](std::uint64_t, std::uint64_t length) {
      const std::uint64_t header =
          ckpt::record_header_bytes(parameter.name, dtype, record_shape(source, slice), length);
      size = add_or_throw(size, add_or_throw(header, length, "a file's size"), "a file's size");
    });
  }
  if (size > kMaxSize) {
    throw Error(ErrorKind::kBadInput, "the file of destination rank " + std::to_string(rank_) +
                                          " would have " + std::to_string(size) + " bytes");
  }
  return size;
}

std::unique_ptr<const FileImage> CkptFile::build() const {
  std::vector<TargetTensor> tensors = target_->tensors(rank_);
  sort_for_file(tensors, target_->source());
  auto image = std::make_unique<FileImage>(target_->source().checkpoint_ptr());
  for (TargetTensor& tensor : tensors) {
    const SourceParameter& source = *tensor.parameter->source;
    const DType dtype = TargetTable::target_dtype(source.dtype);
    const Shape shape = record_shape(source, tensor.view.shape());
    const std::uint64_t content = tensor.view.size();
    const std::size_t view = image->add_view(std::move(tensor.view));
    for_each_record(content, [&](std::uint64_t offset, std::uint64_t length) {
      image->append_literal(ckpt::record_header(tensor.parameter->name, dtype, shape, length));
      image->append_range(view, offset, length);
    });
  }
  if (image->size() != size_) {
    throw Error(ErrorKind::kInternal, "the file of destination rank " + std::to_string(rank_) +
                                          " has " + std::to_string(image->size()) +
                                          " bytes instead of " + std::to_string(size_));
  }
  return image;
}

const FileImage& CkptFile::image() const {
  std::call_once(once_, [this] { image_ = build(); });
  return *image_;
}

void CkptFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  image().read_at(offset, out);
}

}  // namespace reshardfs
