// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>

#include "base/retry_once.h"
#include "format/torch_zip_tensors.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// The tensors of one file, by their names: of a safetensors file, or of an archive that torch.save
/// has made of a dictionary of tensors. Files of both kinds may have the same extension; their
/// first bytes tell.
class NamedTensors {
 public:
  /// Reads where the tensors are, if that is not known yet. From any number of threads, as what
  /// follows; all calls must be about the same file.
  /// @throws what reading an index throws; the next call then tries again.
  void read(const ByteSource& file) const;
  /// @throws Error kMissing if there is none of that name; what read() throws.
  const TorchTensor& find(const ByteSource& file, const std::string& name) const;

 private:
  mutable RetryOnce read_;
  mutable std::unordered_map<std::string, TorchTensor> tensors_;
};

}  // namespace reshardfs
