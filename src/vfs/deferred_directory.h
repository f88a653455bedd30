// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deferred_files.h"
#include "base/process/retry_once.h"
#include "vfs/tree.h"

namespace reshardfs {

/// A directory of a tree whose files become nodes when one of them is first needed. All that the
/// kernel may be told of them is settled before: it is what it would be with nodes from the start.
class DeferredDirectory {
 public:
  /// What is known of the files without their nodes.
  struct Known {
    std::vector<InodeNumber> numbers{};  ///< in their order
    std::uint64_t bytes = 0;             ///< of all; 2^64-1 if it is more
    std::uint64_t sum = 0;               ///< as Tree::sum()
  };

  /// @param path of the directory. @param files whose names have no '/'.
  DeferredDirectory(std::string path, std::shared_ptr<const DeferredFiles> files,
                    PathNumbering numbering);

  const std::string& path() const noexcept { return path_; }
  const DeferredFiles& files() const noexcept { return *files_; }
  /// Before all that follows. @param check is told of each file first. @throws what it throws, and
  /// as DeferredFiles::tell()
  void learn(DeferredFiles::Tell check);
  const Known& known() const noexcept { return known_; }
  /// The end of learning: of the numbers only what may_have() needs is kept. @throws std::bad_alloc
  void settle();
  /// False for nearly all numbers that no file of it has; true for those of its files. After
  /// settle().
  bool may_have(InodeNumber number) const noexcept;

  /// The directory's node without its files, as it is in the tree; the tree owns its name.
  void set_node(const Node& node) noexcept;

  /// The directory, which is the root, with its files. Makes them if they are not there yet, which
  /// takes time in proportion to their number.
  /// @throws std::bad_alloc
  const Tree& tree() const;
  /// The directory if its files are made already, else nullptr.
  const Tree* made() const noexcept { return made_.load(std::memory_order_acquire); }
  InodeNumber inode() const noexcept { return node_.inode; }

 private:
  InodeNumber number_of(std::string& path, std::string_view name, std::uint64_t size) const;
  Tree make() const;

  const std::string path_;
  const std::shared_ptr<const DeferredFiles> files_;
  const PathNumbering numbering_;
  Known known_;
  std::vector<std::uint32_t> halves_;  ///< the lower ones of the files' numbers, sorted
  Node node_;

  mutable RetryOnce once_;  ///< guards tree_
  mutable std::unique_ptr<const Tree> tree_;
  mutable std::atomic<const Tree*> made_ = nullptr;
};

}  // namespace reshardfs
