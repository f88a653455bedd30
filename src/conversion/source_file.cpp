// SPDX-License-Identifier: Apache-2.0
#include "conversion/source_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "reshardfs/error.h"

#include "storage/byte_source.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

// Together as much as one request of a mount reads.
constexpr std::uint64_t kSamples = 64;
constexpr std::uint64_t kSampleBytes = 4096;

struct Field {
  const char* key;
  const char* words;
  bool tells_contents;
};
constexpr std::array kFields{
    Field{"bytes", "has a different size", true},
    Field{"index", "has different parameters", true},
    Field{"samples", "has different contents", true},
    Field{"mtime_ns", "has a different modification time", false},
    Field{"inode", "is a different file (by inode number)", false},
    Field{"ctime_ns", "has a different change time", false},
};

void require_opened(const ByteSource& source, const ConversionSource& file) {
  const FileStamp found = source.stamp();
  if (found.device == file.device && found.inode == file.inode &&
      source.mtime_ns() == file.mtime_ns && found.ctime_ns == file.ctime_ns) {
    return;
  }
  throw Error(ErrorKind::kChanged, "has been changed or replaced since the export began")
      .in_file(file.path)
      .hint("run the same command again when it is complete");
}

/// Of pages that lie evenly in the file, its first and its last among them: the bytes as they are
/// stored, which is not as they are read if they are encrypted.
std::uint64_t sum_of_samples(const ByteSource& source) {
  const std::uint64_t size = source.size();
  const std::uint64_t sample = std::min(size, kSampleBytes);
  const std::uint64_t last = size - sample;
  // All of a small file.
  const std::uint64_t steps = std::min(size / kSampleBytes, kSamples - 1);
  std::vector<std::byte> bytes(static_cast<std::size_t>((steps + 1) * kSampleBytes));
  std::vector<ReadRequest> parts{{0, std::span(bytes).first(sample)}};
  for (std::uint64_t i = 1; i <= steps; ++i) {
    const std::uint64_t offset = last / steps * i + last % steps * i / steps;
    parts.push_back({offset, std::span(bytes).subspan(i * kSampleBytes, sample)});
  }
  source.read_many(parts);
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

Json source_file_identity(const ConversionSource& file, const std::string& shown_path) {
  const ByteSourcePtr source = open_file(file.path);
  require_opened(*source, file);
  // A server tells versions apart itself: its stamp is made of that.
  const std::uint64_t samples = source->is_remote() ? file.inode : sum_of_samples(*source);
  source->check_unchanged();
  Json identity = source_file_facts(file, shown_path);
  identity["samples"] = fmt::format("{:016x}", samples);
  return identity;
}

Json source_file_facts(const ConversionSource& file, const std::string& shown_path) {
  return {{"path", shown_path},        {"bytes", file.bytes},
          {"mtime_ns", file.mtime_ns}, {"ctime_ns", file.ctime_ns},
          {"inode", file.inode},       {"index", fmt::format("{:016x}", file.index_sum)}};
}

std::string source_file_difference(const Json& old, const Json& now) {
  for (const Field& field : kFields) {
    if (old.value<Json>(field.key, Json()) != now.value<Json>(field.key, Json())) {
      return field.words;
    }
  }
  return {};
}

bool may_be_a_copy(const Json& old, const Json& now) {
  return std::all_of(kFields.begin(), kFields.end(), [&](const Field& field) {
    return !field.tells_contents ||
           old.value<Json>(field.key, Json()) == now.value<Json>(field.key, Json());
  });
}

}  // namespace reshardfs
