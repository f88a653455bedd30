// SPDX-License-Identifier: Apache-2.0
#include "conversion/stated_model/stated_model.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/state_names.h"
#include "base/text/text.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/whole/lora_adapter.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/exported_part.h"
#include "conversion/stated_model/layer_names.h"
#include "conversion/stated_model/model_numbers.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

/// A tensor of the set.
struct Held {
  const std::string* name = nullptr;
  DType dtype = DType::kFloat32;
  const Shape* shape = nullptr;  ///< of the whole; nullptr: not known
};

bool is_plain_float(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return true;
    default:
      return false;
  }
}

const std::filesystem::path& root_of(const ModelQuestion& question) {
  return question.source.empty() ? question.set.root() : question.source;
}

/// Whether the user has named one file, and no configuration that it is to be compared with.
bool is_alone(const ModelQuestion& question) {
  const std::vector<RankFile>& files = question.set.files();
  return question.config.empty() && files.size() == 1 && files.front().path == root_of(question);
}

class ModelStatement {
 public:
  ModelStatement(const ModelQuestion& question, Completeness& out)
      : question_(question), out_(out) {
    collect();
  }

  void compare(const ModelNumbers& numbers) {
    numbers_ = &numbers;
    is_sure_ = numbers.rule != nullptr && !numbers.is_draft && !is_alone(question_);
    const LayerStack* const stack = main_stack();
    bool proves = count_layers(stack);
    if (is_sure_) proves = compare_sizes() && proves;
    if (is_sure_ && numbers.rule->is_even && stack != nullptr)
      proves = compare_layers(*stack) && proves;
    if (proves && is_sure_ && has_both_ends()) {
      out_.grounds.push_back(numbers.file);
      if (out_.open_extents.empty()) out_.unstated.clear();
    }
  }

  /// Without numbers, what layers tell of each other.
  void compare_layers_alone() {
    is_sure_ = false;
    for (const auto& [block, layers] : stacks_) {
      if (!is_of_transformer(block)) continue;
      const auto gaps = wanted(block, layers, layers.gaps());
      if (!gaps.empty()) {
        add_missing(Error(ErrorKind::kMissing, "has no tensor of " + layers_words(gaps) + " of '" +
                                                   printable(std::string(block)) +
                                                   "', but has those of the layers around them"));
      }
      compare_layers(layers, block);
    }
  }

 private:
  void collect() {
    const SourceTable* const table = question_.table;
    if (table != nullptr) {
      for (const SourceParameter& parameter : table->parameters()) {
        add({&parameter.name, parameter.dtype,
             parameter.grid ? &parameter.grid->full_shape() : nullptr});
      }
    } else {
      collect_entries(question_.set.files());
    }
    refused_ = question_.set.refused();
    for (const RefusedTensor& tensor : refused_) add({&tensor.name, DType::kString, {}});
  }

  void collect_entries(const std::vector<RankFile>& files) {
    const bool is_whole = files.front().rank == files.back().rank;
    const bool shares_names =
        !is_whole || std::any_of(files.begin(), files.end(),
                                 [](const RankFile& file) { return file.index->has_boxes(); });
    const FileIndex* before = nullptr;
    for (const RankFile& file : files) {
      // The files of a stage share an index.
      if (file.index.get() == before) continue;
      before = file.index.get();
      for (const TensorEntry& entry : file.index->entries()) {
        if (is_training_state(entry.name, question_.set.state_prefixes())) continue;
        if (shares_names && !seen_.insert(entry.name).second) continue;
        const bool is_box = !is_whole || file.index->box_offsets(entry);
        add({&entry.name, entry.dtype, is_box ? nullptr : &entry.shape.get()});
      }
    }
  }

  void add(const Held& held) {
    const std::string& name = *held.name;
    if (is_training_state(name, question_.set.state_prefixes())) return;
    held_.push_back(held);
    if (is_of_other_part(name)) return;
    if (const auto layer = layer_of(name)) stacks_[layer->block].add(layer->number, layer->rest);
  }

