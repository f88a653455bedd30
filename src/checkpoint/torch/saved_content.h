// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/dcp/described_content.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// Files whose pickles or headers were read when their set was looked for.
class SavedContent final : public DescribedContent {
 public:
  /// @param source what the extents of `index` are ranges of.
  /// @param files of torch.save that it is made from; none: its file is of another format.
  SavedContent(std::shared_ptr<const FileIndex> index, ByteSourcePtr source,
               std::vector<ByteSourcePtr> files)
      : index_(std::move(index)), source_(std::move(source)), files_(std::move(files)) {}

  std::shared_ptr<const FileIndex> index() const override { return index_; }
  ByteSourcePtr tensors(ByteSourcePtr /*file*/) const override { return source_; }
  /// The source that the index was read from, so that both are of one version of the file.
  ByteSourcePtr opened() const override { return source_; }
  bool is_torch(const std::filesystem::path& /*file*/) const override { return !files_.empty(); }
  std::size_t places() const override { return 0; }
  std::vector<RefusedTensor> examine(const ByteSource& /*tensors*/,
                                     bool /*read_all*/) const override {
    return {};
  }
  std::vector<SavedArchives> archives(const ByteSource& tensors) const override;

 private:
  std::shared_ptr<const FileIndex> index_;
  ByteSourcePtr source_;
  std::vector<ByteSourcePtr> files_;
};

/// The content of a file that has these tensors; see index_of_tensors().
std::shared_ptr<const SavedContent> content_of_tensors(std::vector<TorchTensor> tensors,
                                                       const ByteSourcePtr& file, BoxOffsets boxes);

}  // namespace reshardfs
