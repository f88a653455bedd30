// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/in_order_source.h"

#include <memory>
#include <utility>

#include "checkpoint/strided_read.h"
#include "format/torch/tensor_range.h"

namespace reshardfs {
namespace {

class InOrder final : public ComputedContent {
 public:
  InOrder(ByteSourcePtr file, TorchTensor tensor)
      : file_(std::move(file)),
        tensor_(std::move(tensor)),
        size_(content_bytes(tensor_.shape, tensor_.dtype)) {}

  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    read_strided(*file_, tensor_, offset, out);
  }

 private:
  ByteSourcePtr file_;
  TorchTensor tensor_;
  std::uint64_t size_;
};

}  // namespace

ByteRange InOrderSource::add(TorchTensor tensor) {
  return append(std::make_unique<const InOrder>(file(), std::move(tensor)));
}

}  // namespace reshardfs