  bool takes(const std::string& name) const {
    return (!question_.takes || question_.takes(name)) && !question_.drops.drops(name);
  }

  /// The stack that the configuration counts: that of the rule's word, and of several the one with
  /// most layers.
  const LayerStack* main_stack() {
    const std::string word = numbers_->rule != nullptr ? std::string(numbers_->rule->word) : "";
    const LayerStack* best = nullptr;
    std::pair<bool, std::size_t> most{};
    for (const auto& [block, stack] : stacks_) {
      const bool fits = block == word || block.ends_with("." + word);
      const std::pair<bool, std::size_t> rank{fits, stack.layers().size()};
      if (best != nullptr && rank <= most) continue;
      best = &stack;
      most = rank;
      block_ = block;
    }
    return best;
  }

  std::string name_of(std::string_view block, std::int64_t number, std::string_view rest) const {
    return std::string(block) + "." + std::to_string(number) + "." + std::string(rest);
  }

  /// Those of which any tensor is asked for, as far as their names can be told.
  std::vector<std::int64_t> wanted(std::string_view block, const LayerStack& stack,
                                   std::vector<std::int64_t> numbers) const {
    const auto& like = *stack.layers().begin();
    std::erase_if(numbers, [&](std::int64_t number) {
      return std::none_of(like.second.begin(), like.second.end(), [&](std::string_view rest) {
        return takes(name_of(block, number, rest));
      });
    });
    return numbers;
  }

  /// @return whether all layers are there.
  bool count_layers(const LayerStack* stack) {
    if (!numbers_->layers || stack == nullptr) return false;
    const std::int64_t count = *numbers_->layers;
    const std::vector<std::int64_t> all = stack->lacking(count);
    if (all.empty()) return true;
    // Other networks may number anything, and have several stacks.
    if (!is_sure_ && stacks_.size() > 1) return false;
    const auto lacking = wanted(block_, *stack, all);
    if (!lacking.empty()) {
      add_missing(Error(ErrorKind::kMissing, "has no tensor of " + layers_words(lacking) +
                                                 ", but " + numbers_->layers.origin() + " is " +
                                                 std::to_string(count)));
    }
    return false;
  }

  /// @return whether the layers have the same tensors.
  bool compare_layers(const LayerStack& stack) { return compare_layers(stack, block_); }

  bool compare_layers(const LayerStack& stack, std::string_view block) {
    const bool is_known = numbers_ != nullptr;
    const auto uneven = stack.uneven(is_known ? numbers_->kinds : std::vector<std::string>(),
                                     !is_known || !numbers_->is_quantized);
    // Of what is not known, several may be of a kind of their own.
    if (!is_sure_ && uneven.size() != 1) return uneven.empty();
    bool is_even = true;
    for (const LayerStack::Uneven& layer : uneven) {
      // Layers behind those that are counted have more: they predict further tokens.
      if (is_known && numbers_->layers && layer.like >= *numbers_->layers) continue;
      std::vector<std::string> names;
      for (const std::string_view rest : layer.rest) {
        std::string name = name_of(block, layer.number, rest);
        // If few layers have it, these may have too much instead of the others too little.
        const bool counts = layer.is_rare || (is_known && numbers_->shapes.find(name));
        if (counts && takes(name)) names.push_back(std::move(name));
      }
      if (names.empty()) continue;
      is_even = false;
      const std::string what = names.size() == 1 ? "is" : name_list(names) + " are";
      add_missing(Error(ErrorKind::kMissing, what + " missing, although layer " +
                                                 std::to_string(layer.like) + " has such tensors")
                      .for_parameter(names.front()));
    }
    return is_even;
  }

