// SPDX-License-Identifier: Apache-2.0
/// Files of torch.save from before PyTorch 1.6: five pickles, and behind them the storages.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/byte_range.h"
#include "format/torch/pickle_tree.h"
#include "storage/byte_source.h"

namespace reshardfs {

struct TorchStream {
  std::unique_ptr<const PickleTree> tree;
  /// By their keys, in the source.
  std::map<std::string, ByteRange, std::less<>> storages;
};

/// @param begin the file's first bytes; 32 are enough.
bool is_torch_stream(std::string_view begin) noexcept;

/// @throws Error kBadInput with the offset if the file is something else or cut off; kUnsupported
///         if it was saved on a big-endian machine.
TorchStream read_torch_stream(const ByteSource& source);

}  // namespace reshardfs
