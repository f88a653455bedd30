// SPDX-License-Identifier: Apache-2.0
/// The safetensors format, writing: the bytes before the tensors, and where each tensor stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

namespace reshardfs::safetensors {

struct HeaderTensor {
  std::string_view name;  ///< unique, UTF-8, not empty; of a text that outlives it
  DType dtype = DType::kFloat32;
  Shape shape;
  /// Stands before others of its type, as the library would not have it.
  bool comes_first = false;
};

/// Texts, in the order in which they are to be written. The library writes several in an order
/// that differs from run to run; one, MindSpore's {"format": "ms"}, is all that can be the same.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// A file is `bytes`, then the tensors in `order`, without holes.
struct Header {
  /// The header's length, the JSON text, and spaces up to where the tensors begin.
  std::string bytes;
  /// Positions in the given list, in the order in which the tensors stand in the file: by element
  /// type as the library sorts them (wide ones first, so that each tensor begins at a multiple of
  /// its element's size), then by name.
  std::vector<std::size_t> order;
  /// Of each tensor of the given list (not of `order`): bytes from the end of the header to its
  /// first byte.
  std::vector<std::uint64_t> data_offsets;
  /// Bytes of all tensors.
  std::uint64_t data_bytes = 0;

  std::uint64_t file_bytes() const noexcept { return bytes.size() + data_bytes; }
};

/// Where tensors begin in a file: `place` bytes behind a multiple of `align`.
struct DataPlace {
  /// @param own_align a power of two, at least 8. @param own_place a multiple of 8, below it.
  DataPlace(std::uint64_t own_align = 8, std::uint64_t own_place = 0) noexcept
      : align(own_align), place(own_place) {}

  std::uint64_t align;
  std::uint64_t place;
};

/// What the safetensors library writes for these tensors, byte for byte if `data` is {8}.
/// Int4 is I8, as which it is held; that MindSpore can tell it apart, `metadata` must have an entry
/// of the tensor's name with the value "Int4". O(n log n).
/// @param metadata written as `__metadata__`; none if it is empty.
/// @param data where the first tensor begins. The format allows no holes, so that the others begin
///             where the one before ends.
/// @param by_name the positions of the tensors in the order of their names, where the caller knows
///                it: then they are not sorted. Empty: it does not.
/// @throws Error kUnsupported (with parameter) for what the format cannot hold: names that are not
///         UTF-8 or are `__metadata__`, headers above 100,000,000 bytes; kBadInput for a name that
///         stands twice and for sizes above 63 bits; kInternal for what is no array, for a wrong
///         `data` and a wrong `by_name`.
Header make_header(std::span<const HeaderTensor> tensors, const Metadata& metadata,
                   const DataPlace& data = {}, std::span<const std::uint32_t> by_name = {});

/// What tensors take of a file, whatever else is in its header.
struct TensorBytes {
  std::uint64_t text = 0;  ///< their entries, with the commas between them
  std::uint64_t data = 0;  ///< their elements
};

/// @throws Error as make_header(), except for what it throws of metadata and `data`.
TensorBytes tensor_bytes(std::span<const HeaderTensor> tensors,
                         std::span<const std::uint32_t> by_name = {});
/// Header::file_bytes(), without the text of a million tensors. @throws Error as make_header()
std::uint64_t file_bytes(const TensorBytes& tensors, const Metadata& metadata,
                         const DataPlace& data = {});

}  // namespace reshardfs::safetensors
