// SPDX-License-Identifier: Apache-2.0
#include "vfs/saved_steps.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/json/json_writer.h"
#include "vfs/step_tree.h"

namespace reshardfs {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kUnsupported,
              "the record of steps of the mount's other process is incomplete: " + what);
}

JsonValue member_of(const JsonValue& object, std::string_view key) {
  const auto found = object.find(key);
  if (!found) refuse("no " + std::string(key));
  return *found;
}

/// What a member is, or an error where it is something else.
template <typename Value>
auto required(const std::optional<Value>& value, std::string_view key) {
  if (!value) refuse("no valid " + std::string(key));
  return *value;
}

std::string text_in(const JsonValue& object, std::string_view key) {
  return std::string(required(member_of(object, key).text(), key));
}

BranchNumber branch_in(const JsonValue& value, std::string_view key) {
  const std::int64_t number = required(value.integer(), key);
  if (!std::in_range<BranchNumber>(number)) refuse("no valid " + std::string(key));
  return static_cast<BranchNumber>(number);
}

/// Versions that fold no steps do not say so.
bool is_folded(const JsonValue& step) {
  const auto folded = step.find("folded");
  return folded && required(folded->boolean(), "folded");
}

SavedSteps steps_in(const JsonValue& json) {
  SavedSteps steps;
  for (const JsonValue step : member_of(json, "steps")) {
    steps.steps.push_back({branch_in(member_of(step, "branch"), "branch"), text_in(step, "name"),
                           required(member_of(step, "shown").boolean(), "shown"),
                           text_in(step, "identity"), is_folded(step)});
  }
  for (const JsonValue used : member_of(json, "used")) {
    steps.used.push_back(branch_in(used, "used"));
  }
  steps.newest = text_in(json, "newest");
  steps.changed_ns = required(member_of(json, "changed").integer(), "changed");
  return steps;
}

}  // namespace

std::string encode(const SavedSteps& steps) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member("changed", steps.changed_ns);
  json.member("newest", steps.newest);
  json.open_list("steps");
  for (const SavedSteps::Step& step : steps.steps) {
    json.open_object();
    json.member("branch", step.branch);
    if (step.folded) json.member("folded", true);
    json.member("identity", step.identity);
    json.member("name", step.name);
    json.member("shown", step.shown);
    json.close_object();
  }
  json.close_list();
  json.numbers("used", steps.used);
  json.close_object();
  return json.take();
}

SavedSteps decode_steps(const std::string& text) {
  const auto document = JsonDocument::parse(text);
  if (!document) refuse("it is not valid JSON");
  return steps_in(document->value());
}

// --- going on in another process -----------------------------------------------------------------

void StepTree::recall(const std::string& saved, const CountOpenings& count) {
  if (saved.empty()) return;
  TreePtr old;
  const std::lock_guard lock(steps_mutex_);
  adopt(decode_steps(saved), count, /*open_all=*/false);
  old = publish();
}

void StepTree::adopt(const SavedSteps& saved, const CountOpenings& count, bool open_all) {
  used_.insert(saved.used.begin(), saved.used.end());
  changed_ns_ = std::max(changed_ns_, saved.changed_ns);
  newest_ = saved.newest;
  Steps before = std::exchange(steps_, {});
  for (const SavedSteps::Step& step : saved.steps) {
    const std::uint64_t files = count(number_of_files(step.branch));
    const bool in_use = files > 0 || count(number_of_listings(step.branch)) > 0;
    if (!step.shown && !in_use) continue;
    const auto known = before.find(step.branch);
    Step mine = known == before.end() ? again(step) : std::move(known->second);
    mine.shown = step.shown;
    mine.open_files = files;
    mine.folded = step.folded && mine.tree->root().pending;
    const bool must_open = in_use || (open_all && !step.identity.empty() && !step.folded);
    if (!must_open || !mine.tree->root().pending || open_again(step, mine, in_use)) {
      steps_.emplace(step.branch, std::move(mine));
    }
  }
}

StepTree::Step StepTree::again(const SavedSteps::Step& saved) const {
  Step step;
  step.name = saved.name;
  step.identity = saved.identity;
  step.tree = pending_step(saved.branch, saved.name, changed_ns_);
  return step;
}

/// @return false if it is not what it was: as a new step it may be shown.
bool StepTree::open_again(const SavedSteps::Step& saved, Step& step, bool in_use) const {
  std::optional<Error> failure;
  try {
    Opened opened = open_step(saved.branch, saved.name);
    if (saved.identity.empty() || saved.identity == opened.identity) {
      step.tree = std::move(opened.tree);
      step.identity = std::move(opened.identity);
      step.folded = false;
      step.used_at = callbacks_.now();
      return true;
    }
    failure.emplace(ErrorKind::kChanged, "its files have changed");
  } catch (const Error& error) {
    // The source may come back: then all is tried again.
    if (in_use && after_crash_ && error.kind() == ErrorKind::kIo) throw;
    failure = error;
  }
  if (!in_use) return false;
  Error refusal(ErrorKind::kChanged,
                "programs have files of step " + printable(saved.name) +
                    " open, and it cannot be shown any more: " + failure->what());
  if (!after_crash_) throw refusal.hint("close them first");
  callbacks_.report(saved.name, refusal);
  return false;
}

void StepTree::save_through(const std::function<void(const std::string&)>& keep) {
  const std::lock_guard lock(steps_mutex_);
  keep_ = keep;
  save();
}

void StepTree::save() noexcept {
  if (!keep_) return;
  try {
    SavedSteps saved;
    for (const auto& [branch, step] : steps_) {
      saved.steps.push_back({branch, step.name, step.shown, step.identity, step.folded});
    }
    saved.used.assign(used_.begin(), used_.end());
    saved.newest = newest_;
    saved.changed_ns = changed_ns_;
    keep_(encode(saved));
  } catch (const std::exception&) {
    // No memory: what was saved last holds.
  }
}

std::string StepTree::save_listing(const Tree& tree) const {
  SavedSteps saved;
  const Node* const directory = tree.find(directory_);
  saved.changed_ns = directory->mtime_ns.value_or(0);
  for (const InodeNumber child : directory->children) {
    saved.steps.push_back({branch_of(child), std::string(tree.find(child)->name)});
  }
  const Node* const latest = tree.lookup(kRootInode, kLatest);
  if (latest != nullptr) saved.newest = latest->link.substr(latest->link.rfind('/') + 1);
  return encode(saved);
}

std::shared_ptr<const Tree> StepTree::restore_listing(const std::string& text) const {
  const SavedSteps saved = decode_steps(text);
  TreeBuilder builder = begin_trunk(saved.changed_ns, saved.newest);
  for (const SavedSteps::Step& step : saved.steps) {
    builder.add_branch(pending_step(step.branch, step.name, changed_ns_), true);
  }
  return std::make_shared<const Tree>(std::move(builder).build());
}

}  // namespace reshardfs
