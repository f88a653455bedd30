// SPDX-License-Identifier: Apache-2.0
#include "vfs/step_tree.h"

#include <algorithm>
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

[[noreturn]] void throw_vanished(const std::string& name) {
  throw Error(ErrorKind::kMissing, "step " + printable(name) + " is not there any more");
}

}  // namespace

StepTree::StepTree(Callbacks callbacks)
    : callbacks_(std::move(callbacks)), directory_(directory_number()) {
  const std::vector<std::string> names = callbacks_.list();
  const std::lock_guard lock(steps_mutex_);
  changed_ns_ = wall_clock_ns();
  show(names);
  publish();
}

std::shared_ptr<const Tree> StepTree::current() const {
  const std::lock_guard lock(tree_mutex_);
  return tree_;
}

void StepTree::refresh() noexcept {
  try {
    const std::vector<std::string> names = callbacks_.list();
    const std::lock_guard lock(steps_mutex_);
    list_problem_.clear();
    show(names);
  } catch (const Error& error) {
    // What is shown stays: a source that cannot be reached for a while has not lost its steps.
    if (list_problem_ == error.what()) return;
    list_problem_ = error.what();
    callbacks_.report("", error);
  } catch (const std::exception& error) {
    callbacks_.report("", Error(ErrorKind::kInternal, error.what()));
  }
}

/// With steps_mutex_.
void StepTree::show(const std::vector<std::string>& names) {
  const std::set<std::string, std::less<>> wanted(names.begin(), names.end());
  std::set<std::string, std::less<>> present;
  bool changed = false;
  for (auto it = steps_.begin(); it != steps_.end();) {
    Step& step = it->second;
    if (step.shown && wanted.contains(step.name)) {
      present.insert(step.name);
      ++it;
      continue;
    }
    changed |= step.shown;
    step.shown = false;
    it = step.open_files == 0 ? steps_.erase(it) : std::next(it);
  }
  for (const std::string& name : wanted) {
    if (present.contains(name)) continue;
    add_step(name);
    changed = true;
  }
  newest_ = names.empty() ? std::string() : names.back();
  if (!changed) return;
  changed_ns_ = wall_clock_ns();
  publish();
}

/// With steps_mutex_.
void StepTree::add_step(const std::string& name) {
  BranchNumber branch = 0;
  for (std::uint64_t attempt = 0;; ++attempt) {
    branch = branch_number(name, attempt);
    if (used_.insert(branch).second) break;
  }
  TreeBuilder builder(BranchRoot{branch, directory_, name});
  builder.set_pending();
  builder.set_mtime(changed_ns_);
  Step step;
  step.name = name;
  step.tree = std::make_shared<const Tree>(std::move(builder).build());
  steps_.emplace(branch, std::move(step));
}

/// With steps_mutex_.
void StepTree::publish() {
  TreeBuilder builder = trunk();
  builder.set_mtime(changed_ns_);
  if (!newest_.empty()) builder.add_link(kLatest, std::string(kDirectory) + "/" + newest_);
  for (const auto& [branch, step] : steps_) builder.add_branch(step.tree, step.shown);
  auto next = std::make_shared<const Tree>(std::move(builder).build());
  {
    const std::lock_guard lock(tree_mutex_);
    tree_.swap(next);
  }
  // The old generation may end here, and the sources with it that only it had open.
}

void StepTree::open_directory(InodeNumber inode) {
  const BranchNumber branch = branch_of(inode);
  std::string name;
  {
    const std::lock_guard lock(steps_mutex_);
    const auto it = steps_.find(branch);
    if (!is_in_branch(inode) || it == steps_.end()) throw_vanished("");
    const Step& step = it->second;
    if (!step.tree->root().pending) return;
    if (step.failure && callbacks_.now() < step.retry_at) std::rethrow_exception(step.failure);
    name = step.name;
  }
  std::shared_ptr<const Tree> tree;
  try {
    tree = open_step(branch, name);
  } catch (const Error& error) {
    std::rethrow_exception(remember_failure(branch, error));
  }
  const std::lock_guard lock(steps_mutex_);
  const auto it = steps_.find(branch);
  if (it == steps_.end()) throw_vanished(name);
  it->second.tree = std::move(tree);
  it->second.failure = nullptr;
  it->second.reported.clear();
  publish();
}

std::shared_ptr<const Tree> StepTree::open_step(BranchNumber branch,
                                                const std::string& name) const {
  TreeBuilder builder(BranchRoot{branch, directory_, name});
  callbacks_.open(name, builder);
  return std::make_shared<const Tree>(std::move(builder).build());
}

/// @return what to throw.
std::exception_ptr StepTree::remember_failure(BranchNumber branch, const Error& error) {
  const std::exception_ptr failure = std::make_exception_ptr(error);
  std::string name;
  {
    const std::lock_guard lock(steps_mutex_);
    const auto it = steps_.find(branch);
    // Nothing to tell of a step that was deleted while it was being opened.
    if (it == steps_.end()) return failure;
    Step& step = it->second;
    step.failure = failure;
    step.retry_at = callbacks_.now() + kRetryAfter;
    if (step.reported == error.what()) return failure;
    step.reported = error.what();
    name = step.name;
  }
  callbacks_.report(name, error);
  return failure;
}

bool StepTree::file_opened(InodeNumber inode) {
  const std::lock_guard lock(steps_mutex_);
  const auto it = steps_.find(branch_of(inode));
  if (!is_in_branch(inode) || it == steps_.end()) return false;
  ++it->second.open_files;
  return true;
}

void StepTree::file_closed(InodeNumber inode) noexcept {
  try {
    const std::lock_guard lock(steps_mutex_);
    const auto it = steps_.find(branch_of(inode));
    if (it == steps_.end() || --it->second.open_files > 0 || it->second.shown) return;
    steps_.erase(it);
    publish();
  } catch (const std::exception&) {
    // No memory for a new generation: the next one will be without the step.
  }
}

}  // namespace reshardfs
