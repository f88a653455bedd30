// SPDX-License-Identifier: Apache-2.0
#include "format/npy.h"

#include <cstdint>
#include <limits>

#include "reshardfs/error.h"

namespace reshardfs::npy {
namespace {

constexpr std::size_t kAlign = 64;
/// NumPy leaves room for the first dimension to grow to this many digits.
constexpr std::size_t kGrowthDigits = 21;

/// In version 1.0, with a length of 16 bits after the 8 bytes of the mark and the version.
constexpr std::size_t kMaxFirstVersion =
    8 + sizeof(std::uint16_t) + std::numeric_limits<std::uint16_t>::max();

/// A Python tuple: "()", "(3,)", "(2, 3)".
std::string tuple_of(const Shape& shape) {
  std::string text;
  for (const std::int64_t dim : shape) {
    if (!text.empty()) text += ", ";
    text += std::to_string(dim);
  }
  return '(' + text + (shape.size() == 1 ? ",)" : ")");
}

std::string dictionary_of(DType dtype, const Shape& shape) {
  std::string text = "{'descr': '" + std::string(numpy_descr(dtype)) +
                     "', 'fortran_order': False, 'shape': " + tuple_of(shape) + ", }";
  if (!shape.empty()) text.append(kGrowthDigits - std::to_string(shape.front()).size(), ' ');
  return text;
}

/// @param length_bytes how many the header's length is written in.
std::string wrapped(const std::string& text, char version, std::size_t length_bytes) {
  std::string bytes = std::string("\x93NUMPY") + version + '\0';
  const std::size_t unpadded = bytes.size() + length_bytes + text.size() + 1;
  // At least one space and at most 64, as NumPy does it.
  const std::size_t padding = kAlign - unpadded % kAlign;
  const std::size_t length = text.size() + padding + 1;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(length >> (8 * i)));
  }
  return bytes + text + std::string(padding, ' ') + '\n';
}

}  // namespace

std::string header(DType dtype, const Shape& shape) {
  if (!is_array(dtype)) {
    throw Error(ErrorKind::kInternal, "text and maps cannot be written as .npy");
  }
  const std::string text = dictionary_of(dtype, shape);
  std::string first_version = wrapped(text, '\x01', sizeof(std::uint16_t));
  if (first_version.size() <= kMaxFirstVersion) return first_version;
  return wrapped(text, '\x02', sizeof(std::uint32_t));
}

}  // namespace reshardfs::npy
