// SPDX-License-Identifier: Apache-2.0
/// The property test of `strategy guess`: random sets of slices whose layouts are known. What the
/// guess calls proven must give every rank the box of the full tensor that it holds, and where it
/// lists readings of which one is right, that one must be among them. Boxes are compared, not
/// bytes: of a tensor of ones a wrong layout would give the right bytes.
///
///   property_guess [--sets N] [--seed N]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "guess/guess_rules.h"
#include "modelmap/variables.h"
#include "random_sets.h"
#include "strategy/rules/rules_apply.h"
#include "support/our_maps.h"

namespace guess_property {
namespace {

using reshardfs::Certainty;
using reshardfs::Guess;
using reshardfs::GuessedParameter;

struct Counts {
  std::uint64_t parameters = 0;
  std::uint64_t proven = 0;
  std::uint64_t one_of = 0;
  std::uint64_t open = 0;

  void add(Certainty certainty) {
    ++parameters;
    if (certainty == Certainty::kProven) ++proven;
    if (certainty == Certainty::kOneOf) ++one_of;
    if (certainty == Certainty::kOpen) ++open;
  }
};

const char* words_of(Origin origin) {
  switch (origin) {
    case Origin::kNetwork:
      return "made by a network's code";
    case Origin::kSpoiled:
      return "spoiled";
    case Origin::kAnyCuts:
      return "any cuts of known names";
    case Origin::kUnknown:
      return "any cuts of unknown names";
    case Origin::kNoConfig:
      break;
  }
  return "a network without config.json";
}

class Judge {
 public:
  void judge(std::uint64_t seed) {
    const TrueSet set = random_set(seed);
    std::optional<reshardfs::modelmap::ModelConfig> config;
    if (set.config) config = reshardfs::modelmap::ModelConfig::parse(*set.config);
    const reshardfs::SlicedSet slices = sliced(set, seed);
    Guess guess = reshardfs::guess_strategy(slices, config, maps_);
    for (std::size_t i = 0; i < set.parameters.size(); ++i) {
      const Truth& truth = set.parameters[i];
      const GuessedParameter& found = guess.parameters[i];
      counts_[set.origin].add(found.certainty);
      judge_readings(seed, set, truth, found);
    }
    // Writing rules takes longer than guessing.
    if (seed % 8 == 0) judge_rules(seed, set, guess);
  }

  int report(std::uint64_t sets) const {
    Counts all;
    for (const auto& [origin, counts] : counts_) {
      print(words_of(origin), counts);
      all.parameters += counts.parameters;
      all.proven += counts.proven;
      all.one_of += counts.one_of;
      all.open += counts.open;
    }
    std::printf("%llu sets, %llu of them written as rules\n", static_cast<unsigned long long>(sets),
                static_cast<unsigned long long>(rules_));
    print("all", all);
    std::printf("wrong: %zu\n", wrong_);
    return wrong_ == 0 && all.proven > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }

 private:
  static void print(const char* what, const Counts& counts) {
    const double whole = static_cast<double>(std::max<std::uint64_t>(1, counts.parameters)) / 100;
    std::printf("%s: %llu parameters, %.1f%% proven, %.1f%% one of several, %.1f%% open\n", what,
                static_cast<unsigned long long>(counts.parameters),
                static_cast<double>(counts.proven) / whole,
                static_cast<double>(counts.one_of) / whole,
                static_cast<double>(counts.open) / whole);
  }

  void complain(std::uint64_t seed, const TrueSet& set, const Truth& truth,
                const std::string& what) {
    if (++wrong_ > 20) return;
    std::printf("WRONG: seed %llu (%s, %s, %lld devices): %s %s, truly %s: %s\n",
                static_cast<unsigned long long>(seed), words_of(set.origin), set.what.c_str(),
                static_cast<long long>(set.devices), truth.name.c_str(),
                reshardfs::to_string(truth.full).c_str(),
                reshardfs::to_string(truth.layout).c_str(), what.c_str());
  }

  void judge_readings(std::uint64_t seed, const TrueSet& set, const Truth& truth,
                      const GuessedParameter& found) {
    const std::vector<Box> held = boxes_of(truth.layout, truth.full);
    const auto is_right = [&](const reshardfs::Reading& reading) {
      return reading.full_shape == truth.full && boxes_of(reading.layout, truth.full) == held;
    };
    const bool any = std::any_of(found.readings.begin(), found.readings.end(), is_right);
    if (found.certainty == Certainty::kProven && (!any || truth.has_no_layout)) {
      complain(
          seed, set, truth,
          "proven " + reshardfs::to_string(found.readings.front().layout) + " (" + found.why + ")");
    }
    // Of unknown shapes only those are listed that rules can state.
    const std::int64_t optimizer = truth.layout.optimizer_shard_size;
    const bool is_shared_equally = optimizer <= 0 || holders_of(truth.layout) % optimizer == 0;
    const bool lists_all = is_shared_equally && found.certainty == Certainty::kOneOf &&
                           found.other.empty() && !truth.has_no_layout && !set.config_is_wrong;
    if (lists_all && !any) complain(seed, set, truth, "not listed (" + found.why + ")");
  }

  void judge_rules(std::uint64_t seed, const TrueSet& set, Guess& guess) {
    ++rules_;
    fit_into_one_matrix(guess);
    const reshardfs::RulesDocument rules =
        reshardfs::read_rules("rules.toml", guess_rules(guess, {}));
    for (const Truth& truth : set.parameters) {
      const reshardfs::NamedShape named{truth.name, truth.full};
      if (!undecided_by(rules, {named}).empty()) continue;
      const reshardfs::Strategy strategy = apply_rules(rules, {named});
      const reshardfs::Layout& layout = strategy.stage(truth.stages.front()).at(truth.name);
      const bool is_right = strategy.stages_of(truth.name) == truth.stages &&
                            boxes_of(layout, truth.full) == boxes_of(truth.layout, truth.full);
      if (!is_right) complain(seed, set, truth, "by rules " + reshardfs::to_string(layout));
    }
  }

  const std::vector<reshardfs::modelmap::ModelMap> maps_ =
      reshardfs::testing::maps_in(RESHARDFS_MAPS);
  std::map<Origin, Counts> counts_{};
  std::uint64_t rules_ = 0;
  std::size_t wrong_ = 0;
};

int run(int argc, char** argv) {
  std::uint64_t sets = 1500;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--sets") sets = std::stoull(argv[i + 1]);
    if (option == "--seed") seed = std::stoull(argv[i + 1]);
  }
  Judge judge;
  for (std::uint64_t i = 0; i < sets; ++i) {
    try {
      judge.judge(seed + i);
    } catch (const std::exception& error) {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed + i), error.what());
      return EXIT_FAILURE;
    }
  }
  return judge.report(sets);
}

}  // namespace
}  // namespace guess_property

int main(int argc, char** argv) {
  return guess_property::run(argc, argv);
}
