// SPDX-License-Identifier: Apache-2.0
#include "view/npy_file.h"

#include <algorithm>

#include "base/checked.h"
#include "format/npy.h"
#include "plan/file_image.h"

namespace reshardfs {

NpyFile::NpyFile(std::shared_ptr<const TargetTable> table, Rank own_rank,
                 const TargetParameter& parameter)
    : TensorFile(std::move(table), own_rank), parameter_(parameter) {
  const std::int64_t elements = element_count(target().slice_shape(parameter_, rank()));
  const std::int64_t bytes =
      mul_or_throw(elements, element_size(parameter_.dtype), "an array's size");
  set_size(add_or_throw(header().size(), static_cast<std::uint64_t>(bytes), "a file's size"));
}

std::string NpyFile::header() const {
  return npy::header(parameter_.dtype, target().slice_shape(parameter_, rank()));
}

FileImage NpyFile::image() const {
  FileImage image;
  image.append_literal(header());
  image.append({target().view(parameter_, rank()), parameter_.source->dtype, parameter_.dtype});
  return image;
}

void NpyFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  image().read_at(offset, out, this);
}

std::vector<const ByteSource*> NpyFile::sources_of(std::uint64_t offset,
                                                   std::uint64_t length) const {
  return image().sources_of(offset, length);
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
