// SPDX-License-Identifier: Apache-2.0
#include "strategy/guess.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/state_names.h"
#include "base/text.h"
#include "strategy/derive_cuts.h"
#include "strategy/guess_evidence.h"
#include "strategy/guess_shapes.h"
#include "strategy/guess_words.h"

namespace reshardfs {
namespace {

constexpr std::size_t kShownReadings = 4;

class Guesser {
 public:
  Guesser(const SlicedSet& set, const std::optional<modelmap::ModelConfig>& config)
      : set_(set), known_(config), has_config_(config.has_value()) {}

  Guess run() {
    for (const SlicedParameter& parameter : set_.parameters) {
      cases_.push_back(evidence_of(parameter));
      by_name_.emplace(parameter.name, cases_.size() - 1);
    }
    guess_.stages = set_.stages;
    guess_.devices = set_.devices;
    look_for_doubts();
    exclude_optimizer_cuts(cases_, set_.devices);
    usual_ = usual_group(cases_, set_.devices);
    optimizer_signs_ = std::any_of(cases_.begin(), cases_.end(), [](const Evidence& evidence) {
      const bool uncut = evidence.known != nullptr && evidence.known->usual_cut < 0 &&
                         evidence.known->role != ParameterRole::kCounter;
      return uncut && distinct_contents(evidence.parameter->slices.contents) > 1;
    });
    guess_.parameters.resize(cases_.size());
    for (const bool states : {false, true}) {
      for (std::size_t i = 0; i < cases_.size(); ++i) {
        if (cases_[i].is_state == states) decide(i);
      }
    }
    doubt_several_axes();
    return std::move(guess_);
  }

 private:
  Evidence evidence_of(const SlicedParameter& parameter) {
    Evidence evidence{&parameter};
    const std::string weight = weight_name_of(parameter.name);
    evidence.is_state = weight != parameter.name;
    evidence.known = known_.find(weight);
    if (set_.devices == 1 || parameter.slices.dimensions() == 0) return evidence;
    if (evidence.known == nullptr || evidence.known->shapes.empty()) return evidence;
    for (const Shape& shape : evidence.known->shapes) {
      evidence.add(readings_like(parameter.slices, shape));
    }
    if (evidence.fitting == 0) add_padded(evidence);
    return evidence;
  }

  /// A vocabulary may have been padded to a multiple of the number of ranks: by less than itself.
  void add_padded(Evidence& evidence) {
    const KnownParameter& known = *evidence.known;
    const DeviceSlices& slices = evidence.parameter->slices;
    if (known.padded < 0 || !slices.has_one_shape()) return;
    const auto d = static_cast<std::size_t>(known.padded);
    for (Shape shape : known.shapes) {
      if (slices.dimensions() != shape.size() || slices.shapes.front()[d] == 0) continue;
      const std::int64_t vocabulary = shape[d];
      const std::int64_t slice = slices.shapes.front()[d];
      for (std::int64_t parts = (vocabulary + slice - 1) / slice;
           parts <= set_.devices && parts * slice < 2 * vocabulary; ++parts) {
        shape[d] = parts * slice;
        evidence.add(readings_like(slices, shape));
      }
    }
    evidence.is_padded = evidence.fitting > 0;
  }

  /// As readings_like(), of slices whose full shape nobody knows.
  const std::vector<Reading>& readings_like(const DeviceSlices& slices) {
    const auto [found, is_new] = by_content_.try_emplace(std::pair(slices.shapes, slices.contents));
    if (is_new) found->second = readings_by_content(slices, set_.devices, usual_);
    return found->second;
  }

  /// Layers are alike: what holds for one holds for the next.
  const Readings& readings_like(const DeviceSlices& slices, const Shape& shape) {
    const auto [found, is_new] =
        readings_.try_emplace(std::make_tuple(slices.shapes, slices.contents, shape));
    if (is_new) found->second = readings_of(set_.devices, slices, shape);
    return found->second;
  }

