// SPDX-License-Identifier: Apache-2.0
#include "cache/kept_records.h"

#include <algorithm>
#include <utility>

namespace reshardfs {

KeptRecords::Place* KeptRecords::place_of(const RecordId& id) noexcept {
  const auto found = std::find_if(places_.begin(), places_.end(),
                                  [&](const Place& place) { return place.id == id; });
  return found == places_.end() ? nullptr : &*found;
}

KeptRecords::Record KeptRecords::find(const RecordId& id) noexcept {
  const std::lock_guard lock(mutex_);
  Place* const place = place_of(id);
  if (place == nullptr) return nullptr;
  place->used = ++uses_;
  return place->record;
}

void KeptRecords::keep(const RecordId& id, Record record) noexcept {
  const std::lock_guard lock(mutex_);
  Place* place = place_of(id);
  if (place == nullptr) {
    place = &*std::min_element(places_.begin(), places_.end(),
                               [](const Place& a, const Place& b) { return a.used < b.used; });
  }
  // The record that was there is closed by `record`, after the lock.
  place->record.swap(record);
  place->id = id;
  place->used = ++uses_;
}

void KeptRecords::forget(const RecordId& id) noexcept {
  Record closed_after_the_lock;
  const std::lock_guard lock(mutex_);
  Place* const place = place_of(id);
  if (place == nullptr) return;
  place->record.swap(closed_after_the_lock);
  place->id.reset();
  place->used = 0;
}

}  // namespace reshardfs
