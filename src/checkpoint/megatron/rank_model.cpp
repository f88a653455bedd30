// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/rank_model.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/rank_list.h"
#include "base/text/text.h"
#include "checkpoint/megatron/hybrid_layers.h"
#include "checkpoint/megatron/layer_numbers.h"
#include "checkpoint/megatron/mixer_parts.h"
#include "checkpoint/megatron/rank_directory.h"
#include "checkpoint/megatron/tensor_cuts.h"
#include "checkpoint/megatron/tensor_names.h"
#include "checkpoint/shaped_catalogue.h"
#include "checkpoint/torch/saved_content.h"
#include "checkpoint/torch/torch_file.h"
#include "format/torch/torch_crc.h"

namespace reshardfs {
namespace {

constexpr const char* kBringAllRanks = "bring the files of all ranks from one save";
constexpr const char* kWordEmbedding = "embedding.word_embeddings.weight";
constexpr const char* kOutputLayer = "output_layer.weight";

/// Arguments that are the same in all files of one save.
constexpr std::array<std::string_view, 25> kSharedArguments{"tensor_model_parallel_size",
                                                            "pipeline_model_parallel_size",
                                                            "virtual_pipeline_model_parallel_size",
                                                            "expert_model_parallel_size",
                                                            "expert_tensor_parallel_size",
                                                            "num_layers",
                                                            "noop_layers",
                                                            "hybrid_layer_pattern",
                                                            "hybrid_override_pattern",
                                                            "schedules_method",
                                                            "hidden_size",
                                                            "ffn_hidden_size",
                                                            "num_attention_heads",
                                                            "num_query_groups",
                                                            "group_query_attention",
                                                            "kv_channels",
                                                            "vocab_size",
                                                            "padded_vocab_size",
                                                            "num_experts",
                                                            "moe_ffn_hidden_size",
                                                            "swiglu",
                                                            "untie_embeddings_and_output_weights",
                                                            "world_size",
                                                            "seed",
                                                            "consumed_train_samples"};

/// Arguments that tell how the model is cut and padded.
constexpr std::array<std::string_view, 12> kShownArguments{"tensor_model_parallel_size",
                                                           "pipeline_model_parallel_size",
                                                           "virtual_pipeline_model_parallel_size",
                                                           "expert_model_parallel_size",
                                                           "num_layers",
                                                           "noop_layers",
                                                           "hybrid_layer_pattern",
                                                           "hybrid_override_pattern",
                                                           "schedules_method",
                                                           "vocab_size",
                                                           "padded_vocab_size",
                                                           "make_vocab_size_divisible_by"};

std::int64_t stated_size(const MegatronArgs& args, std::string_view name) {
  if (args.is_set(name)) return args.size_or_one(name);
  throw Error(ErrorKind::kUnsupported,
              "states no " + std::string(name) +
                  " in its arguments (the key 'args'), so it is unknown whether files are missing")
      .hint(
          "save it with Megatron-LM, or name a model_optim_rng.pt as the source to see what is in "
          "that file alone");
}

void require_known_cuts(const MegatronArgs& args) {
  for (const std::string_view name : {"gtp_weight_remat_size", "expert_gtp_weight_remat_size"}) {
    if (args.size_or_one(name) == 1) continue;
    throw Error(ErrorKind::kUnsupported, "was saved with " + std::string(name) + " " +
                                             args.words(name) +
                                             ", by which weights are cut further")
        .hint("save it as torch_dist (--ckpt-format torch_dist)");
  }
}

/// What is at one name in the whole model.
struct Located {
  std::string name{};
  std::optional<OneOf> expert{};
  std::string problem{};  ///< why it is not known; empty: it is known
};

class RankModel {
 public:
  RankModel(std::vector<MegatronRankContent> contents, const MegatronSizes& sizes, Discovery& out)
      : contents_(std::move(contents)),
        sizes_(sizes),
        ranks_(saving_ranks(sizes)),
        args_(contents_.front().saved.args),
        out_(out) {}