  void look_for_doubts() {
    std::vector<std::string> misfits;
    for (const Evidence& evidence : cases_) {
      if (evidence.does_not_fit() && evidence.known->role != ParameterRole::kCounter)
        misfits.push_back(evidence.parameter->name);
    }
    if (!misfits.empty()) {
      const Evidence& first = cases_[by_name_.at(misfits.front())];
      guess_.doubts.push_back("the model's configuration does not fit " + name_list(misfits) +
                              " (" + slice_words(*first.parameter) + ", but the whole would be " +
                              to_string(first.known->shapes.front()) +
                              "), and proves nothing: is it that of another model?");
    }
    std::vector<std::string> repeating;
    for (const Evidence& evidence : cases_) {
      if (evidence.only_repeats()) repeating.push_back(evidence.parameter->name);
    }
    if (!repeating.empty()) {
      guess_.doubts.push_back("by the model's configuration the ranks hold different parts of " +
                              name_list(repeating) +
                              ", but they hold the same: is it that of another model?");
    }
    const LayerCount layers = count_layers(set_);
    if (!layers.misplaced.empty()) {
      guess_.doubts.push_back("the stages do not hold whole layers (" +
                              name_list(layers.misplaced) + "), and prove nothing");
    }
    if (set_.stages > 1 && layers.count == 0) {
      guess_.doubts.push_back(
          "the ranks form " + std::to_string(set_.stages) +
          " groups by the names that they hold, but no numbers of layers show that these are "
          "pipeline stages");
    }
    if (layers.count == 0 || !known_.fewest_layers()) return;
    const auto found = static_cast<std::int64_t>(layers.count);
    if (found >= *known_.fewest_layers() && found <= *known_.most_layers()) return;
    guess_.doubts.push_back("the model's configuration has " +
                            counted(static_cast<std::size_t>(*known_.fewest_layers()), "layer") +
                            ", the set " + std::to_string(layers.count) + ": it proves nothing");
  }

  void decide(std::size_t number) {
    const Evidence& evidence = cases_[number];
    const SlicedParameter& parameter = *evidence.parameter;
    GuessedParameter& out = guess_.parameters[number];
    out.name = parameter.name;
    out.stages = parameter.stages;
    out.dimensions = parameter.slices.dimensions();
    if (!parameter.stages_agree) {
      out.why = "the stages that share it hold other values, or cut it in another way";
    } else if (out.dimensions == 0) {
      settle(out, {whole_of(parameter)}, "a scalar has nothing to cut");
    } else if (set_.devices == 1) {
      settle(out, {whole_of(parameter)}, "a stage is one rank, which holds the whole");
    } else if (evidence.fitting > 0) {
      decide_by_shape(evidence, out);
    } else {
      decide_by_content(evidence, out);
    }
    if (out.certainty == Certainty::kProven && !guess_.doubts.empty() && out.dimensions > 0) {
      out.certainty = Certainty::kLikely;
    }
    if (out.readings.size() > kShownReadings) out.readings.resize(kShownReadings);
  }

  void doubt_several_axes() {
    for (const std::size_t i : cut_over_several_axes(cases_, guess_.parameters, set_.devices)) {
      guess_.parameters[i].certainty = Certainty::kLikely;
      guess_.parameters[i].why +=
          "; but several axes cut this dimension, and may do so in another order";
    }
  }

  Reading whole_of(const SlicedParameter& parameter) const {
    const Layout layout{.device_matrix = {set_.devices},
                        .tensor_map = TensorMap(parameter.slices.dimensions())};
    return reading_by(layout, parameter.slices.shapes.front());
  }

  static void settle(GuessedParameter& out, std::vector<Reading> readings, std::string why) {
    out.certainty = Certainty::kProven;
    out.readings = std::move(readings);
    out.why = std::move(why);
  }

  /// The full shape is known.
  void decide_by_shape(const Evidence& evidence, GuessedParameter& out) {
    const SlicedParameter& parameter = *evidence.parameter;
    const Reading* weight = reading_of_weight(evidence, Certainty::kProven);
    std::vector<Reading> readings =
        weight == nullptr ? evidence.readings : as_weight(*weight, evidence.readings);
    const std::string slices = slice_words(parameter) + ", " + contents_words(parameter);
    if (evidence.too_many) {
      out.why = slices + ": too many layouts to tell them apart";
    } else if (readings.empty()) {
      out.why = slices + ": no layout of the whole " + to_string(evidence.known->shapes.front()) +
                (evidence.readings.empty()
                     ? " explains which ranks hold the same: have copies drifted apart?"
                     : " goes with that of its weight");
    } else if (readings.size() == 1) {
      settle(out, readings, reason(evidence, readings.front()));
      if (repeats(readings.front(), parameter.slices)) {
        out.certainty = Certainty::kLikely;
        out.why += "; but slices that would be different parts are equal";
      }
      if (evidence.is_padded) {
        out.certainty = Certainty::kLikely;
        out.why += ", if the vocabulary of " + padding_words(evidence) + " was padded";
      }
    } else {
      prefer(evidence, std::move(readings), slices, out);
      follow_weight(evidence, evidence.readings, out);
    }
  }

