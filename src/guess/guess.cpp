// SPDX-License-Identifier: Apache-2.0
#include "guess/guess.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/text/state_names.h"
#include "base/text/text.h"
#include "guess/guess_evidence.h"
#include "guess/guess_network.h"
#include "guess/guess_shapes.h"
#include "guess/guess_words.h"

namespace reshardfs {
namespace {

/// Four axes of 2 that cut one dimension have as many orders.
constexpr std::size_t kMostListed = 24;

/// Padding a vocabulary adds less than this for each part, and less than the vocabulary.
constexpr std::int64_t kMostPadding = 128;

class Guesser {
 public:
  Guesser(const SlicedSet& set, const std::optional<modelmap::ModelConfig>& config,
          const std::vector<modelmap::ModelMap>& maps)
      : set_(set), known_(config, maps, weights_of(set)), has_config_(config.has_value()) {}

  Guess run() {
    for (const SlicedParameter& parameter : set_.parameters) {
      cases_.push_back(evidence_of(parameter));
      by_name_.emplace(parameter.name, cases_.size() - 1);
    }
    guess_.stages = set_.stages;
    guess_.devices = set_.devices;
    look_for_doubts();
    if (guess_.doubts.empty() && set_.devices > 1) {
      network_ = readings_by_network(cases_, set_.devices);
    }
    guess_.parameters.resize(cases_.size());
    // States can follow their weights.
    for (const bool states : {false, true}) {
      for (std::size_t i = 0; i < cases_.size(); ++i) {
        if (cases_[i].is_state() == states) decide(i);
      }
    }
    return std::move(guess_);
  }

 private:
  static std::vector<std::string> weights_of(const SlicedSet& set) {
    std::vector<std::string> names;
    for (const SlicedParameter& parameter : set.parameters) {
      names.push_back(weight_name_of(parameter.name));
    }
    return names;
  }

  Evidence evidence_of(const SlicedParameter& parameter) {
    Evidence evidence;
    evidence.parameter = &parameter;
    const std::string weight = weight_name_of(parameter.name);
    evidence.state = parameter.name.substr(0, parameter.name.size() - weight.size());
    evidence.known = known_.find(weight);
    if (set_.devices == 1 || parameter.slices.dimensions() == 0) return evidence;
    if (!evidence.shape_is_known()) return evidence;
    for (const Shape& shape : evidence.known->shapes) {
      evidence.readings.add(readings_like(parameter.slices, shape));
    }
    evidence.is_padded = !evidence.readings.fits;
    add_padded(evidence);
    evidence.is_padded = evidence.is_padded && evidence.readings.fits;
    return evidence;
  }

  /// A vocabulary may have been padded, to a multiple of some number for each of its parts.
  void add_padded(Evidence& evidence) {
    const KnownParameter& known = *evidence.known;
    const DeviceSlices& slices = evidence.parameter->slices;
    if (known.padded < 0 || !slices.has_one_shape()) return;
    const auto d = static_cast<std::size_t>(known.padded);
    for (Shape shape : known.shapes) {
      if (slices.dimensions() != shape.size() || slices.shapes.front()[d] == 0) continue;
      const std::int64_t vocabulary = shape[d];
      const std::int64_t slice = slices.shapes.front()[d];
      for (std::int64_t parts = vocabulary / slice + 1; parts <= set_.devices; ++parts) {
        const std::int64_t padding = parts * slice - vocabulary;
        if (padding >= vocabulary || padding >= kMostPadding * parts) break;
        shape[d] = parts * slice;
        evidence.readings.add(readings_like(slices, shape));
      }
    }
  }

  /// Like readings_like(), for slices whose full shape is unknown.
  const Readings& readings_like(const DeviceSlices& slices) {
    const auto [found, is_new] = any_shape_.try_emplace(std::pair(slices.shapes, slices.contents));
    if (is_new) found->second = readings_of_any_shape(set_.devices, slices);
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
    if (repeating.empty() && nothing_differs(cases_)) {
      guess_.doubts.emplace_back(
          "according to the model's configuration, parameters are cut, but all ranks hold the "
          "same: "
          "is it that of another model?");
    }
    doubt_stages();
  }

