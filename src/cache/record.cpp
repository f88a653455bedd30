// SPDX-License-Identifier: Apache-2.0
#include "cache/record.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace reshardfs {
namespace {

constexpr std::uint64_t kSmallestPiece = 16 << 10;
/// Of the byte order, too: a machine with another one finds another number.
constexpr std::uint64_t kRecordMagic = 0x31304d5243534852;  // "RHSCRM01"

/// The record's form in the file: in the byte order of the machine, without gaps.
struct RecordLayout {
  std::uint64_t magic = kRecordMagic;
  std::uint64_t number = 0;
  std::uint64_t length = 0;
  std::uint32_t kind = 0;
  std::uint32_t unused = 0;
  ObjectKey::Digits object{};
  std::array<std::uint64_t, kPieces> sums{};
};
static_assert(std::has_unique_object_representations_v<RecordLayout>);

/// The last bytes of the page are the sum of all before them.
constexpr std::size_t kSumOffset = kHeaderBytes - sizeof(std::uint64_t);
static_assert(sizeof(RecordLayout) <= kSumOffset);

RecordLayout layout_of(const RecordId& id, std::uint64_t length) noexcept {
  RecordLayout layout;
  layout.number = id.number;
  layout.length = length;
  layout.kind = static_cast<std::uint32_t>(id.kind);
  layout.object = id.object.digits();
  return layout;
}

}  // namespace

RecordPath record_path(const RecordId& id) noexcept {
  const RecordLayout named = layout_of(id, 0);
  std::array<char, 32> digits{};
  hex_hash(std::as_bytes(std::span(&named, 1)), digits);
  RecordPath path{};
  path[0] = digits[0];
  path[1] = '/';
  std::copy(digits.begin() + 1, digits.end(), path.begin() + 2);
  return path;
}

std::uint64_t piece_bytes(std::uint64_t length) noexcept {
  const std::uint64_t least = length / kPieces + (length % kPieces != 0 ? 1 : 0);
  return std::max(kSmallestPiece, least);
}

void RecordHeader::write(const RecordId& id, Bytes content,
                         std::span<std::byte, kHeaderBytes> page) noexcept {
  RecordLayout layout = layout_of(id, content.size());
  const std::uint64_t piece = piece_bytes(content.size());
  for (std::size_t i = 0; i * piece < content.size(); ++i) {
    const std::size_t begin = i * piece;
    layout.sums.at(i) =
        checksum(content.subspan(begin, std::min<std::size_t>(piece, content.size() - begin)));
  }
  std::fill(page.begin(), page.end(), std::byte{0});
  std::memcpy(page.data(), &layout, sizeof(layout));
  const std::uint64_t sum = checksum(Bytes(page.first<kSumOffset>()));
  std::memcpy(&page[kSumOffset], &sum, sizeof(sum));
}

std::optional<RecordHeader> RecordHeader::read(std::span<const std::byte, kHeaderBytes> page,
                                               const RecordId& id, std::uint64_t length) noexcept {
  std::uint64_t sum = 0;
  std::memcpy(&sum, &page[kSumOffset], sizeof(sum));
  if (sum != checksum(Bytes(page.first<kSumOffset>()))) return std::nullopt;
  RecordLayout found;
  std::memcpy(&found, page.data(), sizeof(found));
  RecordLayout expected = layout_of(id, length);
  expected.sums = found.sums;
  if (std::memcmp(&found, &expected, sizeof(found)) != 0) return std::nullopt;
  return RecordHeader(found.sums);
}

}  // namespace reshardfs
