// SPDX-License-Identifier: Apache-2.0
/// What the cache keeps, and how a file of it looks: a page with a header, then the content.
///
/// The header identifies the content, and has the checksums of the content and of itself. So a file
/// under a record's name is either valid or recognized as something else: half of the record, zeros
/// after a crash of the machine, another record, or a record with a wrong bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "cache/checksum.h"
#include "cache/object_key.h"

namespace reshardfs {

/// Of the content's place in the file: a page, so that the content is read at the boundaries of
/// pages.
inline constexpr std::size_t kHeaderBytes = 4096;

enum class RecordKind : std::uint32_t {
  kBlock = 1,  ///< part of an object's bytes
  kValue = 2,  ///< something made of an object
};

struct RecordId {
  ObjectKey object;
  RecordKind kind = RecordKind::kBlock;
  std::uint64_t number = 0;  ///< of the block

  bool operator==(const RecordId&) const = default;
};

/// "a/bcdef...", with a NUL at its end: 128 bits of hash in hexadecimal digits. Should two records
/// have the same one, the header tells them apart, and each removes the other when it is asked for.
using RecordPath = std::array<char, 34>;
RecordPath record_path(const RecordId& id) noexcept;

/// Content is checked piece by piece, so that reading a part does not require reading all of it.
inline constexpr std::size_t kPieces = 64;
/// Bytes of a piece; the last one may be shorter. 16 KiB up to a block of 1 MiB.
std::uint64_t piece_bytes(std::uint64_t length) noexcept;

class RecordHeader {
 public:
  /// Of a record with this content.
  static void write(const RecordId& id, Bytes content,
                    std::span<std::byte, kHeaderBytes> page) noexcept;

  /// @return nothing if the page is not the undamaged header of this record with this length.
  static std::optional<RecordHeader> read(std::span<const std::byte, kHeaderBytes> page,
                                          const RecordId& id, std::uint64_t length) noexcept;

  std::uint64_t sum_of_piece(std::size_t piece) const noexcept { return sums_.at(piece); }

 private:
  using Sums = std::array<std::uint64_t, kPieces>;
  explicit RecordHeader(const Sums& sums) noexcept : sums_(sums) {}

  Sums sums_;
};

// NOLINTBEGIN(modernize-avoid-c-arrays): of a length that is known when it runs
/// Memory for bytes that will all be written: filling it with zeros before would take as long.
using UnfilledBytes = std::unique_ptr<std::byte[]>;

/// @throws std::bad_alloc
inline UnfilledBytes unfilled_bytes(std::size_t count) {
  return std::make_unique_for_overwrite<std::byte[]>(count);
}
// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace reshardfs