  /// Of a state that is likely to be cut as its weight is likely to be.
  void follow_weight(const Evidence& evidence, const std::vector<Reading>& all,
                     GuessedParameter& out) const {
    const Reading* weight = reading_of_weight(evidence, Certainty::kLikely);
    if (weight == nullptr) return;
    std::vector<Reading> readings = as_weight(*weight, all);
    if (readings.empty()) return;
    out.certainty = Certainty::kLikely;
    out.why = reading_with_slices(readings.front(), *evidence.parameter) + ", like its weight";
    out.readings = std::move(readings);
  }

  static std::string padding_words(const Evidence& evidence) {
    const auto d = static_cast<std::size_t>(evidence.known->padded);
    return std::to_string(evidence.known->shapes.front()[d]);
  }

  static std::string reason(const Evidence& evidence, const Reading& reading) {
    if (evidence.known->role == ParameterRole::kCounter) return "whole: a counter has one element";
    if (reading.is_whole()) {
      return "whole: its slices have the full shape " + to_string(reading.full_shape) +
             " that the model's configuration gives";
    }
    return reading_with_slices(reading, *evidence.parameter) +
           ": no other layout of the full shape that the model's configuration gives";
  }

  /// Of a state: the reading of its weight, if it has this certainty and no optimizer cut.
  const Reading* reading_of_weight(const Evidence& evidence, Certainty certainty) const {
    if (!evidence.is_state) return nullptr;
    const auto found = by_name_.find(weight_name_of(evidence.parameter->name));
    if (found == by_name_.end()) return nullptr;
    const GuessedParameter& weight = guess_.parameters[found->second];
    if (weight.certainty != certainty || weight.readings.size() != 1) return nullptr;
    const Reading& reading = weight.readings.front();
    return reading.layout.optimizer_shard_size == 0 ? &reading : nullptr;
  }

  /// A state is cut like its weight, and by the optimizer once more where it is smaller.
  /// @return that reading, or nothing if it is not among these.
  static std::vector<Reading> as_weight(const Reading& weight,
                                        const std::vector<Reading>& readings) {
    const std::int64_t cells = std::accumulate(weight.splits.begin(), weight.splits.end(),
                                               std::int64_t{1}, std::multiplies<>());
    const std::int64_t copies = device_count(weight.layout) / cells;
    std::map<std::int64_t, Reading> wanted;  // by parts of the optimizer
    for (const Reading& reading : readings) {
      if (reading.full_shape != weight.full_shape) continue;
      const std::int64_t more = reading.splits.front() / weight.splits.front();
      if (more == 0 || copies % more != 0) continue;
      auto found = wanted.find(more);
      if (found == wanted.end()) {
        Layout layout = weight.layout;
        if (more > 1) layout.optimizer_shard_size = more;
        found = wanted.emplace(more, reading_by(layout, weight.full_shape)).first;
      }
      if (found->second.splits == reading.splits && found->second.parts == reading.parts) {
        return {reading};
      }
    }
    return {};
  }

  /// @return whether one is usual, and more so than the others.
  bool sort_by_oddness(std::vector<Reading>& readings) const {
    std::vector<std::pair<int, std::size_t>> order;
    for (std::size_t i = 0; i < readings.size(); ++i) {
      order.emplace_back(oddness(readings[i], usual_), i);
    }
    std::sort(order.begin(), order.end());
    std::vector<Reading> sorted;
    sorted.reserve(order.size());
    for (const auto& [odd, i] : order) sorted.push_back(std::move(readings[i]));
    readings = std::move(sorted);
    if (order.empty() || order[0].first > kUsual) return false;
    return order.size() == 1 || order[0].first < order[1].first;
  }

  /// Several readings are left.
  void prefer(const Evidence& evidence, std::vector<Reading> readings, const std::string& slices,
              GuessedParameter& out) const {
    const bool one_is_usual = sort_by_oddness(readings);
    out.why = question(slices, readings);
    if (one_is_usual) {
      out.certainty = Certainty::kLikely;
      out.why = reading_with_slices(readings.front(), *evidence.parameter) +
                ", like the others; the slices may be in another order";
      readings.resize(1);
    } else {
      out.why +=
          " No shape tells them apart: the saved strategy or the training's configuration "
          "settles it";
    }
    out.readings = std::move(readings);
  }

