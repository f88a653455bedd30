// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/describe_set.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/content_size.h"
#include "base/json/json_writer.h"
#include "base/text/state_names.h"
#include "base/text/text.h"
#include "base/text/wrapper_names.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/quantized/block_scales.h"
#include "checkpoint/quantized/dequantize.h"
#include "checkpoint/quantized/weight_parts.h"
#include "checkpoint/whole/lora_adapter.h"
#include "checkpoint/whole/stated_words.h"
#include "cli/describe/free_names.h"
#include "cli/describe/layout_facts.h"
#include "cli/describe/model_facts.h"
#include "cli/describe/near_strategies.h"
#include "cli/describe/next_commands.h"
#include "cli/describe/places.h"
#include "cli/describe/proven_sizes.h"
#include "cli/describe/set_kind.h"
#include "cli/shown_words.h"
#include "conversion/auto_map.h"
#include "conversion/installed_maps.h"
#include "conversion/model_maps.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "plan/mapped/mapped_source.h"
#include "storage/local/linkless_tree.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhereStrategies =
    "MindSpore writes it to strategy_ckpt_config.save_file, MindSpore Transformers to "
    "output/strategy/";

class Describer {
 public:
  explicit Describer(const DescribedSource& source)
      : source_(source),
        set_(*source.set),
        ranks_(rank_names(set_)),
        known_(known_source(source.request, set_)) {}

  SetDescription describe() {
    SetKind kind = kind_of(set_.root(), source_.options, set_);
    out_.kind = std::move(kind.kind);
    out_.format = std::move(kind.words);
    out_.place = places_of(source_.named, set_);
    describe_names();
    if (!source_.options.dequantize && source_.options.quantize.empty()) find_quantized();
    out_.written_by = stated_writers(set_.root(), set_);
    describe_model();
    describe_quantization();
    describe_metadata();
    describe_layout();
    find_strategies();
    const NextFacts next = next_facts();
    if (next.strategies.size() == 1) out_.src_strategy = next.strategies.front();
    if (sizes_ && next.can_mount) out_.src_strategy = sizes_->text;
    out_.next = next_commands(next);
    return std::move(out_);
  }

 private:
  /// Whether ranks may hold slices, and nothing says of what.
  bool needs_strategy() const {
    return out_.kind == kRankFiles && source_.laid_out == nullptr && ranks_.ranks.size() > 1 &&
           !source_.request.strategy && source_.request.sizes.empty();
  }

  void describe_model() {
    HeldNames held = ranks_.held;
    if (out_.kind != kRankFiles) held.groups.clear();
    out_.model = facts_of_model(held);
    read_config_facts(set_.completeness().config, out_.model);
    if (source_.laid_out != nullptr) {
      count_elements(source_.laid_out->table().unmapped());
    } else if (ranks_.ranks.size() == 1) {
      count_held();
    }
  }

  /// With the installed maps for models of the type, or with all if none is.
  ModelFacts facts_of_model(const HeldNames& held) {
    try {
      installed_ = installed_maps();
    } catch (const Error&) {
      return model_facts(held, {}, known_.program);  // no network is known then
    }
    const std::vector<std::string> types = known_.config.model_types();
    std::vector<modelmap::ModelMap> of_type;
    std::copy_if(installed_->begin(), installed_->end(), std::back_inserter(of_type),
                 [&](const auto& map) { return serves(map, types); });
    const bool is_known = std::any_of(of_type.begin(), of_type.end(),
                                      [](const auto& map) { return !map.types.empty(); });
    return model_facts(held, is_known ? of_type : *installed_, known_.program);
  }

