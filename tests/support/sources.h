// SPDX-License-Identifier: Apache-2.0
/// Byte sources for tests: in memory, and decorators that count and fail.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "storage/byte_source.h"

namespace reshardfs::test {

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string bytes, std::string name = "memory.ckpt")
      : bytes_(std::move(bytes)), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  std::int64_t mtime_ns() const override { return 0; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size() || out.size() > size() - offset) {
      throw Error(ErrorKind::kBadInput, "a read leaves the source").in_file(name_);
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  bool gather(const StridedRanges& ranges, std::byte* out) const override {
    if (ranges.span().end() > size()) return false;
    copy_ranges(reinterpret_cast<const std::byte*>(bytes_.data()) + ranges.offset(), ranges, out);
    return true;
  }
  void check_unchanged() const override {}

 private:
  std::string bytes_;
  std::string name_;
};

/// Passes everything on to another source.
class Decorator : public ByteSource {
 public:
  explicit Decorator(ByteSourcePtr inner) : inner_(std::move(inner)) {}

  const std::string& name() const override { return inner_->name(); }
  std::uint64_t size() const override { return inner_->size(); }
  std::int64_t mtime_ns() const override { return inner_->mtime_ns(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    inner_->read_at(offset, out);
  }
  void check_unchanged() const override { inner_->check_unchanged(); }

 private:
  ByteSourcePtr inner_;
};

class CountingSource final : public Decorator {
 public:
  using Decorator::Decorator;

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    ++reads_;
    bytes_ += out.size();
    Decorator::read_at(offset, out);
  }
  std::uint64_t reads() const { return reads_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  mutable std::atomic<std::uint64_t> reads_{0};
  mutable std::atomic<std::uint64_t> bytes_{0};
};

/// Fails one read (1: the first) with an errno; the others succeed.
class FaultSource final : public Decorator {
 public:
  FaultSource(ByteSourcePtr inner, std::uint64_t failing_read, int errno_value)
      : Decorator(std::move(inner)), failing_read_(failing_read), errno_value_(errno_value) {}

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (++reads_ == failing_read_) throw io_error("read", name(), errno_value_).at_offset(offset);
    Decorator::read_at(offset, out);
  }

 private:
  std::uint64_t failing_read_;
  int errno_value_;
  mutable std::atomic<std::uint64_t> reads_{0};
};

/// Becomes a changed file once it has been read `reads` times.
class ChangingSource final : public Decorator {
 public:
  ChangingSource(ByteSourcePtr inner, std::uint64_t reads)
      : Decorator(std::move(inner)), reads_until_change_(reads) {}

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    ++reads_;
    Decorator::read_at(offset, out);
  }
  void check_unchanged() const override {
    if (reads_ >= reads_until_change_) {
      throw Error(ErrorKind::kChanged, "has been changed while it was in use").in_file(name());
    }
  }

 private:
  std::uint64_t reads_until_change_;
  mutable std::atomic<std::uint64_t> reads_{0};
};

}  // namespace reshardfs::test