  void join() {
    require_one_save();
    require_processes();
    number_layers();
    find_other_layers();
    for (std::size_t i = 0; i < contents_.size(); ++i) place(i);
    require_on_all_ranks();
    require_on_one_stage();
    require_pattern();
    for (std::size_t i = 0; i < contents_.size(); ++i) describe(i);
    state();
    out_.catalogue = catalogue_without(std::move(problems_), std::move(shapes_),
                                       static_cast<std::int64_t>(contents_.size()));
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(ErrorKind::kBadInput, what).hint(kBringAllRanks);
  }

  std::string quoted(std::size_t number) const {
    return "'" + printable(contents_[number].directory) + "'";
  }

  void require_one_save() const {
    const MegatronRankFile& first = contents_.front().saved;
    for (std::size_t i = 1; i < contents_.size(); ++i) {
      const MegatronRankFile& saved = contents_[i].saved;
      if (saved.iteration != first.iteration) {
        refuse(quoted(0) + " and " + quoted(i) + " are of different iterations");
      }
      const auto name = args_.difference(saved.args, kSharedArguments);
      if (!name) continue;
      refuse(quoted(0) + " and " + quoted(i) + " are not of one save: their arguments state " +
             std::string(*name) + " " + args_.words(*name) + " and " + saved.args.words(*name));
    }
  }

  void require_processes() {
    std::vector<SavingProcess> processes;
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      processes.push_back(
          {contents_[i].directory, ranks_[i], contents_[i].saved.args.number("rank")});
    }
    if (!require_places(processes, sizes_)) name_copies();
  }

  /// Ranks have different parts of the model. If the CRCs that PyTorch writes are the same for all
  /// tensors of two, one file is probably a copy of the other; constant weights look the same.
  void name_copies() {
    std::map<std::vector<std::uint32_t>, std::size_t> known;
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      const ByteSource& file = *contents_[i].file;
      const TorchCrcs stated = torch_crcs(file, ByteRange::whole(file.size()));
      if (!stated.are_all) return;
      std::vector<std::uint32_t> crcs;
      for (const TorchCrcEntry& entry : stated.entries) {
        if (entry.name.starts_with("data/")) crcs.push_back(entry.crc);
      }
      const auto [first, is_new] = known.try_emplace(std::move(crcs), i);
      if (is_new) continue;
      out_.completeness.doubts.push_back(quoted(first->second) + " and " + quoted(i) +
                                         " have the same bytes in all tensors, although ranks "
                                         "have different parts: is one a copy of the other?");
    }
  }

  std::size_t chunks() const { return contents_.front().saved.chunks.size(); }

