// SPDX-License-Identifier: Apache-2.0
#include "vfs/step_tree.h"

#include <algorithm>
#include <exception>
#include <set>
#include <utility>
#include <vector>

namespace reshardfs {
namespace {

constexpr const char* kDirectory = "steps";

constexpr std::uint64_t kTrunkNumber = std::uint64_t{1} << 33;

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
  builder.add_link(StepTree::kLatest, "x");
  return std::move(builder).build().lookup(kRootInode, kDirectory)->inode;
}

std::int64_t wall_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string with_contents(const std::string& contents) {
  return contents + " ";
}

[[noreturn]] void throw_vanished() {
  throw Error(ErrorKind::kMissing, "the step is not there any more");
}

}  // namespace

StepTree::StepTree(Callbacks callbacks)
    : callbacks_(std::move(callbacks)), directory_(directory_number()) {
  const Listing listing = callbacks_.list({});
  const std::lock_guard lock(steps_mutex_);
  changed_ns_ = wall_clock_ns();
  static_cast<void>(show(listing.steps));
  static_cast<void>(publish());
}

StepTree::StepTree(Callbacks callbacks, const GoingOn& before)
    : callbacks_(std::move(callbacks)),
      directory_(directory_number()),
      after_crash_(before.after_crash) {
  const Listing listing = callbacks_.list({});
  const std::lock_guard lock(steps_mutex_);
  adopt(decode_steps(before.saved), before.count, /*open_all=*/!after_crash_);
  static_cast<void>(show(listing.steps));
  static_cast<void>(publish());
}

std::shared_ptr<const Tree> StepTree::current() const {
  const std::lock_guard lock(tree_mutex_);
  return tree_;
}

// --- which steps there are ---------------------------------------------------------------------

bool StepTree::refresh() noexcept {
  try {
    return look();
  } catch (const std::exception&) {
    return false;  // no memory, not even to tell of it: the next look will do
  }
}

bool StepTree::look() {
  Listing listing;
  try {
    listing = callbacks_.list(open_steps());
    list_problem_.clear();
  } catch (const Error& error) {
    // What is shown stays: a source that cannot be reached for a while has not lost its steps.
    if (list_problem_ == error.what()) return false;
    list_problem_ = error.what();
    callbacks_.report("", error);
    return false;
  }
  {
    TreePtr old;
    TreePtr unfolded;
    const std::lock_guard lock(steps_mutex_);
    old = show(listing.steps);
    if (fold_idle()) unfolded = publish();
  }
  look_into_known();
  return listing.has_more;
}

std::set<std::string> StepTree::open_steps() const {
  std::set<std::string> open;
  const std::lock_guard lock(steps_mutex_);
  for (const auto& [branch, step] : steps_) {
    if (step.shown && !step.tree->root().pending) open.insert(step.name);
  }
  return open;
}

/// What a process before this one had opened: whether it is the same is not known before.
void StepTree::look_into_known() {
  std::vector<InodeNumber> known;
  {
    const std::lock_guard lock(steps_mutex_);
    for (const auto& [branch, step] : steps_) {
      const Node& root = step.tree->root();
      if (root.pending && !step.identity.empty() && !step.folded) known.push_back(root.inode);
    }
  }
  for (const InodeNumber inode : known) {
    try {
      open_directory(inode);
    } catch (const Error&) {
      // A look into it reports the error.
    }
  }
}

/// Whether a step may have what is listed now.
bool StepTree::may_be(const Step& step, const std::string& contents) {
  return step.identity.empty() || contents.empty() ||
         step.identity.starts_with(with_contents(contents));
}

StepTree::TreePtr StepTree::show(const std::vector<Listed>& steps) {
  std::map<std::string, std::string> wanted;
  for (const Listed& step : steps) wanted.emplace(step.name, step.contents);
  bool changed = false;
  for (auto it = steps_.begin(); it != steps_.end();) {
    Step& step = it->second;
    const auto listed = wanted.find(step.name);
    if (step.shown && listed != wanted.end() && may_be(step, listed->second)) {
      // What has been saved again may be opened at once.
      if (step.listed != listed->second) step.failure.reset();
      step.listed = listed->second;
      wanted.erase(listed);
      ++it;
      continue;
    }
    changed |= step.shown;
    step.shown = false;
    it = step.open_files == 0 ? steps_.erase(it) : std::next(it);
  }
  newest_ = steps.empty() ? std::string() : steps.back().name;
  if (!changed && wanted.empty()) return nullptr;
  changed_ns_ = wall_clock_ns();
  for (const auto& [name, contents] : wanted) add_step(name);
  return publish();
}

void StepTree::add_step(const std::string& name) {
  BranchNumber branch = 0;
  for (std::uint64_t attempt = 0;; ++attempt) {
    branch = branch_number(name, attempt);
    if (used_.insert(branch).second) break;
  }
  Step step;
  step.name = name;
  step.tree = pending_step(branch, name, changed_ns_);
  steps_.emplace(branch, std::move(step));
}

