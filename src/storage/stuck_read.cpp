// SPDX-License-Identifier: Apache-2.0
#include "storage/stuck_read.h"

#include <algorithm>
#include <utility>

namespace reshardfs {
namespace {

thread_local LeftReads* left_by_thread = nullptr;

}  // namespace

LeftReads::Scope::Scope(LeftReads& left) noexcept : outer_(std::exchange(left_by_thread, &left)) {}

LeftReads::Scope::~Scope() {
  left_by_thread = outer_;
}

LeftReads* LeftReads::of_thread() noexcept {
  return left_by_thread;
}

std::shared_ptr<void> LeftReads::find(const Key& key) const noexcept {
  const auto found = std::find_if(reads_.begin(), reads_.end(),
                                  [&key](const auto& read) { return read.first == key; });
  return found == reads_.end() ? nullptr : found->second;
}

}  // namespace reshardfs
