// SPDX-License-Identifier: Apache-2.0
/// Which names of Python the files of PyTorch may contain, and what its types are here.
#pragma once

#include <optional>
#include <string_view>

#include "reshardfs/dtype.h"

#include "format/pickle_tree.h"

namespace reshardfs::pickle {

/// Of the table of a distributed checkpoint (.metadata).
extern const PickleRules kTableRules;
/// Of the data.pkl in an archive of torch.save. Only what makes plain tensors.
extern const PickleRules kArchiveRules;

/// Whether it is the type of an element, as torch.float32; of this or a later release.
bool is_torch_type(const PickleGlobal& global);
/// By its name in torch ("float32"); nothing if it has no counterpart.
std::optional<DType> dtype_from_torch(std::string_view name) noexcept;
/// By the class of its storage ("FloatStorage"); nothing if it has none or no counterpart.
std::optional<DType> dtype_of_storage(std::string_view name) noexcept;
/// "float32"
std::string_view torch_name(DType dtype) noexcept;

}  // namespace reshardfs::pickle
