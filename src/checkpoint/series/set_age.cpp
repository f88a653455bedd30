// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/set_age.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/ranks/discovery.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
/// What clocks of different machines and a busy file system account for.
constexpr std::int64_t kTolerance = 60 * kSecond;
constexpr std::uint64_t kSlowestCopy = 20'000'000;  ///< bytes per second

/// The time that a copy of so many bytes may take.
std::int64_t copy_time(std::uint64_t bytes) {
  constexpr std::uint64_t kMostSeconds = 100ULL * 365 * 24 * 3600;
  return static_cast<std::int64_t>(std::min(bytes / kSlowestCopy, kMostSeconds)) * kSecond;
}

std::string with_time(const std::filesystem::path& path, std::int64_t mtime_ns) {
  return printable(path.filename().string()) + " (" + utc_time(mtime_ns) + ")";
}

}  // namespace

std::optional<std::string> newer_than_table(const Discovery& found,
                                            std::span<const RankFile> files) {
  if (found.written_last.empty()) return std::nullopt;
  std::vector<const RankFile*> by_age;
  std::uint64_t bytes = 0;
  for (const RankFile& file : files) {
    if (!file.source) continue;
    by_age.push_back(&file);
    bytes += file.source->size();
  }
  std::sort(by_age.begin(), by_age.end(), [](const RankFile* a, const RankFile* b) {
    return std::pair(a->source->mtime_ns(), a->path) < std::pair(b->source->mtime_ns(), b->path);
  });
  for (const WrittenLast& last : found.written_last) {
    if (last.mtime_ns == 0) continue;
    std::int64_t before = last.mtime_ns;
    std::int64_t allowed =
        kTolerance + copy_time(bytes) * static_cast<std::int64_t>(last.sets_since);
    for (const RankFile* file : by_age) {
      const std::int64_t mtime = file->source->mtime_ns();
      if (mtime <= before) continue;
      if (mtime - before > allowed + copy_time(file->source->size())) {
        return with_time(file->path, mtime) + " is newer than " +
               with_time(last.path, last.mtime_ns) +
               ", which a save writes last: it may be of another save, or was changed later";
      }
      before = mtime;
      allowed = kTolerance;
    }
  }
  return std::nullopt;
}

}  // namespace reshardfs
