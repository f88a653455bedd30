// SPDX-License-Identifier: Apache-2.0
#include "export/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "reshardfs/error.h"

#include "storage/descriptor_pool.h"

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

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void require_opened(int fd, const ConversionSource& file) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) throw io_error("examine", file.path, errno);
  if (found.st_dev == file.device && found.st_ino == file.inode &&
      nanoseconds(found.st_mtim) == file.mtime_ns && nanoseconds(found.st_ctim) == file.ctime_ns) {
    return;
  }
  throw Error(ErrorKind::kChanged, "has been changed or replaced since the export began")
      .in_file(file.path)
      .hint("run the same command again when it is complete");
}

void read_at(int fd, std::uint64_t offset, std::span<std::byte> out, const ConversionSource& file) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error("read", file.path, errno).at_offset(offset);
    if (got == 0) return;  // shorter meanwhile, which its times tell
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

/// Of pages that lie evenly in the file, its first and its last among them: the bytes as they are
/// stored, which is not as they are read if they are encrypted.
std::uint64_t sum_of_samples(int fd, const ConversionSource& file) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) throw io_error("examine", file.path, errno);
  const auto size = static_cast<std::uint64_t>(found.st_size);
  const std::uint64_t last = size - std::min(size, kSampleBytes);
  // All of a small file.
  const std::uint64_t steps = std::min(size / kSampleBytes, kSamples - 1);
  std::vector<std::byte> bytes(static_cast<std::size_t>((steps + 1) * kSampleBytes));
  read_at(fd, 0, std::span(bytes).first(kSampleBytes), file);
  for (std::uint64_t i = 1; i <= steps; ++i) {
    const std::uint64_t offset = last / steps * i + last % steps * i / steps;
    read_at(fd, offset, std::span(bytes).subspan(i * kSampleBytes, kSampleBytes), file);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

Json source_file_identity(const ConversionSource& file, const std::string& shown_path) {
  const int fd = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) throw io_error("open", file.path, errno);
  const Descriptor descriptor(fd);
  require_opened(fd, file);
  const std::uint64_t samples = sum_of_samples(fd, file);
  require_opened(fd, file);
  return {{"path", shown_path},
          {"bytes", file.bytes},
          {"mtime_ns", file.mtime_ns},
          {"ctime_ns", file.ctime_ns},
          {"inode", file.inode},
          {"index", fmt::format("{:016x}", file.index_sum)},
          {"samples", fmt::format("{:016x}", samples)}};
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