  void doubt_stages() {
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
      settle(out, whole_of(parameter), "a scalar has nothing to cut");
    } else if (!guess_.doubts.empty()) {
      out.why = slice_and_content_words(parameter) + ": nothing is proven while there is a doubt";
    } else if (set_.devices == 1) {
      settle(out, whole_of(parameter), "a stage is one rank, which holds the whole");
    } else if (!follow_weight(evidence, out)) {
      evidence.readings.fits ? decide_by_shape(number, out) : decide_without_shape(evidence, out);
    }
  }

  Reading whole_of(const SlicedParameter& parameter) const {
    const Layout layout{.device_matrix = {set_.devices},
                        .tensor_map = TensorMap(parameter.slices.dimensions())};
    return reading_by(layout, parameter.slices.shapes.front());
  }

  static void settle(GuessedParameter& out, Reading reading, std::string why) {
    out.certainty = Certainty::kProven;
    out.readings = {std::move(reading)};
    out.why = std::move(why);
  }

  /// Lists what is left, if that is not too much.
  /// @param settling what tells the readings apart.
  static void ask(const SlicedParameter& parameter, const Readings& readings,
                  const std::string& settling, GuessedParameter& out) {
    const std::size_t count = readings.left.size();
    const std::string slices = slice_and_content_words(parameter);
    if (readings.too_many || count > kMostListed) {
      out.other.clear();
      out.why = slices + ": " + (readings.too_many ? "more than " : "") + std::to_string(count) +
                " layouts explain them." + settling;
      return;
    }
    out.certainty = Certainty::kOneOf;
    out.readings = readings.left;
    out.why = slices + "." + settling;
  }

  /// The full shape is known.
  void decide_by_shape(std::size_t number, GuessedParameter& out) {
    const Evidence& evidence = cases_[number];
    const SlicedParameter& parameter = *evidence.parameter;
    Readings readings = evidence.readings;
    const bool by_network = network_ && network_->of[number];
    if (by_network) {
      readings.left = *network_->of[number];
      readings.too_many = false;
    }
    if (readings.left.empty()) {
      out.why = slice_and_content_words(parameter) + ": no layout of the whole " +
                to_string(evidence.known->shapes.front()) +
                " explains which ranks hold the same: have copies drifted apart?";
    } else if (readings.left.size() > 1 || readings.too_many) {
      ask(parameter, readings, order_settling(by_network), out);
    } else if (evidence.is_padded) {
      out.certainty = Certainty::kOneOf;
      out.readings = std::move(readings.left);
      out.other = "a part of some other vocabulary";
      out.why = slice_and_content_words(parameter) + ". It fits if the vocabulary of " +
                padding_words(evidence) + " was padded: the padded vocabulary in config.json " +
                "settles it";
    } else {
      const bool needs_network = evidence.readings.too_many || evidence.readings.left.size() > 1;
      settle(out, readings.left.front(), reason(evidence, readings.left.front(), needs_network));
    }
  }

  std::string order_settling(bool by_network) const {
    std::string text =
        " Shapes do not tell them apart: compare one whole tensor, or the model's loss with each "
        "of them";
    if (!by_network) return text;
    text += ". " + network_->code + " code cuts over one axis, here of ranks ";
    for (std::size_t i = 0; i < network_->axes.size(); ++i) {
      text += (i == 0 ? "" : " or of ranks ") + axis_words(network_->axes[i]);
    }
    return text;
  }

  static std::string padding_words(const Evidence& evidence) {
    const auto d = static_cast<std::size_t>(evidence.known->padded);
    return std::to_string(evidence.known->shapes.front()[d]);
  }

