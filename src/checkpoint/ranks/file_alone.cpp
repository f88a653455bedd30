// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/file_alone.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/text.h"
#include "checkpoint/deepspeed/zero_names.h"
#include "checkpoint/iteration/iteration_names.h"
#include "checkpoint/megatron/rank_directory.h"
#include "checkpoint/megatron/rank_file.h"
#include "checkpoint/megatron/rank_model.h"
#include "checkpoint/ranks/path_pattern.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/ranks/rank_place.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/torch/archive_folder.h"
#include "checkpoint/torch/fsdp_set.h"
#include "checkpoint/torch/meta_set.h"
#include "checkpoint/whole/counted_name.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReadAlone = "is read alone";
constexpr const char* kAlone =
    ", and is read alone, as it was named: its tensors may be slices; name ";

bool is_there(const fs::path& path) {
  std::error_code failed;
  return !is_url(path) && fs::exists(path, failed) && !failed;
}

/// Whether the file lies in a rank's directory, as "rank_1/net.ckpt" does, beside which there are
/// others, or before which there must be others.
bool is_in_rank_directory(const fs::path& file) {
  return is_rank_directory((is_url(file) ? file : fs::absolute(file)).parent_path());
}

/// The same of a rank in the file's own name.
bool is_named_after_rank(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::vector<RankInName> ranks = ranks_in_file_name(name);
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankInName& rank) {
    if (rank.rank > 0) return true;
    std::string other = name;
    other[rank.end - 1] = '1';
    return is_there(file.parent_path() / other);
  });
}

/// Of a file that has one parameter of a universal checkpoint: "zero/bias/fp32.pt".
std::string universal_words(const std::string& head, const fs::path& file) {
  const std::string name = file.filename().string();
  const bool is_state = name == "fp32.pt" || name == "exp_avg.pt" || name == "exp_avg_sq.pt";
  const fs::path place = (is_url(file) ? file : fs::absolute(file)).parent_path();
  if (!is_state || place.parent_path().filename() != "zero") return {};
  return head + "of parameter '" + printable(place.filename().string()) +
         "' alone in a universal checkpoint of DeepSpeed, and is read alone, as it was named; name "
         "the directory of the step to read the model";
}

/// Of a rank's file of ZeRO that has flat parts, or no parameters.
std::string zero_words(const std::string& head, std::string_view name) {
  const auto parsed = parse_zero_name(name);
  if (!parsed || (!parsed->data && parsed->model == 0)) return {};
  const std::string what = parsed->optimizer
                               ? "one rank's states of the optimizer by DeepSpeed, in flat vectors"
                               : "one rank's file of DeepSpeed";
  return head + what + kAlone + "the directory of the step to read the model";
}

/// What a file of torch.save states of the ranks that saved it; empty: nothing, or one rank did.
std::string saved_part(const TorchArchive& archive) {
  const PickleTree& tree = archive.tree();
  const PickleValue states = tree.find(tree.root(), "optimizer_state_dict");
  for (const char* const key : {"single_partition_of_fp32_groups", "fp32_flat_groups"}) {
    if (tree.find(states, key).is(PickleKind::kList)) {
      return "has one rank's states of the optimizer by DeepSpeed's ZeRO, in flat vectors";
    }
  }
  if (!tree.find(tree.root(), "param_shapes").is(PickleKind::kUnset)) {
    const auto ranks = tree.integer(tree.find(tree.root(), "mp_world_size"));
    if (ranks && *ranks > 1) {
      return "was saved by DeepSpeed with a model parallelism of " + std::to_string(*ranks) +
             ", and has one rank's part";
    }
    return {};
  }
  const MegatronArgs args(tree, tree.find(tree.root(), "args"));
  std::string sizes;
  for (const std::string_view name : {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                                      "expert_model_parallel_size"}) {
    if (const auto number = args.number(name); number && *number > 1) {
      sizes += (sizes.empty() ? "" : ", ") + std::string(name) + " " + args.words(name);
    }
  }
  if (sizes.empty()) return {};
  return "has one rank's part of a model by Megatron-LM (" + sizes + " in its arguments)";
}

/// Ranks that have a directory or a file of another step, but none of the files that are taken.
std::vector<Rank> ranks_without_file(const RankFiles& found, const std::vector<FoundFile>& taken) {
  std::set<Rank> without = found.ranks_with_directory;
  for (const FoundFile& file : found.files) without.insert(file.rank);
  for (const Rank rank : found.ranks_of_other_series) without.erase(rank);
  for (const FoundFile& file : taken) without.erase(file.rank);
  return {without.begin(), without.end()};
}

Error no_file(const SourceFiles& files, const std::vector<Rank>& ranks, const fs::path& source,
              const std::string& step) {
  const std::string of_step = step.empty() ? "" : " of " + step_words(step);
  return Error(ErrorKind::kMissing,
               rank_words(ranks) + (ranks.size() == 1 ? " has" : " have") + " no file" + of_step +
                   " that matches " + printable(files.pattern) +
                   ", and without a strategy it is unknown which parameters are missing")
      .in_file(source.string())
      .for_rank(ranks.front())
      .hint(
          "bring the missing files, correct --src-pattern, or give the strategy with "
          "--src-strategy");
}

}  // namespace