  /// All files of a stage must have the same layers.
  void number_layers() {
    const std::size_t stated = stated_chunks(args_);
    StageLayers layers(static_cast<std::size_t>(sizes_.pipeline));
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      const std::vector<MegatronChunk>& chunks = contents_[i].saved.chunks;
      if (chunks.size() != stated) {
        refuse(quoted(i) + " has " + counted(chunks.size(), "part") +
               " of the model, but the arguments state " + std::to_string(stated) +
               " (virtual_pipeline_model_parallel_size " +
               args_.words("virtual_pipeline_model_parallel_size") + ")");
      }
      std::vector<std::vector<std::int64_t>> held;
      held.reserve(chunks.size());
      for (const MegatronChunk& chunk : chunks) held.push_back(chunk.layers);
      auto& known = layers[static_cast<std::size_t>(ranks_[i].stage)];
      if (known.empty()) known = held;
      if (known != held) refuse(quoted(i) + " has other layers than other ranks of its stage");
    }
    numbers_ = LayerNumbers(args_, layers);
    if (!args_.number("num_layers")) {
      out_.completeness.unstated = "how many layers the model has";
    }
  }

  /// Where there are layers outside of the decoder.
  void find_other_layers() {
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
        for (const TorchTensor& tensor : contents_[i].saved.chunks[chunk].tensors) {
          const std::string prefix = other_layers(tensor.name);
          if (!prefix.empty()) other_layers_[prefix].emplace(ranks_[i].stage, chunk);
        }
      }
    }
  }

  /// The name and the expert in the whole model.
  Located locate(const MegatronRank& rank, std::size_t chunk, const std::string& local) const {
    Located out{local};
    if (const auto expert = parse_expert(local)) {
      out.name = expert->stacked;
      out.problem = take_expert(rank, expert->number, out.expert);
    } else if (local.find(".experts.") != std::string::npos && (sizes_.expert > 1 || cuts())) {
      out.problem =
          "it has the experts of a rank in one tensor, in an order that is unknown: save it as "
          "torch_dist (--ckpt-format torch_dist)";
    }
    if (const auto layer = decoder_layer(out.name)) {
      out.name =
          with_layer(out.name, numbers_.of(static_cast<std::size_t>(rank.stage), chunk, *layer));
    } else if (is_on_several_stages(local)) {
      out.problem = "several stages have layers of this name, and their numbers are unknown";
    }
    return out;
  }

  bool is_on_several_stages(const std::string& local) const {
    const auto found = other_layers_.find(other_layers(local));
    return found != other_layers_.end() && found->second.size() > 1;
  }

  bool cuts() const { return sizes_.tensor > 1; }

  /// @return why its number is not known; empty: it is.
  std::string take_expert(const MegatronRank& rank, std::int64_t local,
                          std::optional<OneOf>& expert) const {
    const auto experts = args_.number("num_experts");
    if (!experts || *experts < 1 || *experts % sizes_.expert != 0) {
      return "the arguments state num_experts " + args_.words("num_experts") +
             ", which the expert-parallel ranks cannot share equally";
    }
    const std::int64_t each = *experts / sizes_.expert;
    if (local >= each) {
      return "it is expert " + std::to_string(local) + " of its rank, but the arguments state " +
             std::to_string(each) + " on each rank";
    }
    expert = OneOf{rank.expert * each + local, *experts};
    return {};
  }

  void problem(const std::string& name, const std::string& reason) {
    problems_.try_emplace(name, reason);
  }

  void place(std::size_t number) {
    const MegatronRank& rank = ranks_[number];
    Placed& placed = placed_.emplace_back();
    for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
      MegatronChunk& model = contents_[number].saved.chunks[chunk];
      for (const auto& [name, why] : split_into_parts(args_, sizes_.tensor, model.tensors)) {
        problem(locate(rank, chunk, name).name, "it cannot be put together: " + why);
      }
      LocalShapes shapes;
      for (const TorchTensor& tensor : model.tensors) shapes.emplace(tensor.name, tensor.shape);
      const MegatronCuts cuts(args_, shapes, sizes_.tensor);
      const bool has_embedding = shapes.contains(kWordEmbedding);
      for (TorchTensor& tensor : model.tensors) {
        Located at = locate(rank, chunk, tensor.name);
        if (at.name == kOutputLayer && !has_embedding && shares_embedding())
          at.name = kWordEmbedding;
        place_one(number, tensor, at, cuts, placed);
      }
      for (const RefusedTensor& tensor : model.refused) {
        const Located at = locate(rank, chunk, tensor.name);
        problem(at.name, tensor.reason);
      }
    }
    require_all_experts(number, placed);
  }

  /// The last stage then has a copy of the embedding, which is kept equal.
  bool shares_embedding() const {
    return sizes_.pipeline > 1 &&
           args_.flag("untie_embeddings_and_output_weights") == std::optional(false);
  }

  struct Placed {
    std::vector<TorchTensor> tensors{};
    BoxOffsets offsets{};
    std::set<std::string> names{};
    std::map<std::string, std::int64_t> experts{};  ///< how many there are, by name
  };

  void place_one(std::size_t number, TorchTensor& tensor, const Located& at,
                 const MegatronCuts& cuts, Placed& placed) {
    placed.names.insert(at.name);
    if (at.expert) ++placed.experts[at.name];
    if (!at.problem.empty()) return problem(at.name, at.problem);
    const MegatronRank& rank = ranks_[number];
    const std::int64_t ranks = at.expert ? sizes_.expert_tensor : sizes_.tensor;
    Known<MegatronCut> cut = Known<MegatronCut>::derived(MegatronCut::kWhole, "one rank");
    if (ranks > 1) cut = cuts.find(tensor.name);
    if (!cut) {
      return problem(at.name, "it cannot be put together: " + cut.origin());
    }
    const DType dtype = tensor.dtype;
    PlacedPart part;
    try {
      part = place_part(tensor, *cut, {rank.tensor, ranks}, at.expert);
    } catch (const Error& error) {
      return problem(at.name, error.message());
    }
    if (!agrees(number, at.name, part.full_shape, dtype)) return;
    for (std::size_t i = 0; i < part.boxes.size(); ++i) {
      part.boxes[i].name = at.name;
      placed.offsets.add(placed.tensors.size(), part.offsets[i]);
      placed.tensors.push_back(std::move(part.boxes[i]));
    }
  }

  /// Whether all ranks have one shape and type of a tensor.
  bool agrees(std::size_t number, const std::string& name, const Shape& full, DType dtype) {
    const auto [known, is_new] = shapes_.emplace(name, full);
    if (is_new) {
      types_.emplace(name, std::pair(dtype, number));
      if (auto reason = contradiction(args_, name, full); !reason.empty()) {
        problem(name, reason);
        return false;
      }
      return true;
    }
    const auto& [type, first] = types_.at(name);
    if (known->second == full && type == dtype) return true;
    problem(name, known->second == full
                      ? "it is of different types in " + quoted(first) + " and " + quoted(number)
                      : "it would be " + to_string(known->second) + " by " + quoted(first) +
                            ", but " + to_string(full) + " by " + quoted(number) +
                            ": the files are not of one save");
    return false;
  }

  void require_all_experts(std::size_t number, const Placed& placed) {
    const auto experts = args_.number("num_experts");
    if (!experts) return;
    for (const auto& [name, count] : placed.experts) {
      if (count == *experts / sizes_.expert) continue;
      problem(name, quoted(number) + " has " + std::to_string(count) + " experts of it, but the " +
                        "arguments state " + std::to_string(*experts / sizes_.expert) +
                        " on each rank");
    }
  }

  /// What one rank of a stage has, its others must have.
  void require_on_all_ranks() {
    std::map<std::int64_t, std::set<std::string>> names;  // by stage
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      for (const std::string& name : placed_[i].names) names[ranks_[i].stage].insert(name);
    }
    for (std::size_t i = 0; i < placed_.size(); ++i) require_names(i, names[ranks_[i].stage]);
  }

  void require_names(std::size_t number, const std::set<std::string>& names) {
    const std::set<std::string>& held = placed_[number].names;
    if (held.size() == names.size()) return;
    for (const std::string& name : names) {
      if (held.contains(name)) continue;
      problem(name, quoted(number) + " does not have it, but other ranks of its stage do");
    }
  }

  /// A tensor of two stages is one of them: only embeddings are copied, as the arguments state.
  void require_on_one_stage() {
    std::map<std::string, std::size_t> first;  // of the contents
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      for (const std::string& name : placed_[i].names) {
        const std::size_t known = first.try_emplace(name, i).first->second;
        if (ranks_[known].stage == ranks_[i].stage || may_be_copied(name)) continue;
        problem(name, "it is in " + quoted(known) + " and in " + quoted(i) +
                          ", two pipeline stages, and no argument states that they share it");
      }
    }
  }

  /// Refuses a model whose layers differ from its pattern.
  void require_pattern() const {
    const auto text = layer_pattern_text(args_);
    if (!text) return;
    std::vector<modelmap::LayerTensor> names;
    for (const Placed& placed : placed_) {
      for (const std::string& name : placed.names) names.push_back({name, {}});
    }
    if (const std::string why = pattern_contradiction(args_, *text, names); !why.empty()) {
      refuse("cannot be put together: " + why);
    }
  }

  /// Layers that predict further tokens have the embedding on the last stage, too.
  bool may_be_copied(const std::string& name) const {
    if (name == kWordEmbedding && shares_embedding()) return true;
    return name.starts_with("embedding.") && args_.is_set("mtp_num_layers");
  }

  void describe(std::size_t number) {
    Placed& placed = placed_[number];
    std::vector<TorchTensor> tensors;
    BoxOffsets offsets;
    for (std::size_t i = 0; i < placed.tensors.size(); ++i) {
      if (problems_.contains(placed.tensors[i].name)) continue;
      const auto begins = placed.offsets.of(i);
      offsets.add(tensors.size(), Shape(begins->begin(), begins->end()));
      tensors.push_back(std::move(placed.tensors[i]));
    }
    out_.files[number].content =
        content_of_tensors(std::move(tensors), contents_[number].file, std::move(offsets));
  }

  void state() {
    std::vector<SavedBeside> beside;
    std::set<std::string> other;
    std::size_t extra_states = 0;
    for (MegatronRankContent& content : contents_) {
      SavedBeside& one = beside.emplace_back();
      one.values = std::move(content.saved.values);
      other.merge(content.saved.other_tensors);
      extra_states += content.saved.extra_states;
    }
    SavedBeside& first = beside.front();
    for (const std::string_view name : kShownArguments) {
      const bool is_pattern = name.starts_with("hybrid_");
      if (is_pattern ? args_.is_set(name) : args_.has(name)) {
        first.values.push_back({"args." + std::string(name), args_.words(name)});
      }
    }
    for (const std::string& name : other) {
      first.values.push_back({name, "not read: only the model is"});
    }
    if (extra_states > 0) {
      first.values.push_back({"*._extra_state", counted(extra_states, "state") +
                                                    " of modules, which are not weights"});
    }
    out_.beside = joined(std::move(beside));
    out_.completeness.grounds.push_back("the parallel sizes in the arguments of " +
                                        counted(contents_.size(), "file"));
    out_.completeness.counted = true;
  }

  std::vector<MegatronRankContent> contents_;
  MegatronSizes sizes_;
  std::vector<MegatronRank> ranks_;  ///< of the contents
  MegatronArgs args_;
  Discovery& out_;
  LayerNumbers numbers_;
  /// The stages and chunks that have layers outside of the decoder, by what their names begin with.
  std::map<std::string, std::set<std::pair<std::int64_t, std::size_t>>> other_layers_;
  std::vector<Placed> placed_;  ///< of the contents
  std::unordered_map<std::string, Shape> shapes_;
  /// The types, and the contents that they are from.
  std::unordered_map<std::string, std::pair<DType, std::size_t>> types_;
  std::map<std::string, std::string> problems_;  ///< by the names of tensors
};

}  // namespace

