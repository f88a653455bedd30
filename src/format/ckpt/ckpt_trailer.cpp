// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include <zlib.h>

#include "reshardfs/error.h"

#include "base/byte_range.h"
#include "format/ckpt/ckpt.h"
#include "format/ckpt/ckpt_scanner.h"

namespace reshardfs::ckpt {
namespace {

bool has_trailer(const ByteSource& source) {
  if (source.size() < kTrailerBytes) return false;
  std::string mark(kTrailerMark.size(), '\0');
  source.read_at(source.size() - kTrailerBytes, std::as_writable_bytes(std::span(mark)));
  if (mark != kTrailerMark) return false;
  try {
    RecordScanner scanner(source);
    while (scanner.next()) {
    }
    return scanner.at_trailer();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput && error.kind() != ErrorKind::kUnsupported) throw;
    return false;
  }
}

/// The number of a trailer, or nothing if it is too large to be a CRC-32.
std::optional<std::uint32_t> trailer_number(const ByteSource& source) {
  std::array<std::byte, kTrailerBytes - kTrailerMark.size()> number{};
  source.read_at(source.size() - number.size(), number);
  std::uint32_t value = 0;
  for (const std::byte byte : number) {
    if (value > std::numeric_limits<std::uint32_t>::max() >> 8U) return std::nullopt;
    value = value << 8U | std::to_integer<std::uint32_t>(byte);
  }
  return value;
}

std::uint32_t crc_of(const ByteSource& source, std::uint64_t end) {
  CrcSum sum;
  for_each_block(source, ByteRange::whole(end),
                 [&](std::span<const std::byte> bytes) { sum.add(bytes); });
  return sum.value();
}

}  // namespace

void CrcSum::add(std::span<const std::byte> bytes) noexcept {
  // zlib's interface predates std::byte.
  const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
  value_ = static_cast<std::uint32_t>(::crc32_z(value_, data, bytes.size()));
}

std::string trailer(std::uint32_t crc) {
  std::string bytes(kTrailerBytes, '\0');
  bytes.replace(0, kTrailerMark.size(), kTrailerMark);
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[kTrailerBytes - 1 - i] = static_cast<char>(crc >> (8 * i) & 0xffU);
  }
  return bytes;
}

std::optional<std::uint32_t> read_trailer(const ByteSource& source) {
  if (!has_trailer(source)) return std::nullopt;
  const std::optional<std::uint32_t> number = trailer_number(source);
  if (number) return number;
  throw Error(ErrorKind::kBadInput, "the CRC trailer's number does not fit 32 bits")
      .in_file(source.name())
      .at_offset(source.size() - kTrailerBytes);
}

CrcCheck check_crc(const ByteSource& source) {
  if (!has_trailer(source)) return CrcCheck::kNoTrailer;
  const std::optional<std::uint32_t> stated = trailer_number(source);
  const bool good = stated && *stated == crc_of(source, source.size() - kTrailerBytes);
  source.check_unchanged();
  return good ? CrcCheck::kGood : CrcCheck::kBad;
}

}  // namespace reshardfs::ckpt
