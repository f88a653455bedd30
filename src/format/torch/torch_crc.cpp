// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_crc.h"

#include <algorithm>
#include <span>
#include <string_view>

#include <zlib.h>

#include "base/byte_range.h"
#include "format/torch/torch_zip.h"

namespace reshardfs {
namespace {

bool begins_like_zip(const ByteSource& source, const ByteRange& place) {
  constexpr std::string_view kMark("PK\x03\x04");
  if (place.length() < kMark.size()) return false;
  std::string begin(kMark.size(), '\0');
  source.read_at(place.offset(), std::as_writable_bytes(std::span(begin)));
  return begin == kMark;
}

}  // namespace

Error crc_mismatch(const ByteSource& source, const std::string& record) {
  const std::string where = record.empty() ? "" : "-32 in the record '" + printable(record) + "'";
  return Error(ErrorKind::kBadInput, "the file does not match its CRC" + where + ": it is damaged")
      .in_file(source.name())
      .hint("copy it again, or choose another step");
}

TorchCrcs torch_crcs(const ByteSource& source, const ByteRange& place) {
  if (!begins_like_zip(source, place)) return {};
  const TorchZip zip(source, place);
  zip.foresee("");
  TorchCrcs out;
  bool lacks = false;
  zip.for_each([&](const std::string& name, std::uint32_t crc) {
    const ByteRange bytes = zip.entry(name);
    if (bytes.empty()) return;
    // The other entries are a few characters of known texts.
    const bool counts = name == "data.pkl" || name.starts_with("data/");
    lacks = lacks || (counts && crc == 0);
    if (crc != 0) out.entries.push_back({name, bytes, crc});
  });
  out.are_all = !lacks && !out.entries.empty();
  return out;
}

bool matches(const ByteSource& source, const TorchCrcEntry& entry) {
  uLong crc = ::crc32(0, nullptr, 0);
  for_each_block(source, entry.place, [&](std::span<const std::byte> bytes) {
    crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  });
  return crc == entry.crc;
}

CrcCheck check_torch_crc(const ByteSource& source) {
  const TorchCrcs crcs = torch_crcs(source, ByteRange::whole(source.size()));
  const bool good = std::all_of(crcs.entries.begin(), crcs.entries.end(),
                                [&](const TorchCrcEntry& entry) { return matches(source, entry); });
  if (!good) return CrcCheck::kBad;
  return crcs.are_all ? CrcCheck::kGood : CrcCheck::kNoTrailer;
}

}  // namespace reshardfs