  /// Names of which no map knows any: those of an adapter, and those that a wrapper has changed.
  void describe_names() {
    if (std::string adapter = adapter_words(set_); !adapter.empty()) {
      out_.place.push_back(std::move(adapter));
    }
    if (!source_.options.state_key.empty()) return;
    CommonWrapper wrapper;
    for (const std::string& name : ranks_.held.names) {
      if (!is_training_state(name, set_.state_prefixes())) wrapper.add(name);
    }
    if (set_.takes_state_key()) wrapper_ = wrapper.key();
    std::string words = wrapper_words(wrapper, set_.takes_state_key());
    if (!words.empty()) out_.place.push_back(std::move(words));
  }

  /// By the configuration, and by the types of the tensors.
  void describe_quantization() {
    const std::vector<std::string>& methods = out_.model.quantization;
    if (methods.empty()) return;
    std::string shown = "codes and scales pass as they are stored";
    if (source_.options.dequantize) {
      shown = "shown as BFloat16";
    } else if (!source_.options.quantize.empty()) {
      shown = "shown as NVFP4";
    } else if (!holds_quantized()) {
      shown = "but no tensor is stored in such a form";
    } else if (!quantized_.weights.empty()) {
      shown = fmt::format("{}; {}; --dequantize shows BFloat16", forms_of_weights(), shown);
    }
    out_.quantized =
        fmt::format("{} ({}): {}", fmt::join(methods, ", "), out_.model.quantization_by, shown);
  }

  /// A description leaves out what cannot be told of them; dequantize() reports it.
  void find_quantized() {
    try {
      quantized_ = quantized_model(set_.files(), set_.completeness().config, nullptr);
    } catch (const Error&) {
      quantized_ = {};
    }
    if (!quantized_.refused.empty()) quantized_.weights.clear();
    parts_ = weight_parts(quantized_.weights);
  }

  /// "INT4 in groups of 128 (1234 weights), FP8 by row (12)"
  std::string forms_of_weights() const {
    std::map<std::string, std::size_t> counts;
    for (const ModelParts::Shown& shown : quantized_.weights) ++counts[form_words(shown.weight)];
    std::vector<std::pair<std::string, std::size_t>> forms(counts.begin(), counts.end());
    std::stable_sort(forms.begin(), forms.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string text;
    for (const auto& [form, count] : forms) {
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", form,
                          text.empty() ? counted(count, "weight") : std::to_string(count));
    }
    return text;
  }

  bool holds_quantized() const {
    const auto holds = [](const RankFile& file) {
      const auto& entries = file.index->entries();
      return std::any_of(entries.begin(), entries.end(), [](const TensorEntry& entry) {
        return may_be_quantized(entry.dtype, entry.shape);
      });
    };
    return std::any_of(set_.files().begin(), set_.files().end(), holds);
  }

  void describe_metadata() {
    try {
      StatedWords words = read_stated_words(
          set_, linkless_tree_of(source_.options.no_symlinks ? set_.root() : "", set_.root()));
      for (auto& [key, value] : words.header) {
        out_.headers.emplace_back(key, json_quoted(value, JsonText::kReplaced));
      }
      for (const std::string& key : words.ambiguous) out_.headers.emplace_back(key, "null");
      out_.index = std::move(words.index);
    } catch (const Error&) {
      // The code that reads it to show the model reports what is wrong.
    }
  }

  /// Of a quantized weight, the elements that it stands for.
  void count(const std::string& name, const Shape& shape, DType dtype) {
    if (!is_array(dtype)) return;
    const auto part = parts_.find(name);
    if (part == parts_.end()) {
      *out_.model.elements += static_cast<std::uint64_t>(element_count(shape));
    } else if (part->second.is_codes) {
      *out_.model.elements += static_cast<std::uint64_t>(element_count(part->second.shape));
    }
    out_.model.bytes +=
        static_cast<std::uint64_t>(content_size(shape, dtype, "a parameter's size"));
  }

  void count_elements(const SourceTable& table) {
    out_.model.elements = 0;
    for (const SourceParameter& parameter : table.parameters()) {
      if (is_training_state(parameter.name, set_.state_prefixes())) continue;
      if (!parameter.grid) {
        // Its full shape is not known.
        out_.model.elements.reset();
        return;
      }
      count(parameter.name, parameter.grid->full_shape(), parameter.dtype);
    }
  }

