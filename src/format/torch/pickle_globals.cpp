// SPDX-License-Identifier: Apache-2.0
#include "format/torch/pickle_globals.h"

#include <algorithm>
#include <array>

#include "base/text/numbers.h"

namespace reshardfs::pickle {
namespace {

struct TorchType {
  std::string_view name;
  std::string_view storage;  ///< empty: it has no class of its own
  DType dtype;
};

constexpr std::array kTypes{
    TorchType{"float64", "DoubleStorage", DType::kFloat64},
    TorchType{"float32", "FloatStorage", DType::kFloat32},
    TorchType{"float16", "HalfStorage", DType::kFloat16},
    TorchType{"bfloat16", "BFloat16Storage", DType::kBFloat16},
    TorchType{"int64", "LongStorage", DType::kInt64},
    TorchType{"int32", "IntStorage", DType::kInt32},
    TorchType{"int16", "ShortStorage", DType::kInt16},
    TorchType{"int8", "CharStorage", DType::kInt8},
    TorchType{"uint8", "ByteStorage", DType::kUInt8},
    TorchType{"bool", "BoolStorage", DType::kBool},
    TorchType{"uint16", "", DType::kUInt16},
    TorchType{"uint32", "", DType::kUInt32},
    TorchType{"uint64", "", DType::kUInt64},
    TorchType{"float8_e4m3fn", "", DType::kFloat8E4M3},
    TorchType{"float8_e5m2", "", DType::kFloat8E5M2},
    TorchType{"float8_e8m0fnu", "", DType::kFloat8E8M0},
    TorchType{"float8_e4m3fnuz", "", DType::kFloat8E4M3FNUZ},
    TorchType{"float8_e5m2fnuz", "", DType::kFloat8E5M2FNUZ},
};

constexpr std::array<std::string_view, 8> kTypeFamilies{"float",   "bfloat", "int",   "uint",
                                                        "complex", "qint",   "quint", "bits"};

constexpr std::string_view kTorchModule = "torch.";
/// Archives of torch.save with such tensors are not read.
constexpr std::string_view kComplexText = "torch.complex64";

bool is_path_class(const PickleGlobal& global) {
  return (global.module == "pathlib" || global.module == "pathlib._local") &&
         (global.name == "PosixPath" || global.name == "WindowsPath" ||
          global.name == "PurePosixPath");
}

/// Packages whose classes hold numbers, names and each other; none of them is called.
bool is_of_table(const PickleGlobal& global) {
  constexpr std::array<std::string_view, 6> kPackages{
      "torch.distributed.checkpoint.",     "torch.distributed._shard.",
      "megatron.core.dist_checkpointing.", "nvidia_resiliency_ext.checkpointing.",
      "hyper_parallel.core.checkpoint.",   "hyper_parallel.core.distributed_checkpoint."};
  // A dot in the name would reach what the module has imported.
  return global.name.find('.') == std::string_view::npos &&
         std::any_of(kPackages.begin(), kPackages.end(),
                     [&](std::string_view package) { return global.module.starts_with(package); });
}

bool is_ordered_dict(const PickleGlobal& global) {
  return global == PickleGlobal{"collections", "OrderedDict"};
}

bool allowed_in_table(const PickleGlobal& global) {
  if (global.module == "torch") {
    return global.name == "Size" || global.name == "strided" || is_torch_type(global);
  }
  if (global.module == "torch.serialization") return global.name == "_get_layout";
  if (global.module == "builtins" || global.module == "__builtin__") {
    return global.name == "getattr";
  }
  return is_ordered_dict(global) || is_path_class(global) || is_of_table(global);
}

bool allowed_in_archive(const PickleGlobal& global) {
  if (global.module == "torch._utils") {
    return global.name == "_rebuild_tensor_v2" || global.name == "_rebuild_tensor_v3" ||
           global.name == "_rebuild_parameter";
  }
  if (global.module == "torch.storage") return global.name == "UntypedStorage";
  if (global.module == "torch") {
    const bool storage =
        global.name.ends_with("Storage") && global.name.find('.') == std::string_view::npos;
    return storage || is_torch_type(global);
  }
  return is_ordered_dict(global);
}

}  // namespace

const PickleRules kTableRules{allowed_in_table, false, "all_local_plans"};
const PickleRules kArchiveRules{allowed_in_archive, true, {}};
const PickleRules kSavedRules{nullptr, true, {}};

bool is_torch_type(const PickleGlobal& global) {
  if (global.module != "torch") return false;
  if (global.name == "bool") return true;
  return std::any_of(kTypeFamilies.begin(), kTypeFamilies.end(), [&](std::string_view family) {
    if (!global.name.starts_with(family) || global.name.size() == family.size()) return false;
    const std::string_view rest = global.name.substr(family.size());
    return is_digit(rest.front()) && std::all_of(rest.begin(), rest.end(), [](char c) {
             return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z');
           });
  });
}

std::optional<DType> dtype_from_torch(std::string_view name) noexcept {
  for (const TorchType& type : kTypes) {
    if (type.name == name) return type.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_text(std::string_view text) noexcept {
  if (text == kComplexText) return DType::kComplex64;
  if (text.starts_with(kTorchModule)) return dtype_from_torch(text.substr(kTorchModule.size()));
  for (const TorchType& type : kTypes) {
    if (mindspore_name(type.dtype) == text) return type.dtype;
  }
  return std::nullopt;
}

std::string text_of(DType dtype) {
  if (dtype == DType::kComplex64) return std::string(kComplexText);
  return has_torch_type(dtype) ? std::string(kTorchModule) + std::string(torch_name(dtype)) : "";
}

std::optional<DType> dtype_of_storage(std::string_view name) noexcept {
  for (const TorchType& type : kTypes) {
    if (!type.storage.empty() && type.storage == name) return type.dtype;
  }
  return std::nullopt;
}

std::string_view storage_of(DType dtype) noexcept {
  for (const TorchType& type : kTypes) {
    if (type.dtype == dtype) return type.storage;
  }
  return {};
}

std::string_view torch_name(DType dtype) noexcept {
  for (const TorchType& type : kTypes) {
    if (type.dtype == dtype) return type.name;
  }
  return mindspore_name(dtype);
}

bool has_torch_type(DType dtype) noexcept {
  return std::any_of(kTypes.begin(), kTypes.end(),
                     [&](const TorchType& type) { return type.dtype == dtype; });
}

}  // namespace reshardfs::pickle
