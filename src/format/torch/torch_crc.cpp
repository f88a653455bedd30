// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_crc.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <zlib.h>

#include "format/torch/torch_archive.h"
#include "format/torch/torch_zip.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kBlockBytes = 1ULL << 20U;

std::uint32_t zip_crc(const ByteSource& source, ByteRange range, std::vector<std::byte>& buffer) {
  uLong crc = ::crc32(0, nullptr, 0);
  while (!range.empty()) {
    const auto part =
        std::span(buffer).first(static_cast<std::size_t>(std::min(range.length(), kBlockBytes)));
    source.read_at(range.offset(), part);
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
    range = range.behind_first(part.size());
  }
  return static_cast<std::uint32_t>(crc);
}

}  // namespace

CrcCheck check_torch_crc(const ByteSource& source) {
  if (!begins_like_torch_zip(source)) return CrcCheck::kNoTrailer;
  const TorchZip zip(source, ByteRange::whole(source.size()));
  std::vector<std::pair<std::string, std::uint32_t>> entries;
  zip.for_each([&](const std::string& name, std::uint32_t crc) {
    if (crc != 0) entries.emplace_back(name, crc);
  });
  bool has_data = false;
  std::vector<std::byte> buffer(kBlockBytes);
  for (const auto& [name, crc] : entries) {
    has_data = has_data || name.starts_with("data/");
    if (zip_crc(source, zip.entry(name), buffer) != crc) return CrcCheck::kBad;
  }
  return has_data ? CrcCheck::kGood : CrcCheck::kNoTrailer;
}

}  // namespace reshardfs
