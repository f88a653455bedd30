// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/mixer_parts.h"

#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace reshardfs {
namespace {

struct Part {
  std::string name;
  std::int64_t rows = 0;
};
using Parts = std::vector<Part>;

/// How a tensor ends in a rank's file, and how its parts begin.
struct PartsName {
  std::string_view end;
  std::string_view parts;
  bool is_input = false;  ///< the projection, not the convolution
  bool is_mamba = false;
};
constexpr std::array kPartsNames{
    PartsName{".mixer.in_proj.weight", ".mixer.in_proj.weight.", true, true},
    PartsName{".mixer.conv1d_weight", ".mixer.conv1d.weight.", false, true},
    PartsName{".mixer.conv1d_bias", ".mixer.conv1d.bias.", false, true},
    PartsName{".mixer.conv1d.weight", ".mixer.conv1d.weight.", false, true},
    PartsName{".mixer.conv1d.bias", ".mixer.conv1d.bias.", false, true},
    PartsName{".self_attention.in_proj.weight", ".self_attention.in_proj.weight.", true, false},
    PartsName{".self_attention.conv1d.weight", ".self_attention.conv1d.weight.", false, false},
    PartsName{".self_attention.conv1d.bias", ".self_attention.conv1d.bias.", false, false},
};

class PartFinder {
 public:
  PartFinder(const MegatronArgs& args, std::int64_t ranks, const std::vector<TorchTensor>& tensors)
      : args_(args), ranks_(ranks) {
    for (const TorchTensor& tensor : tensors) shapes_.emplace(tensor.name, tensor.shape);
  }

  /// @param why if nothing is returned.
  std::optional<Parts> find(const TorchTensor& tensor, const PartsName& joined,
                            std::string& why) const {
    const std::string layer(tensor.name.substr(0, tensor.name.size() - joined.end.size()));
    const std::string module = layer + (joined.is_mamba ? ".mixer." : ".self_attention.");
    // Of this rank: columns of the output, which are the values', and one number for each head.
    const auto values = length(module + "out_proj.weight", 1);
    const auto heads = length(module + "A_log", 0);
    const auto input = length(module + "in_proj.weight", 0);
    if (!values || !heads || !input) {
      why = "the sizes of its parts follow from out_proj, A_log and in_proj, which are missing";
      return std::nullopt;
    }
    // Both have two parts of `values` rows, and two of the keys' rows.
    const std::int64_t numbers = joined.is_mamba ? 1 : 2;  // of each head
    const std::int64_t rest = *input - 2 * *values - numbers * *heads;
    const std::int64_t keys = rest / 2;
    Parts parts;
    if (joined.is_mamba) {
      parts = {{"z", *values}, {"x", *values}, {"B", keys}, {"C", keys}, {"dt", *heads}};
    } else {
      parts = {{"query", keys}, {"key", keys},    {"value", *values},
               {"z", *values},  {"beta", *heads}, {"alpha", *heads}};
    }
    if (!joined.is_input) {
      parts = joined.is_mamba ? Parts{parts[1], parts[2], parts[3]}
                              : Parts{parts[0], parts[1], parts[2]};
    }
    std::int64_t rows = 0;
    for (const Part& part : parts) rows += part.rows;
    if (rest <= 0 || rest % 2 != 0 || tensor.shape.empty() || tensor.shape[0] != rows) {
      why = "its number of rows does not fit the sizes of out_proj, A_log and in_proj";
      return std::nullopt;
    }
    return checked(std::move(parts), joined, why);
  }

 private:
  std::optional<std::int64_t> length(const std::string& name, std::size_t dimension) const {
    const auto found = shapes_.find(name);
    if (found == shapes_.end() || found->second.size() <= dimension) return std::nullopt;
    return found->second[dimension];
  }

  /// Ranks have whole groups and heads.
  std::optional<Parts> checked(Parts parts, const PartsName& joined, std::string& why) const {
    const auto shares = [&](const char* name) {
      const auto number = args_.number(name);
      if (!number || *number % ranks_ == 0) return true;
      why = "the arguments state " + std::string(name) + " " + args_.words(name) + ", which " +
            std::to_string(ranks_) + " ranks cannot share equally";
      return false;
    };
    const bool fits = joined.is_mamba
                          ? shares("mamba_num_groups") && shares("mamba_num_heads")
                          : shares("linear_num_key_heads") && shares("linear_num_value_heads");
    return fits ? std::optional(std::move(parts)) : std::nullopt;
  }

  const MegatronArgs& args_;
  std::int64_t ranks_;
  std::unordered_map<std::string, Shape> shapes_;
};

const PartsName* joined_name(std::string_view name) {
  for (const PartsName& joined : kPartsNames) {
    if (name.ends_with(joined.end)) return &joined;
  }
  return nullptr;
}

TorchTensor rows_of(const TorchTensor& tensor, std::int64_t first, const Part& part,
                    const std::string& name) {
  TorchTensor rows = tensor;
  rows.name = name;
  rows.shape[0] = part.rows;
  rows.first += first * rows.strides[0];
  return rows;
}

}  // namespace

std::map<std::string, std::string> split_into_parts(const MegatronArgs& args, std::int64_t ranks,
                                                    std::vector<TorchTensor>& tensors) {
  const PartFinder finder(args, ranks, tensors);
  std::map<std::string, std::string> whole;
  std::vector<TorchTensor> out;
  out.reserve(tensors.size());
  for (TorchTensor& tensor : tensors) {
    const PartsName* const joined = joined_name(tensor.name);
    std::string why;
    const auto parts = joined == nullptr ? std::nullopt : finder.find(tensor, *joined, why);
    if (!parts) {
      if (joined != nullptr) whole.emplace(tensor.name, std::move(why));
      out.push_back(std::move(tensor));
      continue;
    }
    const std::string begin =
        tensor.name.substr(0, tensor.name.size() - joined->end.size()) + std::string(joined->parts);
    std::int64_t first = 0;
    for (const Part& part : *parts) {
      out.push_back(rows_of(tensor, first, part, begin + part.name));
      first += part.rows;
    }
  }
  tensors = std::move(out);
  return whole;
}

}  // namespace reshardfs
