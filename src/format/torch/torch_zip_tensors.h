// SPDX-License-Identifier: Apache-2.0
/// The tensors in archives of torch.save.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_range.h"
#include "format/torch/torch_tensor.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// The tensor of an archive that is just one.
/// @param place of the archive in the source.
/// @throws Error as TorchZip, and if it is anything else, or does not fit its storage; kUnsupported
///         if its type has no counterpart.
TorchTensor read_torch_tensor(const ByteSource& source, const ByteRange& place);
/// Those of an archive that is a dictionary of tensors.
/// @param takes the names of those that are wanted; of the others nothing is looked at. Empty: all.
/// @throws Error as above.
std::vector<TorchTensor> read_torch_tensors(
    const ByteSource& source, const ByteRange& place,
    const std::function<bool(std::string_view)>& takes = {});

}  // namespace reshardfs