  static std::string question(const std::string& slices, const std::vector<Reading>& readings) {
    std::vector<std::string> words;
    for (const Reading& reading : readings) {
      const std::string text = reading_words(reading);
      if (std::find(words.begin(), words.end(), text) == words.end()) words.push_back(text);
    }
    std::string text = slices + ": ";
    for (std::size_t i = 0; i < words.size() && i < kShownReadings; ++i) {
      text += (i == 0 ? "" : i + 1 == words.size() ? ", or " : ", ") + words[i];
    }
    if (words.size() == 1) text += ", in several orders of the slices";
    return text + "?";
  }

  /// Nobody knows the full shape: what is usual counts, and proves nothing.
  void decide_by_content(const Evidence& evidence, GuessedParameter& out) {
    const SlicedParameter& parameter = *evidence.parameter;
    const std::string slices = slice_words(parameter) + ", " + contents_words(parameter);
    const bool equal = distinct_contents(parameter.slices.contents) == 1;
    if (!parameter.slices.has_one_shape()) {
      out.why = slices + ": cut unevenly, or not of one tensor?" + settling(evidence);
      return;
    }
    if (element_count(parameter.slices.shapes.front()) <= 1 && equal) {
      out.certainty = Certainty::kLikely;
      out.readings = {whole_of(parameter)};
      out.why = "whole: one element, " + contents_words(parameter);
      return;
    }
    std::vector<Reading> readings = readings_like(parameter.slices);
    follow_weight(evidence, readings, out);
    if (out.certainty == Certainty::kLikely) return;
    if (equal && !parameter.slices.is_constant()) {
      out.certainty = Certainty::kLikely;
      out.readings = {whole_of(parameter)};
      out.why = "whole: " + slice_words(parameter) + ", " + contents_words(parameter);
      return;
    }
    if (readings.empty()) {
      out.why = slices +
                ": no layout explains which ranks hold the same. Values of each rank's "
                "own, or copies that have drifted apart?";
      return;
    }
    const int cut = evidence.known == nullptr ? -1 : evidence.known->usual_cut;
    std::vector<Reading> usual = readings;
    std::erase_if(usual, [&](const Reading& reading) {
      return cut < 0 || !cuts_only(reading, static_cast<std::size_t>(cut));
    });
    const bool one_is_usual = sort_by_oddness(usual) && !equal && !optimizer_signs_;
    if (one_is_usual) {
      out.certainty = Certainty::kLikely;
      out.readings = {usual.front()};
      out.why =
          reading_with_slices(usual.front(), parameter) + ", as such parameters are usually cut";
      return;
    }
    out.why = question(slices, readings) + settling(evidence);
    out.readings = std::move(readings);
  }

  std::string settling(const Evidence& evidence) const {
    if (evidence.known == nullptr) {
      return " Its full shape settles it, but its name is of no family that reshardfs knows";
    }
    if (evidence.known->role == ParameterRole::kCounter) return " It should have one element";
    const std::string shape = "Its full shape [" + evidence.known->formula + "]";
    if (!has_config_) return " " + shape + " settles it: --model-config with the config.json";
    return " " + shape + " would settle it, but the model's configuration " +
           (evidence.known->shapes.empty() ? "lacks one of these" : "does not fit");
  }

  const SlicedSet& set_;
  KnownParameters known_;
  bool has_config_;
  std::vector<Evidence> cases_{};
  std::map<std::string, std::size_t> by_name_{};
  std::map<std::tuple<std::vector<Shape>, std::vector<std::uint32_t>, Shape>, Readings> readings_{};
  std::map<std::pair<std::vector<Shape>, std::vector<std::uint32_t>>, std::vector<Reading>>
      by_content_{};
  DeviceGroup usual_{};
  /// Slices of what tensor parallelism leaves whole differ.
  bool optimizer_signs_ = false;
  Guess guess_{};
};

}  // namespace

std::size_t Guess::count(Certainty certainty) const {
  return static_cast<std::size_t>(
      std::count_if(parameters.begin(), parameters.end(),
                    [&](const auto& parameter) { return parameter.certainty == certainty; }));
}

Guess guess_strategy(const SlicedSet& set, const std::optional<modelmap::ModelConfig>& config) {
  return Guesser(set, config).run();
}

}  // namespace reshardfs
