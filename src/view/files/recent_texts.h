// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace reshardfs {

/// A cache of texts that are made when they are read: lists of all parameters, which few programs
/// read and a mount should not hold forever. It keeps the texts read last, so that a text is not
/// made anew for each block that is read. A text that is still in use is never made a second time.
/// Every member function may be called from any number of threads at once.
class RecentTexts {
 public:
  /// @param limit most bytes that are kept in addition to texts in use. One text is kept even if it
  ///        is longer.
  explicit RecentTexts(std::size_t limit) : limit_(limit) {}

  /// The text of an owner. If it is not kept, one thread makes it while others wait for it; if
  /// making it fails, the next thread tries.
  std::shared_ptr<const std::string> get(const void* owner,
                                         const std::function<std::string()>& make);
  /// Call this before the owner's address can be reused.
  void forget(const void* owner) noexcept;

 private:
  struct Entry {
    const void* owner;
    std::weak_ptr<const std::string> text;
    std::shared_ptr<const std::string> kept;  ///< nullptr: only users keep the text alive
  };
  std::shared_ptr<const std::string> find(const void* owner);
  void keep(const void* owner, const std::shared_ptr<const std::string>& text);

  const std::size_t limit_;
  std::mutex mutex_;
  std::condition_variable made_;
  std::set<const void*> being_made_;  ///< owners; guarded by mutex_, like the next
  std::list<Entry> entries_;          ///< the one read last first
};

/// The process-wide instance.
RecentTexts& recent_texts();

}  // namespace reshardfs
