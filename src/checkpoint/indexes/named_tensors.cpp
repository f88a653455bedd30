// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/indexes/named_tensors.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "format/safetensors/safetensors.h"

namespace reshardfs {
namespace {

bool is_archive(const ByteSource& file) {
  constexpr std::string_view kMark("PK\x03\x04");
  std::array<std::byte, kMark.size()> first{};
  if (file.size() < first.size()) return false;
  file.read_at(0, first);
  return std::memcmp(first.data(), kMark.data(), first.size()) == 0;
}

/// Contents of a file are one behind the other, in C order.
TorchTensor as_it_lies(const TensorEntry& entry) {
  TorchTensor tensor;
  tensor.name = entry.name;
  tensor.dtype = entry.dtype;
  tensor.shape = entry.shape;
  tensor.strides.assign(entry.shape.size(), 1);
  for (std::size_t d = entry.shape.size(); d-- > 1;) {
    tensor.strides[d - 1] = tensor.strides[d] * entry.shape[d];
  }
  if (!entry.extents.empty()) tensor.storage = entry.extents.front();
  return tensor;
}

}  // namespace

void NamedTensors::read_safetensors(const ByteSource& file,
                                    std::vector<TorchTensor>& tensors) const {
  const FileIndex index = safetensors::read_index(file);
  if (index.has_boxes()) {
    throw Error(ErrorKind::kBadInput,
                "has parts of tensors, which only the metadata beside it should state")
        .in_file(file.name());
  }
  for (const TensorEntry& entry : index.entries()) {
    if (keeps(entry.name)) tensors.push_back(as_it_lies(entry));
  }
  refused_.clear();
  for (const RefusedTensor& tensor : index.refused()) {
    if (keeps(tensor.name)) refused_.emplace(tensor.name, tensor.reason);
  }
}

void NamedTensors::read(const ByteSource& file) const {
  read_.call([&] {
    std::vector<TorchTensor> tensors;
    if (is_archive(file)) {
      tensors = read_torch_tensors(file, ByteRange(0, file.size()),
                                   [this](std::string_view name) { return keeps(name); });
    } else {
      read_safetensors(file, tensors);
    }
    std::unordered_map<std::string, TorchTensor> found;
    for (TorchTensor& tensor : tensors) {
      std::string key = tensor.name;
      if (!found.try_emplace(std::move(key), std::move(tensor)).second) {
        throw Error(ErrorKind::kBadInput, "has two tensors of one name").in_file(file.name());
      }
    }
    file.check_unchanged();
    tensors_ = std::move(found);
  });
}

const TorchTensor& NamedTensors::find(const ByteSource& file, const std::string& name) const {
  read(file);
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  if (const auto refused = refused_.find(name); refused != refused_.end()) {
    throw Error(ErrorKind::kUnsupported, "cannot be shown: " + refused->second)
        .in_file(file.name())
        .hint("leave it out with --exclude");
  }
  throw Error(ErrorKind::kMissing, "is not in the file where the checkpoint's metadata has it")
      .in_file(file.name())
      .hint("take all files from one save");
}

}  // namespace reshardfs
