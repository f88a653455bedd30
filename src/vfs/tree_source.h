// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

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
  /// @return whether it has left something for another look, at once.
  virtual bool refresh() noexcept { return false; }
  /// Finds out what a pending directory holds; then the present generation has it. May wait for
  /// storage. Problems are the source's to report: they are many requests' answer.
  /// @throws Error
  virtual void open_directory(InodeNumber) {}
  /// Whether the present generation may lack the node only because its directory was given up while
  /// nothing used it: open_directory() of the node's number brings it back.
  virtual bool can_reopen(InodeNumber) const noexcept { return false; }

  /// A program opens a file: its contents stay until closed(), even if its generation is replaced.
  /// @return false if it is too late: the present generation does not have the file.
  virtual bool file_opened(InodeNumber) { return true; }
  /// @param tree tree_of() the file when it was opened, or tree_of_listing() a directory.
  virtual void closed(std::uint64_t /*tree*/) noexcept {}

  // --- which tree an opening is of, for a process that takes over the mount ---

  /// A number of the tree that a file belongs to.
  virtual std::uint64_t tree_of(InodeNumber) const noexcept { return 0; }
  /// The same for openings of a directory that does not change: of_listing() has its tree.
  virtual std::uint64_t tree_of_listing(InodeNumber) const noexcept { return 0; }
  /// nullptr if it is not there any more.
  virtual std::shared_ptr<const Tree> of_listing(std::uint64_t /*tree*/) const { return current(); }
  /// Whether the tree is not shown any more.
  virtual bool is_former(std::uint64_t /*tree*/) const noexcept { return false; }

  // --- for a source that goes on in another process ---

  using CountOpenings = std::function<std::uint64_t(std::uint64_t tree)>;
  /// Goes on where another process has stopped. Called once, before all that concerns openings.
  /// @param saved what that process has saved last; empty: nothing.
  /// @param count its openings, by the numbers of their trees. @throws Error
  virtual void recall(const std::string& /*saved*/, const CountOpenings& /*count*/) {}
  /// From now on every change is saved through `keep` before it can be seen, what there is at once.
  /// It may be called by any thread, one at a time, and must not throw.
  virtual void save_through(const std::function<void(const std::string&)>& /*keep*/) {}
  /// A generation as far as a listing of a directory that changes needs it, and back.
  virtual std::string save_listing(const Tree&) const { return {}; }
  /// @throws Error
  virtual std::shared_ptr<const Tree> restore_listing(const std::string&) const {
    return current();
  }
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
