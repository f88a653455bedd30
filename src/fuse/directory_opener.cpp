// SPDX-License-Identifier: Apache-2.0
#include "fuse/directory_opener.h"

#include <utility>

namespace reshardfs {

DirectoryOpener::DirectoryOpener(unsigned permits, std::function<int(InodeNumber)> open)
    : open_(std::move(open)), free_permits_(permits) {}

void DirectoryOpener::submit(InodeNumber directory, Then then) {
  if (!take_permit_or_queue(directory, std::move(then))) return;
  do {
    open_and_answer(directory);
  } while (next_or_give_permit_back(directory));
}

bool DirectoryOpener::take_permit_or_queue(InodeNumber directory, Then then) {
  const std::lock_guard lock(mutex_);
  const bool is_first = !waiting_.contains(directory);
  if (is_first && free_permits_ == 0) queue_.push_back(directory);
  try {
    waiting_[directory].push_back(std::move(then));
  } catch (...) {
    if (is_first) waiting_.erase(directory);
    if (is_first && free_permits_ == 0) queue_.pop_back();
    throw;
  }
  if (!is_first || free_permits_ == 0) return false;
  --free_permits_;
  return true;
}

void DirectoryOpener::open_and_answer(InodeNumber directory) {
  const int error = open_(directory);
  std::vector<Then> answers;
  {
    const std::lock_guard lock(mutex_);
    const auto it = waiting_.find(directory);
    answers = std::move(it->second);
    waiting_.erase(it);
  }
  for (const Then& then : answers) then(error);
}

bool DirectoryOpener::next_or_give_permit_back(InodeNumber& directory) {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) {
    ++free_permits_;
    return false;
  }
  directory = queue_.front();
  queue_.pop_front();
  return true;
}

}  // namespace reshardfs
