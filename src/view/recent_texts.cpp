// SPDX-License-Identifier: Apache-2.0
#include "view/recent_texts.h"

#include <algorithm>
#include <utility>

namespace reshardfs {

/// Needs mutex_.
std::shared_ptr<const std::string> RecentTexts::find(const void* owner) {
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [owner](const Kept& kept) { return kept.owner == owner; });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return found->text;
}

std::shared_ptr<const std::string> RecentTexts::get(const void* owner,
                                                    const std::function<std::string()>& make) {
  {
    const std::lock_guard lock(mutex_);
    if (auto text = find(owner)) return text;
  }
  std::string made = make();
  made.shrink_to_fit();
  auto text = std::make_shared<const std::string>(std::move(made));
  const std::lock_guard lock(mutex_);
  if (auto other = find(owner)) return other;
  kept_.push_front({owner, text});
  std::size_t bytes = 0;
  const auto too_much = std::find_if(std::next(kept_.begin()), kept_.end(), [&](const Kept& kept) {
    bytes += kept.text->size();
    return text->size() + bytes > limit_;
  });
  kept_.erase(too_much, kept_.end());
  return text;
}

void RecentTexts::forget(const void* owner) noexcept {
  const std::lock_guard lock(mutex_);
  kept_.remove_if([owner](const Kept& kept) { return kept.owner == owner; });
}

RecentTexts& recent_texts() {
  constexpr std::size_t kLimit = std::size_t{8} << 20;
  static RecentTexts texts(kLimit);
  return texts;
}

}  // namespace reshardfs
