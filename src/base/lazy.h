// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

namespace reshardfs {

/// An object that is made when it is first asked for: one word until then. Any number of threads
/// may ask at once.
template <typename T>
class Lazy {
 public:
  Lazy() = default;
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
  ~Lazy() { delete object_.load(); }

  T& get() const {
    T* object = object_.load(std::memory_order_acquire);
    if (object != nullptr) return *object;
    auto made = std::make_unique<T>();
    // Where another thread was faster, its object counts.
    if (!object_.compare_exchange_strong(object, made.get())) return *object;
    return *made.release();
  }

 private:
  mutable std::atomic<T*> object_ = nullptr;
};

}  // namespace reshardfs
