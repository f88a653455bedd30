// SPDX-License-Identifier: Apache-2.0
#include "conversion/source_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "reshardfs/error.h"

#include "base/json/json_writer.h"
#include "storage/byte_source.h"

namespace reshardfs {
namespace {

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

/// @param samples of its bytes: the sum.
std::string object_of(const ConversionSource& file, const std::string& shown_path,
                      std::optional<std::uint64_t> samples) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member("path", shown_path);
  json.member("bytes", file.bytes);
  json.member("mtime_ns", file.mtime_ns);
  json.member("ctime_ns", file.ctime_ns);
  json.member("inode", file.inode);
  json.member("index", fmt::format("{:016x}", file.index_sum));
  if (samples) json.member("samples", fmt::format("{:016x}", *samples));
  json.close_object();
  return json.take();
}

bool differ(const JsonValue& old, const JsonValue& now, const Field& field) {
  return !is_same_json(old.find(field.key), now.find(field.key));
}

}  // namespace

std::string source_file_identity(const ConversionSource& file, const std::string& shown_path) {
  const ByteSourcePtr source = open_file(file.path);
  require_opened(*source, file);
  // A server tells versions apart itself: its stamp is made of that.
  const std::uint64_t samples = source->is_remote() ? file.inode : sum_of_samples(*source);
  source->check_unchanged();
  return object_of(file, shown_path, samples);
}

std::string source_file_facts(const ConversionSource& file, const std::string& shown_path) {
  return object_of(file, shown_path, std::nullopt);
}

std::string source_file_difference(const JsonValue& old, const JsonValue& now) {
  for (const Field& field : kFields) {
    if (differ(old, now, field)) return field.words;
  }
  return {};
}

bool may_be_a_copy(const JsonValue& old, const JsonValue& now) {
  return std::none_of(kFields.begin(), kFields.end(), [&](const Field& field) {
    return field.tells_contents && differ(old, now, field);
  });
}

}  // namespace reshardfs
