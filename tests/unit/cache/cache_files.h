// SPDX-License-Identifier: Apache-2.0
/// What the tests of the cache know of its files.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cache/block_cache.h"
#include "support/block_contents.h"
#include "support/temp_dir.h"

namespace reshardfs::test {

namespace fs = std::filesystem;
using Contents = std::vector<std::byte>;

inline constexpr std::size_t kBlock = BlockCache::kBlockBytes;

/// A cache in a directory of its own.
struct CacheInDirectory {
  explicit CacheInDirectory(std::uint64_t bound = 64 << 20) : max_bytes(bound) { reopen(); }

  void reopen() {
    cache.reset();
    cache = BlockCache::open({dir.path() / "cache", max_bytes});
  }
  void put(const std::string& identity, std::uint64_t block, std::size_t size = kBlock) const {
    cache->write(ObjectKey(identity), block, block_contents(identity, block, size));
    cache->flush();
  }
  /// Whether it is there; then it is right.
  bool has(const std::string& identity, std::uint64_t block, std::size_t size = kBlock) const {
    Contents out(size);
    if (!cache->read(ObjectKey(identity), block, out)) return false;
    EXPECT_TRUE(out == block_contents(identity, block, size)) << identity << ' ' << block;
    return true;
  }
  fs::path own() const { return dir.path() / "cache" / fmt::format("reshardfs-{}", ::geteuid()); }

  /// The files of all records.
  std::set<fs::path> records() const {
    std::set<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(own())) {
      const bool in_folder = entry.path().parent_path().filename().string().size() == 1;
      if (in_folder) found.insert(entry.path());
    }
    return found;
  }
  /// As put(). @return the file that was made.
  fs::path put_file(const std::string& identity, std::uint64_t block,
                    std::size_t size = kBlock) const {
    const std::set<fs::path> before = records();
    put(identity, block, size);
    for (const fs::path& path : records()) {
      if (!before.contains(path)) return path;
    }
    ADD_FAILURE() << "no file was made";
    return {};
  }
  /// Bytes on disk of all its files and directories.
  std::uint64_t bytes_on_disk() const {
    std::uint64_t sum = 0;
    for (const auto& entry : fs::recursive_directory_iterator(own())) {
      struct stat status {};
      if (::lstat(entry.path().c_str(), &status) == 0) {
        sum += static_cast<std::uint64_t>(status.st_blocks) * 512;
      }
    }
    return sum;
  }

  TempDir dir;
  std::uint64_t max_bytes;
  std::shared_ptr<BlockCache> cache;
};

inline void set_last_use(const fs::path& path, std::chrono::seconds ago) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - ago);
}

/// Changes one bit of a file.
inline void flip_bit(const fs::path& path, std::uint64_t bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto at = static_cast<std::streamoff>(bit / 8);
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ (1 << (bit % 8)));
  file.seekp(at);
  file.put(byte);
  ASSERT_TRUE(file.flush()) << path;
}

}  // namespace reshardfs::test
