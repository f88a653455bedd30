// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "vfs/tree.h"

namespace reshardfs {

/// Where a mount takes its tree from. Every member function may be called from any number of
/// threads at once, but for refresh().
class TreeSource {
 public:
  TreeSource() = default;
  TreeSource(const TreeSource&) = delete;
  TreeSource& operator=(const TreeSource&) = delete;
  virtual ~TreeSource() = default;

  /// The present generation; what it holds stays as it is while the pointer lives. Never waits for
  /// storage.
  virtual std::shared_ptr<const Tree> current() const = 0;

  /// Whether there may ever be another generation.
  virtual bool changes() const noexcept { return false; }
  /// Looks whether there should be a new generation. May wait for storage. By one thread at a time.
  virtual void refresh() noexcept {}
  /// Finds out what a pending directory holds; then the present generation has it. May wait for
  /// storage. Problems are the source's to report: they are many requests' answer.
  /// @throws Error
  virtual void open_directory(InodeNumber) {}

  /// A program opens a file: its contents stay until file_closed(), whatever the generations do.
  /// @return false if it is too late: the present generation does not have the file.
  virtual bool file_opened(InodeNumber) { return true; }
  virtual void file_closed(InodeNumber) noexcept {}
};

/// One tree for ever. It must outlive this, and costs no reference counting.
class FixedTree final : public TreeSource {
 public:
  explicit FixedTree(const Tree& tree) : tree_(std::shared_ptr<void>(), &tree) {}

  std::shared_ptr<const Tree> current() const override { return tree_; }

 private:
  std::shared_ptr<const Tree> tree_;
};

}  // namespace reshardfs