std::string part_words(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::string head = "'" + printable(name) + "' is ";
  const std::string alone = ", and is read alone, as it was named";
  if (const auto counted_name = parse_counted_name(name)) {
    if (counted_name->count == 1) return {};
    return head + "file " + std::to_string(counted_name->index) + " of " +
           std::to_string(counted_name->count) + " of a model" + alone +
           "; name its directory to read them all";
  }
  if (const auto saved = parse_iteration_file(name)) {
    if (saved->count == 1) return {};
    return head + "the file of rank " + to_string(saved->rank) + " of a save of " +
           counted(static_cast<std::size_t>(saved->count), "file") + alone +
           ": its tensors may be slices; name its directory to read them all";
  }
  if (const auto world = fsdp_world_size(name)) {
    if (*world == 1) return {};
    return head + "one rank's file of " + std::to_string(*world) + kAlone +
           "its directory to read them all";
  }
  if (std::string words = zero_words(head, name); !words.empty()) return words;
  if (std::string words = universal_words(head, file); !words.empty()) return words;
  if (std::string words = meta_part_words(file); !words.empty()) return words;
  const RankPartName segment = rank_part_name(name);
  if (segment.part >= 0) {
    return head + "part " + std::to_string(segment.part) + " of '" + printable(segment.whole) +
           "'" + alone + "; name its directory to read all parts";
  }
  if (is_hyper_rank_name(name)) {
    return head + "one rank's file of hyper-parallel" + kAlone +
           "its directory, with .metadata, to read them all";
  }
  // Its arguments state how many ranks there are.
  if (name == kMegatronRankFile || !is_one_of_several(file)) return {};
  return head + "one rank's file" + kAlone + "the directory that has all ranks to read them all";
}

bool is_one_of_several(const fs::path& file) {
  return is_in_rank_directory(file) || is_named_after_rank(file);
}

void state_part(const std::vector<RankFile>& files, Completeness& out) {
  if (files.size() != 1 || !files.front().of_torch()) return;
  const bool is_told = std::any_of(
      out.doubts.begin(), out.doubts.end(),
      [](const std::string& doubt) { return doubt.find(kReadAlone) != std::string::npos; });
  if (is_told) return;
  const RankFile& file = files.front();
  const std::string part = read_archive(*file.saved, saved_part);
  if (part.empty()) return;
  out.doubts.push_back("'" + printable(file.path.filename().string()) + "' " + part +
                       "; it is read alone: name the directory with the files of all ranks to "
                       "read the model");
}

namespace {

/// vLLM's file of rank 0 alone is a whole model if there was one rank: a config.json, which it
/// saves, too, has the sizes that prove it.
bool is_unproven_rank(const std::set<Rank>& ranks, const fs::path& file) {
  return ranks.size() == 1 && file.filename().string().starts_with("model-rank-") &&
         !is_url(file) && !is_there(file.parent_path() / "config.json");
}

/// What the names of a directory and of the only file that is read there say of ranks.
std::vector<std::string> doubts_of_one_rank(const fs::path& source, const fs::path& file) {
  if (is_rank_directory(source)) {
    return {"'" + printable(directory_name(source)) +
            "' is one rank's directory: its tensors may be slices; name the directory above to "
            "read all ranks"};
  }
  if (!is_named_after_rank(file)) return {};
  return {"'" + printable(file.filename().string()) +
          "' is one rank's file: its tensors may be slices; bring the files of all ranks"};
}

}  // namespace

void state_files(const SourceFiles& files, const fs::path& source, Discovery& out) {
  out.completeness = state_names(out.files, source);
  if (files.pattern.empty()) {
    if (out.files.front().path != source) {
      out.completeness.doubts_without_layouts = doubts_of_one_rank(source, out.files.front().path);
    }
    out.by_contents = state_part;
    return;
  }
  Completeness& statement = out.completeness;
  if (const auto without = ranks_without_file(files.found, out.files); !without.empty()) {
    statement.missing_without_layouts.push_back(no_file(files, without, source, out.step));
  }
  std::set<Rank> ranks;
  for (const FoundFile& file : out.files) ranks.insert(file.rank);
  if (!PathPattern(files.pattern).has_rank() && !out.files.empty()) {
    std::string part = part_words(out.files.front().path);
    if (!part.empty()) statement.doubts.push_back(std::move(part));
  }
  if (ranks.size() == 1 && is_rank_directory(source)) {
    statement.doubts_without_layouts = doubts_of_one_rank(source, out.files.front().path);
  } else if (is_unproven_rank(ranks, out.files.front().path)) {
    statement.unstated = "whether '" + printable(out.files.front().path.filename().string()) +
                         "' is of the only rank, or its tensors are slices: a config.json beside "
                         "it would tell";
  }
  if (ranks.size() > 1) {
    out.by_contents = [](const std::vector<RankFile>& all, Completeness& found) {
      state_saved_names(all, found);
    };
  }
}

}  // namespace reshardfs
