// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include <zlib.h>

#include "format/safetensors.h"

namespace reshardfs::safetensors {
namespace {

constexpr std::size_t kBlockBytes = 1U << 20U;

std::optional<std::uint32_t> number_of(const std::string& text) {
  std::uint32_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

class Crc {
 public:
  explicit Crc(const ByteSource& source)
      : source_(source), block_(std::min<std::uint64_t>(kBlockBytes, source.size())) {}

  void add(std::span<const std::byte> bytes) {
    // zlib's interface predates std::byte.
    value_ = ::crc32_z(value_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }

  void add(const Extent& extent) {
    for (std::uint64_t done = 0; done < extent.length;) {
      const std::size_t bytes = std::min<std::uint64_t>(block_.size(), extent.length - done);
      const auto part = std::span(block_).first(bytes);
      source_.read_at(extent.offset + done, part);
      add(part);
      done += bytes;
    }
  }

  std::uint32_t value() const { return static_cast<std::uint32_t>(value_); }

 private:
  const ByteSource& source_;
  std::vector<std::byte> block_;
  uLong value_ = ::crc32(0, nullptr, 0);
};

std::uint32_t crc_of(const ByteSource& source) {
  const FileIndex index = read_index(source);
  std::vector<const TensorEntry*> by_name;
  by_name.reserve(index.entries().size());
  for (const TensorEntry& entry : index.entries()) by_name.push_back(&entry);
  std::sort(by_name.begin(), by_name.end(),
            [](const TensorEntry* a, const TensorEntry* b) { return a->name < b->name; });
  Crc crc(source);
  for (const TensorEntry* entry : by_name) {
    crc.add(std::as_bytes(std::span(entry->name)));
    for (const Extent& extent : entry->extents) crc.add(extent);
  }
  return crc.value();
}

}  // namespace

CrcCheck check_crc(const ByteSource& source) {
  const std::map<std::string, std::string> metadata = read_metadata(source);
  const auto stated = metadata.find("crc_num");
  if (stated == metadata.end()) return CrcCheck::kNoTrailer;
  const std::optional<std::uint32_t> number = number_of(stated->second);
  const bool good = number && *number == crc_of(source);
  source.check_unchanged();
  return good ? CrcCheck::kGood : CrcCheck::kBad;
}

}  // namespace reshardfs::safetensors
