// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <vector>

#include "base/byte_range.h"
#include "base/text/numbers.h"
#include "format/ckpt/ckpt.h"
#include "format/safetensors/safetensors.h"

namespace reshardfs::safetensors {
namespace {

std::uint32_t crc_of(const ByteSource& source) {
  const FileIndex index = read_index(source);
  std::vector<const TensorEntry*> by_name;
  by_name.reserve(index.entries().size());
  for (const TensorEntry& entry : index.entries()) by_name.push_back(&entry);
  std::sort(by_name.begin(), by_name.end(),
            [](const TensorEntry* a, const TensorEntry* b) { return a->name < b->name; });
  ckpt::CrcSum sum;
  for (const TensorEntry* entry : by_name) {
    sum.add(std::as_bytes(std::span(entry->name)));
    for (const ByteRange& extent : entry->extents) {
      for_each_block(source, extent, [&](std::span<const std::byte> bytes) { sum.add(bytes); });
    }
  }
  return sum.value();
}

}  // namespace

CrcCheck check_crc(const ByteSource& source) {
  const std::map<std::string, std::string> metadata = read_metadata(source);
  const auto stated = metadata.find("crc_num");
  if (stated == metadata.end()) return CrcCheck::kNoTrailer;
  const std::optional<std::uint32_t> number = parse_number<std::uint32_t>(stated->second);
  const bool good = number && *number == crc_of(source);
  source.check_unchanged();
  return good ? CrcCheck::kGood : CrcCheck::kBad;
}

}  // namespace reshardfs::safetensors
