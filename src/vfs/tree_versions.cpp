// SPDX-License-Identifier: Apache-2.0
#include "vfs/tree_versions.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/process/free_memory.h"

namespace reshardfs {

TreeVersions::TreeVersions(std::vector<Version> versions)
    : shown_(std::move(versions.back())), alone_(std::shared_ptr<void>(), shown_.tree.get()) {
  versions.pop_back();
  std::reverse(versions.begin(), versions.end());
  for (Version& version : versions) former_.push_back({std::move(version)});
  const std::lock_guard lock(mutex_);
  publish();
}

std::shared_ptr<const Tree> TreeVersions::current() const {
  if (!has_former_.load(std::memory_order_acquire)) return alone_;
  const std::lock_guard lock(mutex_);
  return tree_;
}

std::vector<TreeVersions::Former>::const_iterator TreeVersions::find_former(
    std::uint64_t version) const noexcept {
  return std::find_if(former_.begin(), former_.end(),
                      [version](const Former& former) { return former.version.number == version; });
}

void TreeVersions::publish() {
  // A number of a directory is that of all versions: the newest that has it counts.
  std::vector<std::shared_ptr<const Tree>> trees{shown_.tree};
  for (const Former& former : former_) trees.push_back(former.version.tree);
  tree_ = trees.size() == 1 ? alone_
                            : std::make_shared<const Tree>(Tree::with_former(std::move(trees)));
  has_former_.store(!former_.empty(), std::memory_order_release);
}

std::shared_ptr<const Tree> TreeVersions::of_listing(std::uint64_t number) const {
  if (number == shown_.number) return current();
  const std::lock_guard lock(mutex_);
  const auto it = find_former(number);
  return it == former_.end() ? nullptr : it->version.tree;
}

// --- openings ------------------------------------------------------------------------------------

void TreeVersions::recall(const std::string&, const CountOpenings& count) {
  const std::lock_guard lock(mutex_);
  for (Former& former : former_) former.openings = count(former.version.number);
  std::erase_if(former_, [](const Former& former) { return former.openings == 0; });
  publish();
}

bool TreeVersions::file_opened(InodeNumber inode) {
  return shown_.tree->find(inode) != nullptr;
}

void TreeVersions::closed(std::uint64_t version) noexcept {
  if (!has_former_ || version == shown_.number) return;
  if (drop_if_last(version)) return_free_memory();
}

/// @return whether that was the former tree's last opening.
bool TreeVersions::drop_if_last(std::uint64_t version) noexcept {
  try {
    // What is dropped closes its sources, without the lock.
    Former dropped;
    std::shared_ptr<const Tree> before;
    const std::lock_guard lock(mutex_);
    const auto found = find_former(version);
    if (found == former_.end()) return false;
    Former& former = former_[static_cast<std::size_t>(found - former_.begin())];
    if (former.openings == 0 || --former.openings > 0) return false;
    dropped = std::move(former);
    former_.erase(found);
    before = tree_;
    publish();
    return true;
  } catch (const std::exception&) {
    return false;  // no memory for another tree: it is dropped with the next one
  }
}

}  // namespace reshardfs
