// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/saved_content.h"

#include "checkpoint/torch/torch_file.h"

namespace reshardfs {

std::shared_ptr<const SavedContent> content_of_tensors(std::vector<TorchTensor> tensors,
                                                       const ByteSourcePtr& file,
                                                       BoxOffsets boxes) {
  ByteSourcePtr source;
  auto index = index_of_tensors(std::move(tensors), {}, file, source, std::move(boxes));
  return std::make_shared<const SavedContent>(std::move(index), std::move(source));
}

}  // namespace reshardfs
