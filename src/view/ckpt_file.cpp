// SPDX-License-Identifier: Apache-2.0
#include "view/ckpt_file.h"

#include <algorithm>
#include <cstring>

#include "reshardfs/error.h"

#include "base/blocks.h"
#include "base/checked.h"
#include "format/ckpt.h"
#include "plan/record_order.h"

namespace reshardfs {
namespace {

/// Calls visit(offset, length) for each record of a parameter. No content, no record: MindSpore
/// writes none for a parameter without elements either. A map cannot be cut.
template <typename Visit>
void for_each_record(DType dtype, std::uint64_t content_bytes, Visit&& visit) {
  const std::uint64_t limit = dtype == DType::kMap ? content_bytes : ckpt::kRecordContentLimit;
  for (std::uint64_t offset = 0; offset < content_bytes; offset += limit) {
    visit(offset, std::min(limit, content_bytes - offset));
  }
}

/// The shape that the records state.
Shape record_shape(DType dtype, Shape slice) {
  return is_array(dtype) ? std::move(slice) : Shape{};
}

void require_type(const TargetParameter& parameter) {
  const bool known = parameter.dtype == DType::kMap ||
                     dtype_from_mindspore(mindspore_name(parameter.dtype)).has_value();
  if (known) return;
  throw Error(ErrorKind::kUnsupported, "has elements of type " +
                                           std::string(safetensors_name(parameter.dtype)) +
                                           ", which .ckpt files cannot hold")
      .for_parameter(parameter.name)
      .hint("show it with --format safetensors, or leave it out with --exclude");
}

}  // namespace

CkptFile::CkptFile(std::shared_ptr<const TargetTable> table, std::int64_t own_rank, bool crc)
    : TensorFile(std::move(table), own_rank), crc_(crc) {
  set_size(records_bytes(), crc_ ? ckpt::kTrailerBytes : 0);
}

std::vector<const TargetParameter*> CkptFile::parameters() const {
  std::vector<const TargetParameter*> list;
  for (const TargetParameter& parameter : target().parameters()) {
    if (target().has(parameter, rank())) list.push_back(&parameter);
  }
  return list;
}

std::uint64_t CkptFile::records_bytes() const {
  std::uint64_t size = 0;
  for (const TargetParameter* parameter : parameters()) {
    require_type(*parameter);
    const DType dtype = parameter->dtype;
    const Shape slice = target().slice_shape(*parameter, rank());
    const auto content = static_cast<std::uint64_t>(
        mul_or_throw(element_count(slice), element_size(dtype), "a slice's size"));
    for_each_record(dtype, content, [&](std::uint64_t, std::uint64_t length) {
      const std::uint64_t header =
          ckpt::record_header_bytes(parameter->name, dtype, record_shape(dtype, slice), length);
      size = add_or_throw(size, add_or_throw(header, length, "a file's size"), "a file's size");
    });
  }
  return size;
}

std::unique_ptr<FileImage> CkptFile::build() const {
  std::vector<TargetTensor> tensors = target().tensors(rank());
  sort_for_file(tensors, target().source());
  auto image = std::make_unique<FileImage>(target().source().checkpoint_ptr());
  for (TargetTensor& tensor : tensors) {
    const std::string& name = tensor.parameter->name;
    const DType dtype = tensor.parameter->dtype;
    const Shape shape = record_shape(dtype, tensor.view.shape());
    ElementView elements = std::move(tensor).elements();
    const std::uint64_t content = elements.size();
    const std::size_t view = image->add_view(std::move(elements));
    for_each_record(dtype, content, [&](std::uint64_t offset, std::uint64_t length) {
      image->append_literal(ckpt::record_header(name, dtype, shape, length));
      image->append_range(view, offset, length);
    });
  }
  return image;
}

const std::string& CkptFile::trailer() const {
  trailer_once_.call([this] {
    ckpt::CrcSum sum;
    for_each_block(image(), 0, size() - ckpt::kTrailerBytes,
                   [&](std::span<const std::byte> bytes) { sum.add(bytes); });
    trailer_ = ckpt::trailer(sum.value());
  });
  return trailer_;
}

void CkptFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  const std::uint64_t records = size() - (crc_ ? ckpt::kTrailerBytes : 0);
  if (!crc_ || offset > size() || out.size() > size() - offset || offset + out.size() <= records) {
    return image().read_at(offset, out);
  }
  const std::uint64_t begin = std::min(offset, records);
  const auto before = static_cast<std::size_t>(records - begin);
  image().read_at(begin, out.first(before));
  const std::string& bytes = trailer();
  std::memcpy(out.data() + before, bytes.data() + (offset + before - records), out.size() - before);
}

}  // namespace reshardfs
