// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <span>

#include "format/ckpt/ckpt.h"

namespace reshardfs::ckpt {
namespace {

// Keys: field number * 8 + wire type (0 varint, 2 bytes).
constexpr char kValueKey = 0x0a;
constexpr char kTagKey = 0x0a;
constexpr char kTensorKey = 0x12;
constexpr char kDimKey = 0x08;
constexpr char kTypeKey = 0x12;
constexpr char kContentKey = 0x1a;
constexpr char kMapTensorKey = 0x1a;

std::uint64_t varint_bytes(std::uint64_t value) noexcept {
  std::uint64_t bytes = 1;
  while ((value >>= 7U) != 0) ++bytes;
  return bytes;
}

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7fU) | 0x80U);
  out += static_cast<char>(value);
}

/// Bytes of a key, a length and a payload of `length` bytes.
std::uint64_t field_bytes(std::uint64_t length) noexcept {
  return 1 + varint_bytes(length) + length;
}

/// A str has one dim of 0, as MindSpore writes it; a scalar has none.
std::span<const std::int64_t> written_dims(DType dtype, const Shape& shape) {
  static constexpr std::array<std::int64_t, 1> kOfText{0};
  if (dtype == DType::kString) return kOfText;
  return shape;
}

/// Lengths of the two messages that the content lies in.
struct Lengths {
  std::uint64_t value;
  std::uint64_t tensor;
};

Lengths lengths_of(const std::string& name, DType dtype, const Shape& shape,
                   std::uint64_t content_bytes) {
  std::uint64_t tensor = field_bytes(mindspore_name(dtype).size()) + field_bytes(content_bytes);
  for (const std::int64_t dim : written_dims(dtype, shape)) {
    tensor += 1 + varint_bytes(static_cast<std::uint64_t>(dim));
  }
  return {field_bytes(name.size()) + field_bytes(tensor), tensor};
}

std::uint64_t map_value_bytes(const std::string& name, std::uint64_t content_bytes) {
  return field_bytes(name.size()) + field_bytes(content_bytes);
}

/// `Checkpoint{value{tag, maptensor}}` up to the serialized map.
std::string map_header(const std::string& name, std::uint64_t content_bytes) {
  std::string out{kValueKey};
  append_varint(out, map_value_bytes(name, content_bytes));
  out += kTagKey;
  append_varint(out, name.size());
  out += name;
  out += kMapTensorKey;
  append_varint(out, content_bytes);
  return out;
}

}  // namespace

std::string record_header(const std::string& name, DType dtype, const Shape& shape,
                          std::uint64_t content_bytes) {
  if (dtype == DType::kMap) return map_header(name, content_bytes);
  const Lengths lengths = lengths_of(name, dtype, shape, content_bytes);
  const std::string_view type = mindspore_name(dtype);
  std::string out;
  out.reserve(field_bytes(lengths.value) - content_bytes);
  out += kValueKey;
  append_varint(out, lengths.value);
  out += kTagKey;
  append_varint(out, name.size());
  out += name;
  out += kTensorKey;
  append_varint(out, lengths.tensor);
  for (const std::int64_t dim : written_dims(dtype, shape)) {
    out += kDimKey;
    append_varint(out, static_cast<std::uint64_t>(dim));
  }
  out += kTypeKey;
  append_varint(out, type.size());
  out += type;
  out += kContentKey;
  append_varint(out, content_bytes);
  return out;
}

std::uint64_t record_header_bytes(const std::string& name, DType dtype, const Shape& shape,
                                  std::uint64_t content_bytes) {
  if (dtype == DType::kMap)
    return field_bytes(map_value_bytes(name, content_bytes)) - content_bytes;
  return field_bytes(lengths_of(name, dtype, shape, content_bytes).value) - content_bytes;
}

}  // namespace reshardfs::ckpt
