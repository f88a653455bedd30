// SPDX-License-Identifier: Apache-2.0
/// Readers of slow files whose reads end when the test says so.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hand_fetcher.h"
#include "storage/local/local_readers.h"

namespace reshardfs::test {

/// Nothing is ever stuck.
inline constexpr std::chrono::milliseconds kEndless = std::chrono::hours(1);
/// Everything is, as soon as somebody looks.
inline constexpr std::chrono::milliseconds kNone{0};

class LocalReadersTest : public testing::Test {
 protected:
  using Answering = LocalReaders::Answering;
  using Names = std::vector<std::string>;

  ~LocalReadersTest() override {
    let_all_go();
    // Those that still waited to begin, too: they would end in the fixture of the next test.
    await(submitted_);
    if (readers_) until([this] { return readers_->figures().in_flight == 0; });
  }

  void start(const LocalReaders::Limits& limits) {
    readers_ = std::make_unique<LocalReaders>(limits);
  }
  static LocalReaders::FilePtr new_file() {
    return LocalReaders::file_of(std::make_shared<FileSystemSpeed>());
  }
  bool hangs(const LocalReaders::FilePtr& file) const {
    return readers_->answering(file) > Answering::kUnknown;
  }
  /// A read that ends when the test says so.
  void submit(const LocalReaders::FilePtr& file, const std::string& name,
              Foresight when = Foresight::kNow) {
    ++submitted_;
    readers_->submit(file, when, [this, name] {
      std::unique_lock lock(mutex_);
      begun_.push_back(name);
      changed_.notify_all();
      changed_.wait(lock, [&] { return all_may_go_ || may_go_.contains(name); });
    });
  }
  void let_go(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    may_go_.insert(name);
    changed_.notify_all();
  }
  void let_all_go() {
    const std::scoped_lock lock(mutex_);
    all_may_go_ = true;
    changed_.notify_all();
  }
  /// Waits until so many have begun. @return their names in that order.
  Names await(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_.size() >= count; });
    return begun_;
  }
  Names sorted(std::size_t count) {
    Names names = await(count);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::unique_ptr<LocalReaders> readers_;

 private:
  std::size_t submitted_ = 0;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  Names begun_;
  std::set<std::string> may_go_;
  bool all_may_go_ = false;
};

}  // namespace reshardfs::test
