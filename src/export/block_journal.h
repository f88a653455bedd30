// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "export/folder.h"

namespace reshardfs {

/// The name of the journal beside a partial file: `.NAME.reshardfs-blocks`.
std::string journal_name(const std::string& name);

/// Records which blocks of a partial file have been written, and their checksums, so that the next
/// process need not write them again after this one was killed. A block counts only if the bytes
/// that are read back have its checksum, so blocks that the machine lost in a crash are written
/// again.
///
/// Where it cannot be written, the file is written without one.
class BlockJournal {
 public:
  /// What a file is to be. Journals of others are of no use.
  struct Subject {
    std::string identity;  ///< without blanks
    std::uint64_t size = 0;
  };

  /// Begins a new journal, replacing any existing one.
  BlockJournal(Folder folder, const std::string& name, const Subject& subject,
               std::size_t block_bytes);
  BlockJournal(const BlockJournal&) = delete;
  BlockJournal& operator=(const BlockJournal&) = delete;

  /// Goes on with the one of a process before this one.
  /// @return nullptr if the subject has none with blocks of at most `most_block_bytes`.
  static std::unique_ptr<BlockJournal> resume(const Folder& folder, const std::string& name,
                                              const Subject& subject, std::size_t most_block_bytes);

  std::size_t block_bytes() const noexcept { return block_bytes_; }
  /// Whether a process before this one has written a block.
  bool knows(std::uint64_t offset) const { return known_.contains(offset); }
  /// Whether it wrote these bytes.
  bool matches(std::uint64_t offset, std::span<const std::byte> bytes) const;
  /// After a block was written. From any thread.
  void add(std::uint64_t offset, std::span<const std::byte> bytes) noexcept;
  /// Whether it has any block, for resume().
  bool has_blocks() noexcept;
  void remove() noexcept;

 private:
  explicit BlockJournal(Folder folder) : folder_(std::move(folder)) {}
  bool read(const Subject& subject, std::size_t most_block_bytes);

  Folder folder_;
  std::string name_;
  std::size_t block_bytes_ = 0;
  std::map<std::uint64_t, std::string> known_;  ///< sums, by offset
  std::mutex mutex_;                            // keeps lines apart
  Descriptor file_;                             ///< none: it cannot be written
  bool has_added_ = false;
};

}  // namespace reshardfs
