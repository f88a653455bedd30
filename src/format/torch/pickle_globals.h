// SPDX-License-Identifier: Apache-2.0
/// Which names of Python the files of PyTorch may contain, and what its types are here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "reshardfs/dtype.h"

#include "format/torch/pickle_tree.h"

namespace reshardfs::pickle {

/// Of the table of a distributed checkpoint (.metadata).
extern const PickleRules kTableRules;
/// Of the data.pkl in an archive of torch.save. Only what makes plain tensors.
extern const PickleRules kArchiveRules;
/// What users save with torch.save: anything.
extern const PickleRules kSavedRules;

/// Whether it is the type of an element, as torch.float32; of this or a later release.
bool is_torch_type(const PickleGlobal& global);
/// By its name in torch ("float32"); nothing if it has no counterpart.
std::optional<DType> dtype_from_torch(std::string_view name) noexcept;
/// By what a program prints of it: "torch.float32", or "Float32" of MindSpore.
std::optional<DType> dtype_from_text(std::string_view text) noexcept;
/// What PyTorch prints of it; empty if it has no counterpart.
std::string text_of(DType dtype);
/// By the class of its storage ("FloatStorage"); nothing if it has none or no counterpart.
std::optional<DType> dtype_of_storage(std::string_view name) noexcept;
/// The class of its storage; empty if it has none.
std::string_view storage_of(DType dtype) noexcept;
/// "float32"
std::string_view torch_name(DType dtype) noexcept;
/// Whether PyTorch has the type, and counts its elements as they are counted here: not complex
/// ones, and not packed ones, of which it counts bytes.
bool has_torch_type(DType dtype) noexcept;

}  // namespace reshardfs::pickle
