// SPDX-License-Identifier: Apache-2.0
/// What every input format yields: where in a file the bytes of each parameter are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "format/kept_entries.h"
#include "format/listed_items.h"

namespace reshardfs {

/// How the stored bytes become the element bytes.
enum class ContentEncoding : std::uint8_t {
  kPlain,              ///< as they are: C order, little endian
  kFloat32AsBFloat16,  ///< stored as float32, the upper two bytes of each element count (old files)
};

/// One parameter (or string) of one checkpoint file.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  ContentEncoding encoding = ContentEncoding::kPlain;
  /// The slice's shape; empty for a scalar. Also empty for types that are not arrays (text, maps),
  /// whose length is `content_bytes`.
  KeptShape shape;
  /// Where in the file the content stands, in its order; their lengths add up to content_bytes
  /// (twice that for kFloat32AsBFloat16).
  FileExtents extents;
  /// Bytes of the elements: see content_size().
  std::uint64_t content_bytes = 0;
};

class NameOrders;

/// What helps to build an index; nothing of it is needed.
struct IndexHints {
  /// Where indexes with the same names may be found.
  const NameOrders* known = nullptr;
  /// For messages: where in the file each entry begins.
  std::span<const std::uint64_t> offsets{};
  /// Bytes at the file's end that state a checksum and tell nothing about the parameters.
  std::uint64_t checksum_bytes = 0;
};

/// The parameters of one file, in file order. A name stands once, or for several boxes of one
/// tensor.
class FileIndex {
 public:
  /// Entries with equal shapes share them from then on.
  /// @param boxes the entries that are boxes; an entry's shape is the box's.
  /// @param refused what the file has beside the entries.
  /// @throws Error kBadInput (with parameter) if a name stands twice, but for boxes that differ in
  ///         place or shape; if a box's offsets do not fit its shape, or one is negative.
  explicit FileIndex(std::vector<TensorEntry> entries, const IndexHints& hints = {},
                     BoxOffsets boxes = {}, std::vector<RefusedTensor> refused = {});

  const std::vector<TensorEntry>& entries() const noexcept { return entries_; }
  /// The entry, or nullptr; of several boxes the first in the file. O(log n).
  const TensorEntry* find(std::string_view name) const noexcept;
  /// The positions in entries() of all that have the name, ascending. O(log n).
  std::span<const std::uint32_t> find_all(std::string_view name) const noexcept;

  /// The positions in entries() in the order of the names, those of equal ones ascending.
  std::span<const std::uint32_t> order_by_name() const noexcept { return *by_name_; }

  bool has_boxes() const noexcept { return !boxes_.empty(); }
  bool has_only_boxes() const noexcept { return boxes_.size() == entries_.size(); }
  /// Where a box begins in the full tensor; nothing if the entry is no box. O(log n).
  /// @param entry one of entries().
  std::optional<std::span<const std::int64_t>> box_offsets(
      const TensorEntry& entry) const noexcept {
    return boxes_.of(static_cast<std::size_t>(&entry - entries_.data()));
  }

  /// The same for two indexes only if they list the same names in the same order; for those that
  /// were read with the same NameOrders, exactly then.
  const void* name_order() const noexcept { return by_name_.get(); }

  /// Whether the file has it, as an entry or as a tensor that cannot be shown. O(log n).
  bool lists(std::string_view name) const noexcept;

  /// Tensors of the file that cannot be shown, and are no entries.
  const std::vector<RefusedTensor>& refused() const noexcept { return refused_; }

  /// See IndexHints.
  std::uint64_t checksum_bytes() const noexcept { return checksum_bytes_; }

 private:
  void share_shapes();
  void sort_by_name();
  void require_shapes() const;
  void require_distinct(const IndexHints& hints) const;

  std::vector<TensorEntry> entries_;
  BoxOffsets boxes_;
  std::vector<RefusedTensor> refused_;
  std::vector<std::uint32_t> refused_by_name_;  ///< positions in refused_
  /// Positions in entries_, sorted by name; never null.
  std::shared_ptr<const std::vector<std::uint32_t>> by_name_;
  std::uint64_t checksum_bytes_ = 0;
};

}  // namespace reshardfs
