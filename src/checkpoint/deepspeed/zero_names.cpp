// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_names.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

/// Under which the file for all ranks is kept.
constexpr std::int64_t kOfAllRanks = 0;
constexpr std::string_view kModelEnd = "_model_states.pt";
constexpr std::string_view kOptimizerEnd = "_optim_states.pt";
constexpr const char* kUniversal =
    "convert it with DeepSpeed's ds_to_universal.py, and name the directory that it writes as the "
    "source";

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

/// Files of forms of parallelism whose cuts no file states: what they are.
std::string_view other_parallelism(std::string_view name) {
  const bool is_state = name.ends_with(kModelEnd) || name.ends_with(kOptimizerEnd) ||
                        name.ends_with("-model_states.pt");
  if (!is_state) return {};
  if (name.find("expert") != std::string_view::npos || name.starts_with("expp_rank_")) {
    return "expert parallelism";
  }
  return name.starts_with("layer_") ? "pipeline parallelism" : "";
}

[[noreturn]] void refuse(const std::filesystem::path& directory, const std::string& name,
                         std::string_view parallelism) {
  throw Error(ErrorKind::kUnsupported, "is a checkpoint of DeepSpeed with " +
                                           std::string(parallelism) + " (" + printable(name) +
                                           "), and no file states how tensors are cut by it")
      .in_file(directory.string())
      .hint(kUniversal);
}

}  // namespace

std::optional<ZeroFileName> parse_zero_name(std::string_view name) {
  ZeroFileName out;
  out.optimizer = name.ends_with(kOptimizerEnd);
  if (!out.optimizer && !name.ends_with(kModelEnd)) return std::nullopt;
  name.remove_suffix(out.optimizer ? kOptimizerEnd.size() : kModelEnd.size());
  if (!take_word(name, "bf16_")) take_word(name, "fp16_");
  if (take_word(name, "zero_pp_rank_")) {
    out.data = take_number<std::int64_t>(name);
    if (!out.data || !take_word(name, "_")) return std::nullopt;
  }
  if (!take_word(name, "mp_rank_")) return std::nullopt;
  const auto model = take_number<std::int64_t>(name);
  if (!model || !name.empty() || (out.optimizer && !out.data)) return std::nullopt;
  out.model = *model;
  return out;
}

std::optional<ZeroFiles> find_zero_files(const std::filesystem::path& directory,
                                         const SourceTreePtr& tree) {
  ZeroFiles files;
  std::string of_experts;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (!entry.is_regular) continue;
    if (!other_parallelism(entry.name).empty()) of_experts = entry.name;
    const auto name = parse_zero_name(entry.name);
    if (!name) continue;
    if (name->model != 0) refuse(directory, entry.name, "tensor parallelism");
    if (entry.is_link && refuses_links(tree)) throw link_refused(directory / entry.name);
    if (!name->optimizer && name->data) files.model_of_each_rank = true;
    auto& known = name->optimizer ? files.optimizer : files.model;
    const auto [place, is_new] = known.emplace(name->data.value_or(kOfAllRanks), entry.name);
    if (is_new) continue;
    throw Error(ErrorKind::kBadInput, "has two files of one rank: '" + printable(place->second) +
                                          "' and '" + printable(entry.name) + "'")
        .in_file(directory.string())
        .hint("keep those of one save");
  }
  if (files.model.empty() && files.optimizer.empty()) return std::nullopt;
  if (!of_experts.empty()) refuse(directory, of_experts, other_parallelism(of_experts));
  return files;
}

}  // namespace reshardfs