  /// @return whether no size differs.
  bool compare_sizes() {
    std::size_t count = 0;
    std::optional<Error> first;
    for (const Held& held : held_) {
      if (held.shape == nullptr || !is_plain_float(held.dtype)) continue;
      if (is_of_other_part(*held.name) || !takes(*held.name)) continue;
      const auto stated = numbers_->shapes.find(*held.name);
      if (!stated || !is_compared(*held.name, *stated)) continue;
      auto error = differs(*held.name, *held.shape, *stated);
      if (!error) continue;
      if (count++ == 0) first = std::move(error);
    }
    if (!first) return true;
    if (count > 1) first->explain("; so do " + counted(count - 1, "other tensor"));
    const bool is_missing = first->kind() == ErrorKind::kMissing;
    (is_missing ? out_.missing : out_.differences).push_back(std::move(*first));
    return false;
  }

  /// Whether models of this type have the stated shape.
  bool is_compared(const std::string& name, const StatedShape& stated) const {
    const LayerRule& rule = *numbers_->rule;
    const auto layer = layer_of(name);
    if (layer && layer->block != block_) return false;
    if (stated.is_of_others) return false;
    return stated.is_of_heads ? rule.has_heads : rule.has_sizes;
  }

  std::optional<Error> differs(const std::string& name, const Shape& found,
                               const StatedShape& stated) const {
    if (found.size() != stated.shape.size()) return std::nullopt;
    bool lacks_rows = false;
    bool other = false;
    for (std::size_t d = 0; d < found.size(); ++d) {
      if (stated.shape[d] < 0 || found[d] == stated.shape[d]) continue;
      const bool is_vocabulary = d == 0 && stated.may_have_more_rows;
      if (is_vocabulary && found[d] > stated.shape[d]) continue;
      (is_vocabulary ? lacks_rows : other) = true;
    }
    if (!lacks_rows && !other) return std::nullopt;
    std::string what = "is " + to_string(found) + ", but " + numbers_->file + " states ";
    what += lacks_rows && !other ? "vocab_size " + std::to_string(stated.shape.front())
                                 : to_string(stated.shape) + " (" + stated.origins + ")";
    Error error(lacks_rows && !other ? ErrorKind::kMissing : ErrorKind::kBadInput, what);
    error.for_parameter(name);
    return error;
  }

  /// Whether an embedding and an output are there, so that files with the first or the last tensors
  /// are.
  bool has_both_ends() const {
    const auto tables = std::count_if(held_.begin(), held_.end(), [](const Held& held) {
      return !is_of_other_part(*held.name) && has_row_for_each_word(*held.name);
    });
    return tables > 1 || (tables == 1 && numbers_->shapes.ties_embeddings() == true);
  }

  /// Whether the layers have names of transformers, whose layers are alike.
  bool is_of_transformer(std::string_view block) const {
    constexpr std::array<std::string_view, 5> kWords{"self_attn.", "attention.", "self_attention.",
                                                     "mlp.", "feed_forward."};
    const auto& first = *stacks_.at(block).layers().begin();
    return std::any_of(first.second.begin(), first.second.end(), [&](std::string_view rest) {
      return std::any_of(kWords.begin(), kWords.end(),
                         [&](std::string_view word) { return rest.starts_with(word); });
    });
  }

  void add_missing(Error error) {
    error.in_file(root_of(question_).string());
    if (is_sure_) {
      out_.missing.push_back(std::move(error));
    } else {
      out_.doubts.emplace_back(error.what());
    }
  }

  const ModelQuestion& question_;
  Completeness& out_;
  std::vector<Held> held_{};
  std::unordered_set<std::string_view> seen_{};
  std::vector<RefusedTensor> refused_{};
  LayerStacks stacks_{};
  const ModelNumbers* numbers_ = nullptr;
  std::string_view block_{};  ///< of the main stack
  bool is_sure_ = false;
};

