// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "format/torch/torch_tensor.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// A file, and behind its end tensors of it in C order that lie in another order in the file:
/// transposed, with gaps, or several times the same elements.
class InOrderSource final : public ByteSource {
 public:
  explicit InOrderSource(ByteSourcePtr file) : file_(std::move(file)), size_(file_->size()) {}

  /// Before the first read.
  /// @return where its contents are.
  /// @throws Error kBadInput if the source becomes too large.
  ByteRange add(TorchTensor tensor);

  const std::string& name() const override { return file_->name(); }
  std::uint64_t size() const override { return size_; }
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
    TorchTensor tensor;
  };

  ByteSourcePtr file_;
  std::uint64_t size_;
  std::vector<Behind> behind_;  ///< ascending; none is empty
};

}  // namespace reshardfs
