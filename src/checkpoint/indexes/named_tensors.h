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

/// The tensors of one file, by their names: of a safetensors file, or of an archive that torch.save
/// has made of a dictionary of tensors. Files of both kinds may have the same extension; their
/// first bytes tell.
class NamedTensors {
 public:
  /// @param wanted the index whose names are kept: a file may have any number of others. nullptr:
  ///        all are.
  explicit NamedTensors(std::shared_ptr<const FileIndex> wanted = nullptr)
      : wanted_(std::move(wanted)) {}

  /// Reads where the tensors are, if that is not known yet. From any number of threads, as what
  /// follows; all calls must be about the same file.
  /// @throws what reading an index throws; the next call then tries again.
  void read(const ByteSource& file) const;
  /// @throws Error kMissing if there is none of that name; what read() throws.
  const TorchTensor& find(const ByteSource& file, const std::string& name) const;

 private:
  bool keeps(std::string_view name) const {
    return wanted_ == nullptr || wanted_->find(name) != nullptr;
  }
  void read_safetensors(const ByteSource& file, std::vector<TorchTensor>& tensors) const;

  std::shared_ptr<const FileIndex> wanted_;
  mutable RetryOnce read_;
  mutable std::unordered_map<std::string, TorchTensor> tensors_;
  /// Why the file has others that cannot be shown, by their names.
  mutable std::unordered_map<std::string, std::string> refused_;
};

}  // namespace reshardfs