  std::string reason(const Evidence& evidence, const Reading& reading, bool needs_network) const {
    if (evidence.known->role == ParameterRole::kCounter) return "whole: a counter has one element";
    if (reading.is_whole()) {
      return "whole: its slices have the full shape " + to_string(reading.full_shape) +
             " that the model's configuration gives";
    }
    const std::string what = reading_with_slices(reading, *evidence.parameter);
    if (!needs_network) {
      return what + ": no other layout of the full shape that the model's configuration gives";
    }
    return what + ": " + network_->code + " code cuts it " + way_words(*evidence.known) +
           ", and no other layout of that kind has the full shape that the model's configuration "
           "gives";
  }

  /// Of a state: its weight's layout, if that is proven and the state's slices are as large. The
  /// optimizer makes a state like its weight. Where they are smaller it has cut the state once
  /// more.
  /// @return whether this decides it.
  bool follow_weight(const Evidence& evidence, GuessedParameter& out) const {
    if (!evidence.is_state()) return false;
    const auto found = by_name_.find(weight_name_of(evidence.parameter->name));
    if (found == by_name_.end()) return false;
    const GuessedParameter& weight = guess_.parameters[found->second];
    if (weight.certainty != Certainty::kProven || weight.stages != out.stages) return false;
    const DeviceSlices& slices = evidence.parameter->slices;
    if (slices.shapes != cases_[found->second].parameter->slices.shapes) return false;
    const Reading& reading = weight.readings.front();
    if (!explains(reading, slices.contents)) return false;
    settle(out, reading,
           reading_with_slices(reading, *evidence.parameter) +
               ": the optimizer lays out a state like its weight");
    return true;
  }

  /// For parameters whose full shape is unknown.
  void decide_without_shape(const Evidence& evidence, GuessedParameter& out) {
    const SlicedParameter& parameter = *evidence.parameter;
    const Readings& readings = readings_like(parameter.slices);
    if (readings.left.empty()) {
      out.why = slice_and_content_words(parameter) +
                ": no layout explains which ranks hold the same. Does each rank have values of its "
                "own, or have copies drifted apart?";
      return;
    }
    if (parameter.slices.differ()) out.other = "values of each rank's own";
    ask(parameter, readings, settling(evidence), out);
  }

  std::string settling(const Evidence& evidence) const {
    if (evidence.known == nullptr) {
      return " Its full shape would settle it, or narrow it down, but its name is of no family "
             "that reshardfs knows";
    }
    if (evidence.known->role == ParameterRole::kCounter) return " It should have one element";
    const std::string shape = "Its full shape [" + evidence.known->formula + "]";
    if (!has_config_) {
      return " " + shape +
             " settles it, or narrows it down: give the model's config.json with --model-config";
    }
    return " " + shape + " would settle it, or narrow it down, but the model's configuration " +
           (evidence.known->shapes.empty() ? "lacks one of these" : "does not fit");
  }

  const SlicedSet& set_;
  KnownParameters known_;
  bool has_config_;
  std::vector<Evidence> cases_{};
  std::map<std::string, std::size_t> by_name_{};
  std::map<std::tuple<std::vector<Shape>, std::vector<std::uint32_t>, Shape>, Readings> readings_{};
  std::map<std::pair<std::vector<Shape>, std::vector<std::uint32_t>>, Readings> any_shape_{};
  std::optional<NetworkReadings> network_{};
  Guess guess_{};
};

}  // namespace

std::size_t Guess::count(Certainty certainty) const {
  return static_cast<std::size_t>(
      std::count_if(parameters.begin(), parameters.end(),
                    [&](const auto& parameter) { return parameter.certainty == certainty; }));
}

Guess guess_strategy(const SlicedSet& set, const std::optional<modelmap::ModelConfig>& config,
                     const std::vector<modelmap::ModelMap>& maps) {
  return Guesser(set, config, maps).run();
}

}  // namespace reshardfs