/// Those that were used last stay open. @return whether any other did not, which publish() shows.
bool StepTree::fold_idle() {
  std::vector<Steps::iterator> idle;
  for (auto it = steps_.begin(); it != steps_.end(); ++it) {
    const Step& step = it->second;
    const bool is_idle = step.shown && step.open_files == 0 && !step.tree->root().pending;
    if (is_idle) idle.push_back(it);
  }
  const auto used_before = [](const auto& a, const auto& b) {
    return a->second.used_at < b->second.used_at;
  };
  std::sort(idle.begin(), idle.end(), used_before);
  const Clock::time_point now = callbacks_.now();
  std::size_t open = idle.size();
  for (const auto& it : idle) {
    Step& step = it->second;
    if (open <= kMostIdle && now - step.used_at < kIdleFor) break;
    step.tree =
        pending_step(it->first, step.name, step.tree->root().mtime_ns.value_or(changed_ns_));
    step.folded = true;
    --open;
  }
  return open < idle.size();
}

StepTree::TreePtr StepTree::pending_step(BranchNumber branch, const std::string& name,
                                         std::int64_t changed_ns) const {
  TreeBuilder builder(BranchRoot{branch, directory_, name});
  builder.set_pending();
  builder.set_mtime(changed_ns);
  if (callbacks_.common) callbacks_.common(builder);
  return std::make_shared<const Tree>(std::move(builder).build());
}

TreeBuilder StepTree::begin_trunk(std::int64_t changed_ns, const std::string& newest) const {
  TreeBuilder builder = trunk();
  builder.set_mtime(changed_ns);
  if (callbacks_.common) callbacks_.common(builder);
  if (!newest.empty()) builder.add_link(kLatest, std::string(kDirectory) + "/" + newest);
  return builder;
}

StepTree::TreePtr StepTree::publish() {
  save();
  TreeBuilder builder = begin_trunk(changed_ns_, newest_);
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
  Opened opened;
  try {
    opened = open_step(branch, name);
  } catch (const Error& error) {
    remember_failure(branch, error);
    throw;
  }
  TreePtr old;
  const std::lock_guard lock(steps_mutex_);
  const auto it = steps_.find(branch);
  if (it == steps_.end()) throw_vanished();
  Step& step = it->second;
  if (!step.identity.empty() && step.identity != opened.identity) {
    // What a process before this one has shown is another step.
    steps_.erase(it);
    add_step(name);
    old = publish();
    throw_vanished();
  }
  step.tree = std::move(opened.tree);
  step.identity = std::move(opened.identity);
  step.failure.reset();
  step.reported.clear();
  step.folded = false;
  step.used_at = callbacks_.now();
  fold_idle();
  old = publish();
}

bool StepTree::can_reopen(InodeNumber inode) const noexcept {
  if (!is_in_branch(inode)) return false;
  const std::lock_guard lock(steps_mutex_);
  const auto it = steps_.find(branch_of(inode));
  return it != steps_.end() && it->second.tree->root().pending && !it->second.identity.empty();
}

StepTree::Opened StepTree::open_step(BranchNumber branch, const std::string& name) const {
  TreeBuilder builder(BranchRoot{branch, directory_, name});
  const std::string contents = callbacks_.open(name, builder);
  Tree tree = std::move(builder).build();
  std::string identity = with_contents(contents) + std::to_string(tree.sum());
  return {std::make_shared<const Tree>(std::move(tree)), std::move(identity)};
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

std::uint64_t StepTree::tree_of(InodeNumber inode) const noexcept {
  return is_in_branch(inode) ? number_of_files(branch_of(inode)) : kTrunkNumber;
}

std::uint64_t StepTree::tree_of_listing(InodeNumber inode) const noexcept {
  return is_in_branch(inode) ? number_of_listings(branch_of(inode)) : kTrunkNumber;
}

bool StepTree::file_opened(InodeNumber inode) {
  if (!is_in_branch(inode)) return true;  // the common files are in every generation
  const std::lock_guard lock(steps_mutex_);
  const auto it = steps_.find(branch_of(inode));
  // It may have been folded since its node was found.
  if (it == steps_.end() || it->second.tree->find(inode) == nullptr) return false;
  Step& step = it->second;
  ++step.open_files;
  step.used_at = callbacks_.now();
  return true;
}

void StepTree::closed(std::uint64_t tree) noexcept {
  if (tree > kMaxBranchNumber) return;  // of no branch, or a listing
  try {
    TreePtr old;
    const std::lock_guard lock(steps_mutex_);
    const auto it = steps_.find(static_cast<BranchNumber>(tree));
    if (it == steps_.end() || it->second.open_files == 0) return;
    it->second.used_at = callbacks_.now();
    if (--it->second.open_files > 0 || it->second.shown) return;
    steps_.erase(it);
    old = publish();
  } catch (const std::exception&) {
    // No memory for a new generation: the next one will be without the step.
  }
}

}  // namespace reshardfs
