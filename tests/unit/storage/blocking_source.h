// SPDX-License-Identifier: Apache-2.0
/// A file whose reads wait until a test lets them go.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "reshardfs/error.h"

#include "hand_fetcher.h"
#include "storage/byte_source.h"

namespace reshardfs::test {

class BlockingSource final : public ByteSource {
 public:
  explicit BlockingSource(std::uint64_t size) : size_(size) {}
  BlockingSource(const BlockingSource&) = delete;
  BlockingSource& operator=(const BlockingSource&) = delete;
  ~BlockingSource() override = default;

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return size_; }
  std::int64_t mtime_ns() const override { return 5; }
  FileStamp stamp() const override { return {.device = 1, .inode = 2, .ctime_ns = 3}; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    std::unique_lock lock(mutex_);
    begun_.push_back(offset);
    began_.notify_all();
    let_go_.wait(lock, [&] { return !blocks_ && blocked_ != offset; });
    if (fails_) throw Error(ErrorKind::kIo, "the test fails it").in_file(name_);
    for (std::byte& byte : out) byte = byte_at(offset++);
  }
  bool gather(const StridedRanges& /*pieces*/, std::byte* /*out*/) const override { return true; }
  void check_unchanged() const override {
    const std::scoped_lock lock(mutex_);
    if (changed_) throw Error(ErrorKind::kChanged, "the test has changed it").in_file(name_);
  }

  void block() { set(blocks_, true); }
  /// Only reads that begin there wait.
  void block_at(std::uint64_t offset) { set(blocked_, offset); }
  void let_go() {
    set(blocked_, std::nullopt);
    set(blocks_, false);
  }
  void fail() { set(fails_, true); }
  void change() { set(changed_, true); }
  /// Waits until so many reads have begun.
  void await(std::size_t count) const {
    std::unique_lock lock(mutex_);
    began_.wait(lock, [&] { return begun_.size() >= count; });
  }
  /// Offsets of all reads that have begun, in order.
  std::vector<std::uint64_t> begun() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::uint64_t> offsets = begun_;
    std::sort(offsets.begin(), offsets.end());
    return offsets;
  }

 private:
  template <typename T>
  void set(T& flag, std::type_identity_t<T> value) {
    const std::scoped_lock lock(mutex_);
    flag = value;
    let_go_.notify_all();
  }

  const std::string name_ = "blocking.ckpt";
  const std::uint64_t size_;
  mutable std::mutex mutex_;  // guards all below
  mutable std::condition_variable began_;
  mutable std::condition_variable let_go_;
  mutable std::vector<std::uint64_t> begun_;
  bool blocks_ = false;
  std::optional<std::uint64_t> blocked_;
  bool fails_ = false;
  bool changed_ = false;
};

}  // namespace reshardfs::test
