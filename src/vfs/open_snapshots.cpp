// SPDX-License-Identifier: Apache-2.0
#include "vfs/open_snapshots.h"

#include <utility>

namespace reshardfs {

std::uint64_t OpenSnapshots::add(std::shared_ptr<const VirtualFile> snapshot) {
  if (snapshot == nullptr) return kNone;
  const std::lock_guard lock(mutex_);
  by_number_.emplace(last_ + 1, std::move(snapshot));
  return ++last_;
}

std::shared_ptr<const VirtualFile> OpenSnapshots::find(std::uint64_t number) const noexcept {
  if (number == kNone) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto it = by_number_.find(number);
  return it == by_number_.end() ? nullptr : it->second;
}

void OpenSnapshots::remove(std::uint64_t number) noexcept {
  if (number == kNone) return;
  std::shared_ptr<const VirtualFile> snapshot;  // freed without the lock
  const std::lock_guard lock(mutex_);
  const auto it = by_number_.find(number);
  if (it == by_number_.end()) return;
  snapshot = std::move(it->second);
  by_number_.erase(it);
}

}  // namespace reshardfs
