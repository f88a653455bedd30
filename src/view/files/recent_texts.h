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

/// Texts that are made when they are read: lists of all parameters, which a mount would hold for
/// ever and few programs look at. Those read last are kept, so that a text is not made anew for
/// each block of it; and of one that is still in use there is never a second copy, however many ask
/// for it and however many others were read since. Every member function may be called from any
/// number of threads at once.
class RecentTexts {
 public:
  /// @param limit bytes that are kept beside what is in use; one text is, however long it is.
  explicit RecentTexts(std::size_t limit) : limit_(limit) {}

  /// The text of an owner. Made if it is not there, by one thread while others that ask for it
  /// wait; where that fails, the next one tries.
  std::shared_ptr<const std::string> get(const void* owner,
                                         const std::function<std::string()>& make);
  /// To be called before the owner's address may be another's.
  void forget(const void* owner) noexcept;

 private:
  struct Entry {
    const void* owner;
    std::weak_ptr<const std::string> text;
    std::shared_ptr<const std::string> kept;  ///< nullptr: by those alone who use it
  };
  std::shared_ptr<const std::string> find(const void* owner);
  void keep(const void* owner, const std::shared_ptr<const std::string>& text);

  const std::size_t limit_;
  std::mutex mutex_;
  std::condition_variable made_;
  std::set<const void*> being_made_;  ///< guarded, as the next: their owners
  std::list<Entry> entries_;          ///< the one read last first
};

/// Those of the process.
RecentTexts& recent_texts();

}  // namespace reshardfs