  void count_held() {
    out_.model.elements = 0;
    for (const RankFile& file : set_.files()) {
      for (const TensorEntry& entry : file.index->entries()) {
        if (is_training_state(entry.name, set_.state_prefixes())) continue;
        count(entry.name, entry.shape, entry.dtype);
      }
    }
  }

  void describe_layout() {
    LayoutFacts& layout = out_.layout;
    if (source_.laid_out != nullptr) {
      layout = stated_layout(source_.laid_out->table());
      layout.by = stated_by();
    } else if (out_.kind == kRankFiles && is_from_zero()) {
      layout.stages = stages_by_names(ranks_.groups);
      if (layout.stages) {
        layout.devices = static_cast<std::int64_t>(ranks_.ranks.size()) / *layout.stages;
        layout.by = "the names that each rank holds";
      }
    }
    layout.ranks = ranks_.ranks;
  }

  std::string stated_by() const {
    if (source_.request.strategy) return source_.request.strategy->string();
    return source_.request.sizes.empty() ? "the checkpoint" : source_.request.sizes.text;
  }

  /// Whether the ranks are 0 to n.
  bool is_from_zero() const {
    return ranks_.ranks.back() == Rank(static_cast<std::int64_t>(ranks_.ranks.size()) - 1);
  }

  void find_strategies() {
    if (!needs_strategy()) return;
    const auto found = find_near_strategies(source_.named, !source_.options.no_symlinks);
    out_.strategies = fit_near_strategies(found, [&](const fs::path& path) {
      SourceRequest with = source_.request;
      with.strategy = fs::absolute(path);
      with.maps = {};
      DiffSide side = DiffSide::open(with, {}, source_.set);
      require_cover(side);
      return side;
    });
    if (prove_sizes()) return;
    out_.lacks = fmt::format(
        "the strategy that it was saved with, which says what each rank's slices are; {}",
        kWhereStrategies);
  }

  bool fits_any() const {
    return std::any_of(out_.strategies.begin(), out_.strategies.end(),
                       [](const NearStrategy& strategy) { return strategy.misfit.empty(); });
  }

  /// Where no strategy is near, shapes may tell the same.
  bool prove_sizes() {
    if (fits_any() || !is_from_zero() || is_url(set_.root())) return false;
    SizesQuestion question;
    question.set = source_.set;
    question.path = source_.request.path;
    question.linkless_root = linkless_root(source_.request);
    question.stages = out_.layout.stages.value_or(1);
    question.devices = static_cast<std::int64_t>(ranks_.ranks.size()) / question.stages;
    question.layers = out_.model.layers;
    sizes_ = proven_sizes(question);
    if (!sizes_ || !can_be_mounted(sizes_->side)) {
      sizes_.reset();
      return false;
    }
    out_.layout = stated_layout(sizes_->side.table());
    out_.layout.by = "shapes and names, with config.json";
    out_.layout.ranks = ranks_.ranks;
    count_elements(sizes_->side.table());
    return true;
  }