/// @param named a config.json, or a directory with one.
std::filesystem::path named_config(const std::filesystem::path& named) {
  return path_kind(named) == PathKind::kDirectory ? named / "config.json" : named;
}

/// Opens the config.json of a source that nobody has listed, or another one.
SourceTreePtr config_tree(const SourceRequest& request) {
  const std::filesystem::path& config = request.maps.model_config;
  return linkless_tree_of(linkless_root(request), config.empty() ? request.path : config);
}

/// Whether ranks are missing: what they hold is not known here.
bool lacks_ranks(const ModelQuestion& question) {
  if (question.table != nullptr && question.table->states_layouts()) {
    return !question.table->missing_ranks().empty();
  }
  const Rank last = question.set.files().back().rank;
  return !question.set.missing_ranks(RankRange(Rank(), last - Rank() + 1)).empty();
}

}  // namespace

bool has_use_for_config(const SourceRequest& request) {
  const std::filesystem::path& config = request.maps.model_config;
  return config.empty() || !request.maps.maps.empty() || request.dequantize ||
         !request.quantize.empty() || !request.sizes.empty() ||
         (!request.path.empty() &&
          numbers_of_config(named_config(config), config_tree(request)).has_value());
}

ModelQuestion model_question(const SourceRequest& request, const CheckpointSet& set,
                             const SourceTreePtr& tree) {
  ModelQuestion question{set, nullptr, request.path, request.maps.model_config, {}, {}, {}, {}};
  question.drops = Renames({}, request.drops, state_prefixes(request, set));
  question.tree = tree && question.config.empty() ? unrecorded(tree) : config_tree(request);
  const std::filesystem::path& training = request.maps.training_config;
  const auto numbers =
      numbers_of_training(training, linkless_tree_of(linkless_root(request), training));
  if (numbers) question.training = std::make_shared<const ModelNumbers>(*numbers);
  return question;
}

std::filesystem::path config_of(const ModelQuestion& question) {
  if (!question.config.empty()) return named_config(question.config);
  if (!is_alone(question)) return question.set.completeness().config;
  // The user already knows that it is a part.
  if (!question.set.completeness().doubts.empty() || is_url(root_of(question))) return {};
  return root_of(question).parent_path() / "config.json";
}

namespace {

Completeness state_numbers(const ModelQuestion& question) {
  Completeness out = question.set.completeness();
  std::string unread;
  const auto config = numbers_of_config(config_of(question), question.tree, &unread);
  if (!unread.empty()) out.doubts.push_back(unread);
  if (std::string clash = wrapper_clash(question.set); !clash.empty()) {
    out.doubts.push_back(std::move(clash));
  }
  if (lacks_ranks(question) || !adapter_words(question.set).empty()) return out;
  const auto arguments = numbers_of_arguments(question.set);
  const bool is_known = (config && config->layers) || arguments || question.training;
  ModelStatement statement(question, out);
  if (config) statement.compare(*config);
  if (arguments) statement.compare(*arguments);
  if (question.training) statement.compare(*question.training);
  if (!is_known || (config && config->rule == nullptr)) statement.compare_layers_alone();
  return out;
}

/// What an export of ours has left out is not missing. Where its options do not tell which names
/// these are, nothing is.
Completeness state_part(const ModelQuestion& question, const ExportedPart& part) {
  ModelQuestion of_part = question;
  of_part.takes = [&](const std::string& name) {
    return (!question.takes || question.takes(name)) && (!part.takes || part.takes(name));
  };
  Completeness out = state_numbers(of_part);
  const Completeness& own = question.set.completeness();
  if (!part.takes) {
    out.missing = own.missing;
    out.doubts = own.doubts;
  }
  out.grounds.clear();
  out.unstated = part.words;
  return out;
}

}  // namespace

Completeness state_model(const ModelQuestion& question) {
  const auto part = exported_part(root_of(question));
  return part ? state_part(question, *part) : state_numbers(question);
}

}  // namespace reshardfs
