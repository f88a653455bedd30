// SPDX-License-Identifier: Apache-2.0
/// What every input format yields: where in a file the bytes of each parameter are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

namespace reshardfs {

/// Contiguous bytes of one source file that hold (a part of) a parameter's content.
struct Extent {
  std::uint64_t offset = 0;  ///< bytes from the start of the file
  std::uint64_t length = 0;  ///< bytes

  bool operator==(const Extent&) const = default;
};

/// How the stored bytes become the element bytes.
enum class ContentEncoding : std::uint8_t {
  kPlain,              ///< as they are: C order, little endian
  kFloat32AsBFloat16,  ///< stored as float32, the upper two bytes of each element count (old files)
};

/// One parameter (or string) of one checkpoint file.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  /// The slice's shape; empty for a scalar. For kString: empty, `content_bytes` is the length.
  Shape shape;
  ContentEncoding encoding = ContentEncoding::kPlain;
  /// In order; their lengths add up to content_bytes (twice that for kFloat32AsBFloat16).
  std::vector<Extent> extents;
  /// Bytes of the elements: element_count(shape) * element_size(dtype).
  std::uint64_t content_bytes = 0;
};

/// The parameters of one file, in file order, each name once.
class FileIndex {
 public:
  /// @throws Error kBadInput (with parameter) if a name stands twice.
  explicit FileIndex(std::vector<TensorEntry> entries);

  const std::vector<TensorEntry>& entries() const noexcept { return entries_; }
  /// The entry, or nullptr. O(log n).
  const TensorEntry* find(std::string_view name) const noexcept;

 private:
  std::vector<TensorEntry> entries_;
  std::vector<std::uint32_t> by_name_;  ///< positions in entries_, sorted by name
};

}  // namespace reshardfs
