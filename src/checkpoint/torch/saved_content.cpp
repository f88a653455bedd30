// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/saved_content.h"

#include "checkpoint/torch/torch_file.h"
#include "format/torch/torch_archive.h"

namespace reshardfs {

std::vector<SavedArchives> SavedContent::archives(const ByteSource& /*tensors*/) const {
  std::vector<SavedArchives> all;
  for (const ByteSourcePtr& file : files_) all.push_back({file, {ByteRange::whole(file->size())}});
  return all;
}

std::shared_ptr<const SavedContent> content_of_tensors(std::vector<TorchTensor> tensors,
                                                       const ByteSourcePtr& file,
                                                       BoxOffsets boxes) {
  ByteSourcePtr source;
  auto index = index_of_tensors(std::move(tensors), {}, file, source, std::move(boxes));
  std::vector<ByteSourcePtr> archives;
  if (begins_like_torch(*file)) archives.push_back(file);
  return std::make_shared<const SavedContent>(std::move(index), std::move(source),
                                              std::move(archives));
}

}  // namespace reshardfs
