// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/torch_file.h"

#include <utility>

#include "checkpoint/torch/in_order_source.h"
#include "checkpoint/torch/read_archive.h"
#include "checkpoint/torch/state_key.h"
#include "format/torch/tensor_range.h"

namespace reshardfs {

std::shared_ptr<const FileIndex> index_of_tensors(std::vector<TorchTensor> tensors,
                                                  std::vector<RefusedTensor> refused,
                                                  const ByteSourcePtr& file, ByteSourcePtr& source,
                                                  BoxOffsets boxes) {
  std::shared_ptr<InOrderSource> behind;
  std::vector<TensorEntry> entries;
  entries.reserve(tensors.size());
  for (TorchTensor& tensor : tensors) {
    TensorEntry& entry = entries.emplace_back();
    entry.name = std::move(tensor.name);
    entry.dtype = tensor.dtype;
    entry.shape = tensor.shape;
    entry.content_bytes = content_bytes(entry.shape, entry.dtype);
    if (entry.content_bytes == 0) continue;
    if (is_contiguous(tensor)) {
      entry.extents.push_back(contiguous_range(tensor));
      continue;
    }
    if (!behind) behind = std::make_shared<InOrderSource>(file);
    entry.extents.push_back(behind->add(std::move(tensor)));
  }
  source = file;
  if (behind) source = std::move(behind);
  return std::make_shared<const FileIndex>(std::move(entries), IndexHints{}, std::move(boxes),
                                           std::move(refused));
}

TorchFile open_torch_file(ByteSourcePtr file, const std::string& state_key) {
  TorchSave saved =
      read_archive(*file, [](const TorchArchive& archive) { return read_torch_save(archive); });
  keep_state(state_key, saved.tensors);
  keep_state(state_key, saved.refused);
  keep_state(state_key, saved.beside.values);
  TorchFile out;
  out.index =
      index_of_tensors(std::move(saved.tensors), std::move(saved.refused), file, out.source);
  out.beside = std::move(saved.beside);
  return out;
}

}  // namespace reshardfs