  NextFacts next_facts() {
    NextFacts next;
    if (is_url(set_.root()) && shown_location(source_.named) != source_.named) return next;
    next.source = source_.named;
    next.options = source_.carried;
    for (const NearStrategy& strategy : out_.strategies) {
      if (strategy.misfit.empty() && strategy.same_as.empty())
        next.strategies.push_back(strategy.path);
    }
    const bool is_whole = ranks_.ranks.size() == 1 && source_.laid_out == nullptr;
    if (sizes_) next.sizes = sizes_->text;
    if (source_.options.state_key.empty() && set_.takes_state_key()) {
      next.state_keys = set_.beside().wrappers;
    }
    next.can_dequantize = is_whole && !quantized_.weights.empty();
    const bool is_known = std::find(next.state_keys.begin(), next.state_keys.end(), wrapper_) !=
                          next.state_keys.end();
    if (!wrapper_.empty() && !is_known) next.state_keys.push_back(wrapper_);
    const bool fits = is_whole || sizes_ || next.strategies.size() == 1 ||
                      (source_.laid_out != nullptr && can_be_mounted(*source_.laid_out));
    next.can_mount = fits && set_.refused().empty() && set_.completeness().missing.empty();
    next.needs_partial = flaw_of_model(source_.statement).has_value();
    next.can_verify = next.can_mount && !next.needs_partial &&
                      set_.completeness().open_extents.empty() &&
                      (source_.laid_out == nullptr ||
                       source_.laid_out->table().unmapped().missing_ranks().empty());
    next.can_guess = needs_strategy() && !sizes_ && next.strategies.empty() && is_from_zero() &&
                     set_.refused().empty() && source_.request.dec_key_file.empty() &&
                     !is_url(set_.root());
    const std::string maps = next.can_mount ? maps_to_hugging_face() : std::string();
    next.shows_hf = next.can_mount && maps.empty() && shows_names_as_they_are();
    if (!maps.empty()) next.hf_needs = has_config() ? maps : maps + kAndModelConfig;
    next.mountpoint = free_mountpoint(source_.request.path);
    next.directory = free_output(source_.request.path, "");
    next.rules = free_name("strategy", ".toml");
    const bool is_as_shown = source_.request.maps.maps.empty() && !source_.request.strategy &&
                             source_.request.sizes.empty() && !sizes_;
    if (next.can_mount && next.strategies.empty() && is_as_shown) next.map = fitting_map();
    return next;
  }

  bool has_config() const {
    return !out_.model.model_type.empty() || !out_.model.architectures.empty() ||
           !known_.config.model_types().empty();
  }

  /// Whether a mount has hf/ without being asked for it, if the names are those of Hugging Face.
  bool shows_names_as_they_are() const {
    return has_config() && set_.adapter().empty() && source_.request.maps.maps.empty() &&
           out_.model.weights > 0;
  }

  /// As options; empty: none is needed, or none is known.
  std::string maps_to_hugging_face() {
    if (!set_.adapter().empty() || !source_.request.maps.maps.empty()) return {};
    if (!installed_) installed_ = installed_maps();
    return hugging_face_maps(ranks_.held.names, set_.state_prefixes(), known_, *installed_);
  }

  /// The only installed map that shows all tensors without being told more.
  std::string fitting_map() const {
    std::string fitting;
    for (const std::string& name : out_.model.maps) {
      if (!is_fitting(name)) continue;
      if (!fitting.empty()) return {};
      fitting = name;
    }
    return fitting;
  }

  bool is_fitting(const std::string& name) const {
    try {
      const ModelMaps maps({.maps = {name}}, source_.request.path,
                           source_.options.no_symlinks ? source_.request.path : fs::path());
      const auto table = std::make_shared<const SourceTable>(source_.set, std::nullopt);
      const auto tensors = full_tensors(*table, {});
      const auto options = maps.map_options(0, table, tensors);
      return check_mapping(maps.at(0), tensors, options).problems.empty();
    } catch (const Error&) {
      return false;
    }
  }

  const DescribedSource& source_;
  const CheckpointSet& set_;
  RankNames ranks_;
  const KnownSource known_;
  std::optional<std::vector<modelmap::ModelMap>> installed_;  ///< if they have been read
  QuantizedModel quantized_;                                  ///< what --dequantize would show
  std::map<std::string, WeightPart> parts_;
  std::optional<ProvenSizes> sizes_;
  std::string wrapper_;  ///< of all names, where --state-key takes it off
  SetDescription out_;
};

}  // namespace

SetDescription describe_set(const DescribedSource& source) {
  return Describer(source).describe();
}

}  // namespace reshardfs
