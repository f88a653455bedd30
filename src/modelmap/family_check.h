// SPDX-License-Identifier: Apache-2.0
/// Whether all tensors are there that a model of the map's family has: every layer, and in every
/// layer what the rules name. Private to check_mapping().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "modelmap/family_counts.h"
#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {

class FamilyCheck {
 public:
  explicit FamilyCheck(MappingWork& work) : work_(work), rules_(work.rules_.size()) {}

  void run();

 private:
  /// The values of the captures that both sides share.
  using Site = std::vector<CaptureValue>;
  using UseSite = std::function<void(std::size_t rule, const Site& site)>;

  struct Rule {
    std::vector<std::size_t> shared{};  ///< captures
    std::set<Site> sites{};             ///< of weights that are there
  };

  static constexpr std::int64_t kNoLayer = -1;  ///< of rules whose names have no number

  /// A part of one layer.
  struct PartKey {
    std::size_t block = 0;
    std::int64_t layer = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
    auto operator<=>(const PartKey&) const = default;
  };

  const MapRule& rule(std::size_t number) const { return work_.map_.rules[number]; }

  // mapping_family.cpp
  bool is_checked(std::size_t number) const;
  /// The shared capture that tells layers of different parts apart, in the rule's list of shared
  /// ones: the first number, or of two in one number the second, as groups of layers are equal.
  std::optional<std::size_t> layer_slot(std::size_t number) const;
  PartKey part_key(std::size_t number, const Site& site) const;
  void find_sites();

  // mapping_family.cpp: how many there are
  CountKey key_of(std::size_t number, const std::string& capture) const;
  /// The names of all weights, also of those beyond a range.
  void note_numbers();
  void note_match(const std::string& name, const PatternIndex::Match& match);
  bool condition_holds(std::size_t number, const PatternIndex::Match& match,
                       const std::vector<std::size_t>& captures) const;
  void check_count(const CountKey& key, const Count& count);
  /// Whether a tensor of one of these numbers is asked for.
  bool needs_any(const CountKey& key, const std::vector<std::int64_t>& gaps);

  // family_sites.cpp: what each rule needs
  Application application_of(std::size_t number, const Site& site) const;
  /// What the missing tensors would have made; nothing if their names cannot be told.
  std::vector<std::string> made_of(std::size_t number, const Site& site) const;
  std::vector<std::string> spread_names(Application application, std::size_t capture) const;
  /// The first tensor that is missing, or the pattern where its name cannot be told.
  std::string missing_name(std::size_t number, const Site& site) const;
  bool is_wanted(std::size_t number, const Site& site);
  /// All sites that a rule has if nothing is missing; nothing if they are too many to look at.
  std::vector<Site> expected_sites(std::size_t number) const;
  std::vector<CaptureValue> numbers_of(std::size_t number, const std::string& capture) const;
  /// Sites with numbers of 0 for the words that tensors have; of a part, and with a list of
  /// optional words, also for all others.
  std::set<Site> word_sites(std::size_t number) const;
  void add_required_words(std::size_t number, std::set<Site>& words) const;
  bool is_optional(std::size_t number, const std::string& word) const;
  bool takes_any_text(std::size_t number) const;
  /// Whether its tensor is there. Of a rule that takes any text: one of them with these numbers.
  bool has_site(std::size_t number, const Site& site) const;
  /// Whether the map states what there is of everything that the rule numbers.
  bool is_declared(std::size_t number) const;

  // mapping_family.cpp
  void check_rule(std::size_t number);
  bool needs(std::size_t number, const Site& site);
  void tell(std::size_t number, const std::vector<Site>& sites);
  /// A rule that takes no weight, though others of the map do.
  void check_absent(std::size_t number);
  /// Whether any tensor that the rule would make is asked for; so are those that nobody can name.
  bool is_asked_for(std::size_t number);

  // family_choices.cpp
  /// Each layer has one of the parts of a choice.
  void check_choices();
  std::set<std::size_t> blocks_of(const std::vector<std::string>& parts) const;
  void check_choice(const std::string& name, const std::vector<std::string>& parts,
                    std::size_t block, const std::map<PartKey, std::vector<std::string>>& found);
  /// The rules of a part in a block, with the sites of one layer.
  void each_of_part(const std::vector<std::string>& parts, std::size_t block, std::int64_t layer,
                    const UseSite& use) const;
  bool choice_is_wanted(const std::vector<std::string>& parts, std::size_t block,
                        std::int64_t layer);
  /// "a is" or "a and b are": one tensor of each part.
  std::string examples(const std::vector<std::string>& parts, std::size_t block,
                       std::int64_t layer) const;

  static constexpr std::size_t kMostSites = std::size_t{1} << 20U;

  MappingWork& work_;
  std::vector<Rule> rules_;
  bool has_weights_ = false;
  std::set<std::size_t> blocks_{};  ///< of which weights are there
  std::map<PartKey, std::set<std::string>> parts_{};
  std::map<CountKey, Count> counts_{};
  std::map<CountKey, std::set<std::int64_t>> missing_{};
};

}  // namespace reshardfs::modelmap
