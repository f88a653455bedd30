// SPDX-License-Identifier: Apache-2.0
/// A cache on disk of blocks of objects that are slow to read, and of values made of objects.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cache/object_key.h"

namespace reshardfs {

/// Any number of processes of one user on one machine share a directory, without a server: each may
/// be killed at any time. What is given out has been compared with its checksum; what is not right
/// is removed and counts as missing. Nothing waits for the disk to have what is written.
///
/// The bound is that of all processes together. If they were told different ones, each keeps its
/// own when it writes. Only what is just being removed while somebody reads it goes beyond the
/// bound.
///
/// The cache does not know which users may read an object. Use it only after the object was opened
/// with the user's credentials, so that no user gets bytes that he could not read himself.
///
/// All functions save open() may be called from any number of threads at once, and do not throw.
/// The first call of any but open() and stats() starts a thread. The child of a fork opens another
/// one with the same options.
class BlockCache {
 public:
  static constexpr std::size_t kBlockBytes = 1 << 20;
  static constexpr std::uint64_t kMinBytes = 16 << 20;

  struct Options {
    std::filesystem::path directory;  ///< made if it is not there; each user has an own one in it
    std::uint64_t max_bytes = 0;      ///< on disk, at least kMinBytes
  };

  /// @throws Error kUsage if max_bytes is too small, or if the user's directory is not his alone;
  /// kIo.
  static std::shared_ptr<BlockCache> open(const Options& options);

  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  /// Records that have not been written yet are dropped. Takes at most two seconds, even if the
  /// disk hangs.
  ~BlockCache();

  /// Fills `out` with all of a block: kBlockBytes, or less if it is the object's last one.
  /// @return false if there is no such block with this length; `out` is then undefined.
  bool read(const ObjectKey& object, std::uint64_t block, std::span<std::byte> out) noexcept;

  /// Fills `out` with the bytes of a block from `offset` on. Reads and checks the pieces of 16 KiB
  /// that have them, and costs a few microseconds beside that; fewer for the next part of the same
  /// block, which stays open until its end was read.
  /// @param block_length of the whole block; offset + out.size() must not be more.
  bool read_part(const ObjectKey& object, std::uint64_t block, std::uint64_t block_length,
                 std::uint64_t offset, std::span<std::byte> out) noexcept;

  /// Whether there is such a block; whether it is right is found out by reading it.
  bool has(const ObjectKey& object, std::uint64_t block) noexcept;

  /// Keeps a copy of all of a block, soon: another thread writes it. Does not if too much waits to
  /// be written, or if writing failed a moment ago: the disk may be full, for example.
  /// @param bytes kBlockBytes, or less if it is the object's last block.
  void write(const ObjectKey& object, std::uint64_t block,
             std::span<const std::byte> bytes) noexcept;

  /// A value that was made of an object, such as its index. It counts towards the bound, too.
  /// @param name says what it is; change it when its format changes.
  std::optional<std::string> load(std::string_view name, const ObjectKey& object) noexcept;
  /// As write(). Values above a quarter of the bound are not kept.
  void store(std::string_view name, const ObjectKey& object, std::string_view bytes) noexcept;

  /// Waits until what was given to write() and store() is kept, or is not: for tests, and for
  /// programs that end soon.
  /// @param patience the disk may hang
  void flush(std::chrono::seconds patience = std::chrono::seconds(60)) noexcept;

  /// What this process has done so far; bytes_held alone is about all of them.
  struct Stats {
    std::uint64_t hits = 0;        ///< blocks, or parts of them, that were given out
    std::uint64_t misses = 0;      ///< those that were not: missing, bad, or not readable
    std::uint64_t value_hits = 0;  ///< the same for values
    std::uint64_t value_misses = 0;
    std::uint64_t bytes_read = 0;       ///< given out; of values, too
    std::uint64_t bytes_written = 0;    ///< kept, without headers; of values, too
    std::uint64_t bad_records = 0;      ///< blocks and values that were not right and were removed
    std::uint64_t evicted_records = 0;  ///< by this process
    std::uint64_t not_kept = 0;         ///< too much waited, there was no room, or it had failed
    std::uint64_t failures = 0;         ///< of the system, reading or writing
    std::uint64_t bytes_held = 0;       ///< on disk; never too low, sometimes too high for a while
    std::uint64_t max_bytes = 0;
  };
  Stats stats() const noexcept;

  /// In the child of a fork, for the parent's: closes the descriptors under which the parent may
  /// hold locks, which would last for as long as the child. It is of no use then but for options().
  /// Neither allocates, locks nor waits.
  void leave() noexcept;

  /// With which it was opened.
  const Options& options() const noexcept;
  /// The user's own directory in the one that was given.
  std::filesystem::path directory() const;

 private:
  struct Parts;
  explicit BlockCache(std::unique_ptr<Parts> parts) noexcept;

  const std::unique_ptr<Parts> parts_;
};

}  // namespace reshardfs
