// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "storage/byte_source.h"

namespace reshardfs {

/// Bytes of a tensor that are computed when they are read. Any number of threads may call it.
class ComputedContent {
 public:
  ComputedContent() = default;
  ComputedContent(const ComputedContent&) = delete;
  ComputedContent& operator=(const ComputedContent&) = delete;
  virtual ~ComputedContent() = default;

  virtual std::uint64_t size() const = 0;
  /// Fills all of a part that is within size(). Compares a file that it reads with what it was when
  /// it was opened, unless it is the one that it is appended to.
  /// @throws Error as ByteSource::read_at() of the files that it is made from.
  virtual void read(const ReadRequest& part) const = 0;
  /// See ByteSource::foresee().
  virtual void foresee(const ByteRange& /*range*/, Foresight /*when*/) const noexcept {}
};

/// A file, and behind its end tensors that are computed.
class AppendedSource : public ByteSource {
 public:
  explicit AppendedSource(ByteSourcePtr file) : file_(std::move(file)), size_(file_->size()) {}

  /// Before the first read.
  /// @return where its contents are.
  /// @throws Error kBadInput if the source becomes too large.
  ByteRange append(std::unique_ptr<const ComputedContent> content);

  /// What it begins with.
  const ByteSourcePtr& stored() const noexcept { return file_; }

  const std::string& name() const override { return file_->name(); }
  std::uint64_t size() const override { return size_; }
  /// Bytes of the file; what stands behind them is computed.
  std::uint64_t stored_bytes() const { return file_->size(); }
  std::int64_t mtime_ns() const override { return file_->mtime_ns(); }
  FileStamp stamp() const override { return file_->stamp(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  void read_many(std::span<const ReadRequest> parts) const override;
  bool is_far() const noexcept override { return file_->is_far(); }
  bool is_remote() const noexcept override { return file_->is_remote(); }
  void foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept override;
  bool gather(const StridedRanges& ranges, std::byte* out) const override;
  void check_unchanged() const override { file_->check_unchanged(); }

 private:
  struct Behind {
    std::uint64_t begin = 0;
    std::unique_ptr<const ComputedContent> content;
  };

  const Behind& behind_at(std::uint64_t offset) const;
  void read(const ReadRequest& request) const;

  ByteSourcePtr file_;
  std::uint64_t size_;
  std::vector<Behind> behind_;  ///< ascending; none is empty
};

}  // namespace reshardfs
