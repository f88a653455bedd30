// SPDX-License-Identifier: Apache-2.0
#include "view/files/recent_texts.h"

#include <algorithm>
#include <utility>

#include "base/process/process_state.h"

namespace reshardfs {

/// Needs mutex_.
std::shared_ptr<const std::string> RecentTexts::find(const void* owner) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [owner](const Entry& entry) { return entry.owner == owner; });
  if (found == entries_.end()) return nullptr;
  auto text = found->text.lock();
  entries_.erase(found);
  if (text != nullptr) keep(owner, text);
  return text;
}

/// Needs mutex_. Puts it first, and lets go of those behind it that are too much.
void RecentTexts::keep(const void* owner, const std::shared_ptr<const std::string>& text) {
  entries_.push_front({owner, text, text});
  std::size_t bytes = 0;
  for (Entry& entry : entries_) {
    if (entry.kept == nullptr) continue;
    bytes += entry.kept->size();
    if (bytes > limit_ && entry.kept != text) entry.kept.reset();
  }
  entries_.remove_if([](const Entry& entry) { return entry.text.expired(); });
}

std::shared_ptr<const std::string> RecentTexts::get(const void* owner,
                                                    const std::function<std::string()>& make) {
  std::unique_lock lock(mutex_);
  made_.wait(lock, [&] { return !being_made_.contains(owner); });
  if (auto text = find(owner)) return text;
  being_made_.insert(owner);
  lock.unlock();
  std::shared_ptr<const std::string> text;
  try {
    std::string made = make();
    made.shrink_to_fit();
    text = std::make_shared<const std::string>(std::move(made));
    lock.lock();
    keep(owner, text);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    being_made_.erase(owner);
    made_.notify_all();
    throw;
  }
  being_made_.erase(owner);
  made_.notify_all();
  return text;
}

void RecentTexts::forget(const void* owner) noexcept {
  const std::lock_guard lock(mutex_);
  entries_.remove_if([owner](const Entry& entry) { return entry.owner == owner; });
}

namespace {

ProcessState<RecentTexts> the_texts("recent texts", [](const RecentTexts* /*before*/) {
  constexpr std::size_t kLimit = std::size_t{8} << 20;
  return new RecentTexts(kLimit);
});

}  // namespace

RecentTexts& recent_texts() {
  return the_texts.get();
}

}  // namespace reshardfs