MegatronSizes sizes_of(const MegatronArgs& args) {
  MegatronSizes sizes;
  sizes.tensor = stated_size(args, "tensor_model_parallel_size");
  sizes.pipeline = stated_size(args, "pipeline_model_parallel_size");
  sizes.expert = args.size_or_one("expert_model_parallel_size");
  sizes.expert_tensor = sizes.tensor;
  require_known_cuts(args);
  const auto all = checked_mul(sizes.tensor, sizes.pipeline);
  const auto ranks = all ? checked_mul(*all, sizes.expert) : std::nullopt;
  if (!ranks || *ranks > kMaxRanks) {
    throw Error(ErrorKind::kBadInput, "states parallel sizes of more than " +
                                          std::to_string(kMaxRanks) + " ranks in its arguments");
  }
  if (!args.is_set("num_experts")) return sizes;
  if (args.is_set("expert_tensor_parallel_size")) {
    sizes.expert_tensor = args.size_or_one("expert_tensor_parallel_size");
  }
  const bool known = sizes.expert_tensor == sizes.tensor || sizes.expert_tensor == 1;
  if (!known || args.is_set("moe_extended_tp")) {
    throw Error(ErrorKind::kUnsupported,
                "was saved with tensor parallelism of " + std::to_string(sizes.tensor) +
                    ", but of " +
                    (known ? "all experts together"
                           : args.words("expert_tensor_parallel_size") + " for experts") +
                    ", and the directories do not state which part of them a rank has")
        .hint("save it as torch_dist (--ckpt-format torch_dist)");
  }
  return sizes;
}

void join_megatron_ranks(std::vector<MegatronRankContent> contents, const MegatronSizes& sizes,
                         Discovery& out) {
  RankModel(std::move(contents), sizes, out).join();
}

}  // namespace reshardfs
