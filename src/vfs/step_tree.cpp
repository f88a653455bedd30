// SPDX-License-Identifier: Apache-2.0
#include "vfs/step_tree.h"

#include <set>
#include <utility>

namespace reshardfs {
namespace {

constexpr const char* kDirectory = "steps";
constexpr const char* kLatest = "latest";

TreeBuilder trunk() {
  TreeBuilder builder(trunk_inode_number);
  builder.add_directory(kDirectory);
  builder.set_changing("");
  builder.set_changing(kDirectory);
  return builder;
}

/// The names "steps" and "latest" have different numbers, so this one is the same in every trunk.
InodeNumber directory_number() {
  TreeBuilder builder = trunk();
  builder.add_link(kLatest, "x");
  return std::move(builder).build().lookup(kRootInode, kDirectory)->inode;
}

std::int64_t wall_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

[[noreturn]] void throw_vanished() {
  throw Error(ErrorKind::kMissing, "the step is not there any more");
}

}  // namespace

StepTree::StepTree(Callbacks callbacks)
    : callbacks_(std::move(callbacks)), directory_(directory_number()) {
  const std::vector<std::string> names = callbacks_.list();
  const std::lock_guard lock(steps_mutex_);
  changed_ns_ = wall_clock_ns();
  static_cast<void>(show(names));
  static_cast<void>(publish());
}

std::shared_ptr<const Tree> StepTree::current() const {
  const std::lock_guard lock(tree_mutex_);
  return tree_;
}

// --- which steps there are ---------------------------------------------------------------------

void StepTree::refresh() noexcept {
  try {
    look();
  } catch (const std::exception&) {
    // No memory, not even to tell of it: the next look will do.
  }
}

void StepTree::look() {
  std::vector<std::string> names;
  try {
    names = callbacks_.list();
    list_problem_.clear();
  } catch (const Error& error) {
    // What is shown stays: a source that cannot be reached for a while has not lost its steps.
    if (list_problem_ == error.what()) return;
    list_problem_ = error.what();
    callbacks_.report("", error);
    return;
  }
  TreePtr old;
  const std::lock_guard lock(steps_mutex_);
  old = show(names);
}

StepTree::TreePtr StepTree::show(const std::vector<std::string>& names) {
  std::set<std::string> wanted(names.begin(), names.end());
  bool changed = false;
  for (auto it = steps_.begin(); it != steps_.end();) {
    Step& step = it->second;
    if (step.shown && wanted.erase(step.name) > 0) {
      ++it;
      continue;
    }
    changed |= step.shown;
    step.shown = false;
    it = step.open_files == 0 ? steps_.erase(it) : std::next(it);
  }
  newest_ = names.empty() ? std::string() : names.back();
  if (!changed && wanted.empty()) return nullptr;
  changed_ns_ = wall_clock_ns();
  for (const std::string& name : wanted) add_step(name);
  return publish();
}

void StepTree::add_step(const std::string& name) {
  BranchNumber branch = 0;
  for (std::uint64_t attempt = 0;; ++attempt) {
    branch = branch_number(name, attempt);
    if (used_.insert(branch).second) break;
  }
  TreeBuilder builder(BranchRoot{branch, directory_, name});
  builder.set_pending();
  builder.set_mtime(changed_ns_);
  if (callbacks_.common) callbacks_.common(builder);
  Step step;
  step.name = name;
  step.tree = std::make_shared<const Tree>(std::move(builder).build());
  steps_.emplace(branch, std::move(step));
}

StepTree::TreePtr StepTree::publish() {
  TreeBuilder builder = trunk();
  builder.set_mtime(changed_ns_);
  if (callbacks_.common) callbacks_.common(builder);
  if (!newest_.empty()) builder.add_link(kLatest, std::string(kDirectory) + "/" + newest_);
  for (const auto& [branch, step] : steps_) builder.add_branch(step.tree, step.shown);
  TreePtr tree = std::make_shared<const Tree>(std::move(builder).build());
  const std::lock_guard lock(tree_mutex_);
  tree_.swap(tree);
  return tree;
}

// --- opening a step ----------------------------------------------------------------------------

void StepTree::open_directory(InodeNumber inode) {
  const BranchNumber branch = branch_of(inode);
  std::string name;
  {
    const std::lock_guard lock(steps_mutex_);
    const auto it = steps_.find(branch);
    if (!is_in_branch(inode) || it == steps_.end()) throw_vanished();
    const Step& step = it->second;
    if (!step.tree->root().pending) return;
    if (step.failure && callbacks_.now() < step.retry_at) throw *step.failure;
    name = step.name;
  }
  TreePtr tree;
  try {
    tree = open_step(branch, name);
  } catch (const Error& error) {
    remember_failure(branch, error);
    throw;
  }
  TreePtr old;
  const std::lock_guard lock(steps_mutex_);
  const auto it = steps_.find(branch);
  if (it == steps_.end()) throw_vanished();
  it->second.tree = std::move(tree);
  it->second.failure.reset();
  it->second.reported.clear();
  old = publish();
}

StepTree::TreePtr StepTree::open_step(BranchNumber branch, const std::string& name) const {
  TreeBuilder builder(BranchRoot{branch, directory_, name});
  callbacks_.open(name, builder);
  return std::make_shared<const Tree>(std::move(builder).build());
}

void StepTree::remember_failure(BranchNumber branch, const Error& error) {
  std::string name;
  {
    const std::lock_guard lock(steps_mutex_);
    const auto it = steps_.find(branch);
    // Nothing to tell of a step that was deleted while it was being opened.
    if (it == steps_.end()) return;
    Step& step = it->second;
    step.failure = error;
    step.retry_at = callbacks_.now() + kRetryAfter;
    if (step.reported == error.what()) return;
    step.reported = error.what();
    name = step.name;
  }
  callbacks_.report(name, error);
}

// --- open files --------------------------------------------------------------------------------

bool StepTree::file_opened(InodeNumber inode) {
  if (!is_in_branch(inode)) return true;  // the common files are in every generation
  const std::lock_guard lock(steps_mutex_);
  const auto it = steps_.find(branch_of(inode));
  if (it == steps_.end()) return false;
  ++it->second.open_files;
  return true;
}

void StepTree::file_closed(InodeNumber inode) noexcept {
  if (!is_in_branch(inode)) return;
  try {
    TreePtr old;
    const std::lock_guard lock(steps_mutex_);
    const auto it = steps_.find(branch_of(inode));
    if (it == steps_.end() || it->second.open_files == 0) return;
    if (--it->second.open_files > 0 || it->second.shown) return;
    steps_.erase(it);
    old = publish();
  } catch (const std::exception&) {
    // No memory for a new generation: the next one will be without the step.
  }
}

}  // namespace reshardfs
