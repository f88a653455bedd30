// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/dcp/described_content.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// A file of torch.save whose pickle was read when its set was looked for.
class SavedContent final : public DescribedContent {
 public:
  /// @param source what the extents of `index` are ranges of.
  SavedContent(std::shared_ptr<const FileIndex> index, ByteSourcePtr source)
      : index_(std::move(index)), source_(std::move(source)) {}

  std::shared_ptr<const FileIndex> index() const override { return index_; }
  ByteSourcePtr tensors(ByteSourcePtr /*file*/) const override { return source_; }
  /// The source that the index was read from, so that both are of one version of the file.
  ByteSourcePtr opened() const override { return source_; }
  std::size_t places() const override { return 0; }
  std::vector<RefusedTensor> examine(const ByteSource& /*tensors*/,
                                     bool /*read_all*/) const override {
    return {};
  }

 private:
  std::shared_ptr<const FileIndex> index_;
  ByteSourcePtr source_;
};

/// The content of a file that has these tensors; see index_of_tensors().
std::shared_ptr<const SavedContent> content_of_tensors(std::vector<TorchTensor> tensors,
                                                       const ByteSourcePtr& file, BoxOffsets boxes);

}  // namespace reshardfs
