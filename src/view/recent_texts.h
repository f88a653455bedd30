// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace reshardfs {

/// Texts that are made when they are read: lists of all parameters, which a mount would hold for
/// ever and few programs look at. Those read last are kept, so that a text is not made anew for
/// each block of it. Every member function may be called from any number of threads at once.
class RecentTexts {
 public:
  /// @param limit bytes that are kept; one text is, however long it is.
  explicit RecentTexts(std::size_t limit) : limit_(limit) {}

  /// The text of an owner, made if it is not there. Two threads may make it at once.
  std::shared_ptr<const std::string> get(const void* owner,
                                         const std::function<std::string()>& make);
  /// To be called before the owner's address may be another's.
  void forget(const void* owner) noexcept;

 private:
  struct Kept {
    const void* owner;
    std::shared_ptr<const std::string> text;
  };
  std::shared_ptr<const std::string> find(const void* owner);

  const std::size_t limit_;
  std::mutex mutex_;
  std::list<Kept> kept_;  ///< guarded; the last one read first
};

/// Those of the process.
RecentTexts& recent_texts();

}  // namespace reshardfs
