// SPDX-License-Identifier: Apache-2.0
#include "view/files/npy_file.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/content_size.h"
#include "format/npy.h"
#include "view/tensor_set.h"

namespace reshardfs {
namespace {

/// How many bytes of a range at the beginning are in the file's header.
std::size_t bytes_of_head(std::uint64_t head, std::uint64_t offset, std::uint64_t length) {
  return static_cast<std::size_t>(offset < head ? std::min(length, head - offset) : 0);
}

}  // namespace

std::uint64_t NpySizes::of(const TargetParameter& parameter) {
  const Shape& shape = shapes_.of(parameter);
  if (!known_ || known_->first != parameter.dtype || known_->second != shape) {
    const auto content =
        static_cast<std::uint64_t>(content_size(shape, parameter.dtype, "an array's size"));
    bytes_ = add_or_throw(npy::header(parameter.dtype, shape).size(), content, "a file's size");
    known_ = {parameter.dtype, shape};
  }
  return bytes_;
}

NpyFile::NpyFile(std::shared_ptr<const TargetTable> table, Rank own_rank,
                 const TargetParameter& parameter, NpySizes& sizes)
    : TensorFile(std::move(table), own_rank), parameter_(parameter) {
  set_size(sizes.of(parameter));
}

std::string NpyFile::header() const {
  return npy::header(parameter_.dtype, target().slice_shape(parameter_, rank()));
}

Tensor NpyFile::tensor() const {
  // It ends with the read, the file does not.
  return TensorAccess::whole(std::make_shared<const TensorElements>(
      parameter_.name, elements_of(target(), rank(), parameter_), nullptr,
      std::shared_ptr<const ForeseenFile>(std::shared_ptr<void>(), &reads_)));
}

void NpyFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  require_inside(offset, out.size());
  const std::string head = header();
  const std::size_t from_head = bytes_of_head(head.size(), offset, out.size());
  if (from_head > 0) std::memcpy(out.data(), head.data() + offset, from_head);
  out = out.subspan(from_head);
  if (!out.empty()) tensor().read(offset + from_head - head.size(), out);
}

std::vector<std::string> NpyFile::attribute_names() const {
  std::vector<std::string> names = TensorFile::attribute_names();
  names.insert(names.end(), {"dtype", "shape"});
  if (target().layout(parameter_, rank()) != nullptr) names.emplace_back("layout");
  return names;
}

std::optional<std::string> NpyFile::attribute(std::string_view name) const {
  if (name == "dtype") return plain_dtype_name(parameter_.dtype);
  if (name == "shape") return to_string(target().slice_shape(parameter_, rank()));
  const Layout* layout = name == "layout" ? target().layout(parameter_, rank()) : nullptr;
  if (layout != nullptr) return to_string(*layout);
  return TensorFile::attribute(name);
}

std::string plain_dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E5M2:
      return "float8_e5m2";
    case DType::kFloat8E4M3:
      return "float8_e4m3fn";
    case DType::kFloat8E8M0:
      return "float8_e8m0fnu";
    case DType::kFloat8E4M3FNUZ:
      return "float8_e4m3fnuz";
    case DType::kFloat8E5M2FNUZ:
      return "float8_e5m2fnuz";
    case DType::kFloat4E2M1:
      return "float4_e2m1fn";
    case DType::kFloat6E2M3:
      return "float6_e2m3fn";
    case DType::kFloat6E3M2:
      return "float6_e3m2fn";
    default:
      break;
  }
  std::string name(mindspore_name(dtype));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

}  // namespace reshardfs
