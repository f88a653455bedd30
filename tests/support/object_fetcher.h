// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "storage/pool/block_pool.h"

namespace reshardfs {

/// An object of no server, whose version stays; how it is fetched the test says.
class ObjectFetcher : public RangeFetcher {
 public:
  explicit ObjectFetcher(std::uint64_t size) : size_(size) {}

  const std::string& name() const noexcept override { return name_; }
  std::uint64_t size() const noexcept override { return size_; }
  std::int64_t mtime_ns() const noexcept override { return 1'700'000'000'123'456'789; }
  FileStamp stamp() const noexcept override { return {.device = 5, .inode = 6, .ctime_ns = 7}; }
  const std::string& identity() const noexcept override { return name_; }
  void check_unchanged() const override {}

 private:
  std::string name_ = "test://object";
  std::uint64_t size_;
};

/// Of an object in which each sector of the pool's has a byte of its own.
inline std::byte sector_byte(std::uint64_t offset) {
  return static_cast<std::byte>(offset / BlockPool::kSectorBytes % 251 + 1);
}

inline void fill_sectors(std::uint64_t offset, std::span<std::byte> out) {
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t count = std::min(
        out.size() - at, BlockPool::kSectorBytes - (offset + at) % BlockPool::kSectorBytes);
    std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(at), count, sector_byte(offset + at));
    at += count;
  }
}

}  // namespace reshardfs
