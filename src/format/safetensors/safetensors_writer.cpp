// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <string_view>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/content_size.h"
#include "base/json/json_writer.h"
#include "base/text/utf8.h"
#include "format/safetensors/safetensors.h"

namespace reshardfs::safetensors {
namespace {

/// The library's order of element types, in which it writes the last one's tensors first.
constexpr std::array kOrder{
    DType::kBool,       DType::kFloat4E2M1,     DType::kFloat6E2M3,     DType::kFloat6E3M2,
    DType::kUInt8,      DType::kInt8,           DType::kFloat8E5M2,     DType::kFloat8E4M3,
    DType::kFloat8E8M0, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2FNUZ, DType::kInt16,
    DType::kUInt16,     DType::kFloat16,        DType::kBFloat16,       DType::kInt32,
    DType::kUInt32,     DType::kFloat32,        DType::kComplex64,      DType::kFloat64,
    DType::kInt64,      DType::kUInt64};

/// @return smaller for what is written first.
std::ptrdiff_t rank_of(DType dtype) {
  const DType held_as = dtype == DType::kInt4 ? DType::kInt8 : dtype;
  return kOrder.end() - std::find(kOrder.begin(), kOrder.end(), held_as);
}

void check(const HeaderTensor& tensor) {
  if (!is_array(tensor.dtype)) {
    throw Error(ErrorKind::kInternal, "text and maps cannot be written to safetensors");
  }
  if (tensor.name.empty() || tensor.name == kMetadataKey) {
    throw Error(ErrorKind::kUnsupported, "a safetensors file cannot hold a tensor of this name");
  }
  if (!is_utf8(tensor.name)) {
    throw Error(ErrorKind::kUnsupported,
                "the name is not valid UTF-8, which safetensors files need");
  }
}

std::vector<std::size_t> order_of(std::span<const HeaderTensor> tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::ptrdiff_t rank_a = rank_of(tensors[a].dtype);
    const std::ptrdiff_t rank_b = rank_of(tensors[b].dtype);
    return rank_a != rank_b ? rank_a < rank_b : tensors[a].name < tensors[b].name;
  });
  return order;
}

void refuse_twice(std::span<const HeaderTensor> tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const HeaderTensor& tensor : tensors) names.emplace_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  throw Error(ErrorKind::kBadInput, "would appear twice in one safetensors file")
      .for_parameter(std::string(*twice));
}

/// With the same escapes as the library's: quotes, backslashes and control characters,
/// everything else as it is.
std::string metadata_text(const Metadata& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    if (!is_utf8(key) || !is_utf8(value)) {
      throw Error(ErrorKind::kUnsupported,
                  "the metadata '" + printable(key) + "' is not valid UTF-8");
    }
    if (!text.empty()) text += ',';
    text += json_quoted(key) + ':' + json_quoted(value);
  }
  return json_quoted(kMetadataKey) + ":{" + text + '}';
}

std::string tensor_text(const HeaderTensor& tensor, std::uint64_t begin, std::uint64_t end) {
  std::string dims;
  for (const std::int64_t dim : tensor.shape) {
    if (!dims.empty()) dims += ',';
    dims += std::to_string(dim);
  }
  return json_quoted(tensor.name) + R"(:{"dtype":")" + std::string(safetensors_name(tensor.dtype)) +
         R"(","shape":[)" + dims + R"(],"data_offsets":[)" + std::to_string(begin) + ',' +
         std::to_string(end) + "]}";
}

std::int64_t bytes_of(const HeaderTensor& tensor) {
  return content_size(tensor.shape, tensor.dtype, "the content's size");
}

/// The length's 8 bytes, the text, and spaces.
std::string padded(const std::string& text, std::uint64_t align, std::uint64_t place) {
  const std::uint64_t least = kLengthBytes + text.size();
  const std::uint64_t data_begin = least + ((place - least) & (align - 1));
  const std::uint64_t length = data_begin - kLengthBytes;
  if (length > kMaxHeaderBytes) {
    throw Error(ErrorKind::kUnsupported, "the safetensors header would have " +
                                             std::to_string(length) + " bytes; the limit is " +
                                             std::to_string(kMaxHeaderBytes));
  }
  std::string bytes;
  bytes.reserve(data_begin);
  for (unsigned i = 0; i < kLengthBytes; ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(length >> (8 * i)));
  }
  bytes += text;
  bytes.resize(data_begin, ' ');
  return bytes;
}

}  // namespace

Header make_header(std::span<const HeaderTensor> tensors, const Metadata& metadata,
                   std::uint64_t align, std::uint64_t place) {
  if (place % kLengthBytes != 0 || place >= align || align < kLengthBytes ||
      !std::has_single_bit(align)) {
    throw Error(ErrorKind::kInternal, "safetensors headers cannot be aligned to " +
                                          std::to_string(place) + " of " + std::to_string(align) +
                                          " bytes");
  }
  refuse_twice(tensors);
  Header header;
  header.order = order_of(tensors);
  header.data_offsets.resize(tensors.size());
  std::string text = "{";
  if (!metadata.empty()) text += metadata_text(metadata);
  for (const std::size_t position : header.order) {
    const HeaderTensor& tensor = tensors[position];
    try {
      check(tensor);
      const std::uint64_t begin = header.data_bytes;
      header.data_offsets[position] = begin;
      // Signed, as the sizes of files are.
      header.data_bytes = static_cast<std::uint64_t>(
          add_or_throw(static_cast<std::int64_t>(begin), bytes_of(tensor), "the file's size"));
      if (text.size() > 1) text += ',';
      text += tensor_text(tensor, begin, header.data_bytes);
    } catch (Error& error) {
      error.for_parameter(tensor.name);
      throw;
    }
  }
  text += '}';
  header.bytes = padded(text, align, place);
  return header;
}

}  // namespace reshardfs::safetensors
