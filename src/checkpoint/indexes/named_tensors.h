// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/process/retry_once.h"
#include "format/file_index.h"
#include "format/torch/torch_zip_tensors.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// The tensors of one file by their names: a safetensors file, or an archive that torch.save made
/// from a dictionary of tensors. Both kinds may have the same extension; their first bytes differ.
class NamedTensors {
 public:
  /// @param wanted the index whose names are kept, because a file may have any number of others.
  ///        nullptr: all names are kept.
  explicit NamedTensors(std::shared_ptr<const FileIndex> wanted = nullptr)
      : wanted_(std::move(wanted)) {}

  /// Reads the positions of the tensors, if they are not known yet. Any number of threads may call
  /// this and find(), always for the same file.
  /// @throws errors of reading an index; the next call then tries again.
  void read(const ByteSource& file) const;
  /// @throws Error kMissing if there is no tensor of that name; errors of read().
  const TorchTensor& find(const ByteSource& file, const std::string& name) const;

 private:
  bool keeps(std::string_view name) const {
    return wanted_ == nullptr || wanted_->find(name) != nullptr;
  }
  void read_safetensors(const ByteSource& file, std::vector<TorchTensor>& tensors) const;

  std::shared_ptr<const FileIndex> wanted_;
  mutable RetryOnce read_;
  mutable std::unordered_map<std::string, TorchTensor> tensors_;
  /// Why other tensors in the file cannot be shown, by their names.
  mutable std::unordered_map<std::string, std::string> refused_;
};

}  // namespace reshardfs
