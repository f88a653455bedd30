// SPDX-License-Identifier: Apache-2.0
#include "storage/source_use.h"

#include <utility>

namespace reshardfs {
namespace {

thread_local SourceUse* watched_use = nullptr;

}  // namespace

SourceUse::Scope::Scope(SourceUse& use) noexcept : outer_(std::exchange(watched_use, &use)) {}

SourceUse::Scope::~Scope() {
  watched_use = outer_;
}

// One thread writes: no read-modify-write is needed.
void SourceUse::next_step() noexcept {
  step_.store(step_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void now_using(const ByteSource* source) noexcept {
  SourceUse* const use = watched_use;
  if (use == nullptr) return;
  use->source_.store(source, std::memory_order_relaxed);
  use->next_step();
}

void still_using() noexcept {
  // What waits for no source in particular is looked after in its own way.
  if (watched_use != nullptr && watched_use->look().source != nullptr) watched_use->next_step();
}

}  // namespace reshardfs
