// SPDX-License-Identifier: Apache-2.0
#include "view/files/ckpt_file.h"

#include <algorithm>
#include <cstring>

#include "reshardfs/error.h"

#include "base/byte_range.h"
#include "base/checked.h"
#include "base/content_size.h"
#include "format/ckpt/ckpt.h"
#include "format/ckpt/ckpt_scanner.h"
#include "plan/target/target_table.h"
#include "plan/traffic/traffic.h"

namespace reshardfs {
namespace {

/// What all records of a parameter but the last have. A map cannot be cut.
std::uint64_t full_record(DType dtype, std::uint64_t content_bytes) {
  return dtype == DType::kMap ? content_bytes : ckpt::kRecordContentLimit;
}

/// Calls visit(offset, length) for each record of a parameter. No content, no record: MindSpore
/// writes none for a parameter without elements either.
template <typename Visit>
void for_each_record(DType dtype, std::uint64_t content_bytes, Visit&& visit) {
  const std::uint64_t limit = full_record(dtype, content_bytes);
  for (std::uint64_t offset = 0; offset < content_bytes; offset += limit) {
    visit(offset, std::min(limit, content_bytes - offset));
  }
}

/// The shape that the records state.
const Shape& record_shape(DType dtype, const Shape& slice) {
  static const Shape none;
  return is_array(dtype) ? slice : none;
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

CkptFile::CkptFile(std::shared_ptr<const TargetTable> table, Rank own_rank, bool crc,
                   bool keeps_int4)
    : PartedFile(std::move(table), own_rank), crc_(crc), keeps_int4_(keeps_int4) {
  std::uint64_t size = trailer_bytes();
  SliceShapes shapes(target(), rank());
  for (const TargetParameter& parameter : target().parameters()) {
    if (!target().has(parameter, rank())) continue;
    require_type(parameter);
    size = add_or_throw(size, records_bytes(parameter, shapes.of(parameter)), "a file's size");
  }
  set_size(size);
}

std::shared_ptr<const ByteSource> CkptFile::equal_source() const {
  return crc_ ? nullptr : PartedFile::equal_source();
}

std::uint64_t CkptFile::trailer_bytes() const noexcept {
  return crc_ ? ckpt::kTrailerBytes : 0;
}

std::vector<const TargetParameter*> CkptFile::parameters() const {
  std::vector<const TargetParameter*> list;
  for (const TargetParameter& parameter : target().parameters()) {
    if (target().has(parameter, rank())) list.push_back(&parameter);
  }
  return list;
}

/// As the records state it.
DType CkptFile::type_of(const TargetParameter& parameter) const noexcept {
  return parameter.holds_int4() && keeps_int4_ ? DType::kInt4 : parameter.dtype;
}

std::uint64_t CkptFile::records_bytes(const TargetParameter& parameter, const Shape& slice) const {
  const DType dtype = type_of(parameter);
  const auto content = static_cast<std::uint64_t>(content_size(slice, dtype, "a slice's size"));
  if (content == 0) return 0;
  const auto record = [&](std::uint64_t length) {
    return add_or_throw(
        ckpt::record_header_bytes(parameter.name, dtype, record_shape(dtype, slice), length),
        length, "a file's size");
  };
  const std::uint64_t limit = full_record(dtype, content);
  if (content / limit >= ckpt::kMaxRecords) {
    throw Error(ErrorKind::kUnsupported, "would take " + std::to_string(content / limit) +
                                             " records of a .ckpt file; the limit is " +
                                             std::to_string(ckpt::kMaxRecords))
        .for_parameter(parameter.name)
        .hint("show it with --format safetensors, or leave it out with --exclude");
  }
  const std::uint64_t size = mul_or_throw(content / limit, record(limit), "a file's size");
  return content % limit == 0 ? size : add_or_throw(size, record(content % limit), "a file's size");
}

std::vector<PartedFile::Stretch> CkptFile::stretches() const {
  std::vector<Stretch> stretches;
  std::uint64_t end = 0;
  SliceShapes shapes(target(), rank());
  for (const TargetParameter* parameter : in_file_order(target(), rank())) {
    const std::uint64_t bytes = records_bytes(*parameter, shapes.of(*parameter));
    const auto number = static_cast<std::size_t>(parameter - target().parameters().data());
    if (bytes > 0) stretches.push_back({end, number});
    end += bytes;
  }
  if (crc_) stretches.push_back({end, kFrame});
  stretches.shrink_to_fit();
  return stretches;
}

void CkptFile::append_to(FileImage& image, std::size_t number) const {
  const TargetParameter& parameter = target().parameters()[number];
  const DType dtype = type_of(parameter);
  ShownElements elements(target().view(parameter, rank()), parameter.source->dtype,
                         parameter.dtype);
  const Shape shape = record_shape(dtype, elements.shape());
  const std::uint64_t content = elements.size();
  const std::size_t view = image.add_view(std::move(elements));
  for_each_record(dtype, content, [&](std::uint64_t offset, std::uint64_t length) {
    image.append_literal(ckpt::record_header(parameter.name, dtype, shape, length));
    image.append_range(view, offset, length);
  });
}

const std::string& CkptFile::trailer() const {
  trailer_once_.call([this] {
    ckpt::CrcSum sum;
    for_each_block(*this, ByteRange::whole(size() - trailer_bytes()),
                   [&](std::span<const std::byte> bytes) { sum.add(bytes); });
    trailer_ = ckpt::trailer(sum.value());
  });
  return trailer_;
}

void CkptFile::read_frame(std::uint64_t offset, std::span<std::byte> out) const {
  const std::uint64_t begin = size() - trailer_bytes();
  std::memcpy(out.data(), trailer().data() + (offset - begin), out.size());
}

}  // namespace reshardfs
