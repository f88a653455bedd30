// SPDX-License-Identifier: Apache-2.0
/// Strategies written by hand: a few rules over parameter names instead of a layout for each
/// parameter. reshardfs-strategy(5) describes the file format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/export.h"
#include "reshardfs/shape.h"
#include "reshardfs/sizes.h"
#include "reshardfs/strategy.h"

namespace reshardfs {

/// A parameter that rules are applied to.
struct NamedShape {
  std::string name{};
  /// The full tensor's shape, or a slice's: rules need only the number of dimensions.
  Shape shape{};
};

/// Which rule matches a parameter.
struct RuleMatch {
  std::string parameter{};  ///< empty from unused()
  std::size_t rule = 0;     ///< number in the file, from 0
  std::int64_t line = 0;    ///< of the rule in the file
  std::string glob{};       ///< the rule's first matching glob; from unused(): all of its globs
};

/// Maps a parameter that no rule matches to the name of a parameter whose rule applies to it, too;
/// to an empty name if every device has it whole.
using LaidOutLike = std::map<std::string, std::string>;

class RESHARDFS_EXPORT StrategyRules {
 public:
  /// Whether a strategy file contains rules: its name ends in .toml.
  static bool is_rules_file(const std::filesystem::path& path);

  /// @param linkless_root as for Strategy::load().
  /// @throws Error kBadInput with file and line, kMissing, kIo.
  static StrategyRules load(const std::filesystem::path& path,
                            const std::filesystem::path& linkless_root = {});
  /// Rules that have been read.
  /// @param file they came from, for messages.
  /// @throws Error kBadInput with file and line.
  static StrategyRules parse(const std::string& file, const std::string& text);

  StrategyRules(StrategyRules&&) noexcept;
  StrategyRules& operator=(StrategyRules&&) noexcept;
  ~StrategyRules();

  /// A target strategy for these parameters. Parameters that no rule matches are replicated on all
  /// devices of every stage (of their layer's stage, if the file places layers), or refused, as the
  /// file says. A scalar is on all devices, even if its rule says otherwise.
  /// @throws Error kBadInput with file, line and parameter if a rule does not fit a shape.
  Strategy apply(const std::vector<NamedShape>& parameters) const;

  /// The strategy that these parameters were saved under. Unlike apply(), it leaves out the
  /// unknown() parameters that `like` does not contain.
  Strategy apply_to_source(const std::vector<NamedShape>& parameters,
                           const LaidOutLike& like = {}) const;
  /// The parameters that no rule matches, if the file does not say what to do with them. In a
  /// target they can get the simplest layout; in a source their layout is unknown.
  std::vector<NamedShape> unknown(const std::vector<NamedShape>& parameters) const;
  /// Globs for a rule to be added at the end of the file, which matches `names` and no other
  /// `parameters`.
  std::vector<std::string> globs_for(const std::vector<NamedShape>& parameters,
                                     const std::set<std::string>& names) const;

  /// The file that was loaded.
  const std::string& file() const noexcept;
  /// The last axis with more than one device, for examples in messages.
  const std::string& cutting_axis() const noexcept;
  /// The number of ranks of all stages. It does not depend on parameters.
  std::int64_t rank_count() const noexcept;

  /// The rule of each parameter that has one, in the order of `parameters`.
  std::vector<RuleMatch> matches(const std::vector<NamedShape>& parameters) const;
  /// The rules and [[layers]] without `optional` that match none of `parameters`, one line each:
  /// "line 7: the rule '*.wq' matches no parameter".
  std::vector<std::string> unmatched(const std::vector<NamedShape>& parameters) const;
  /// Throws what unmatched() finds. A rule counts as unmatched, too, if rules before it match all
  /// of its parameters.
  /// @throws Error kBadInput with file and line.
  void require_matched(const std::vector<NamedShape>& parameters) const;
  /// The number of pipeline stages.
  std::int64_t stage_count() const noexcept;
  /// The rules that match none of `parameters`: line and globs.
  std::vector<RuleMatch> unused(const std::vector<NamedShape>& parameters) const;

 private:
  struct State;
  explicit StrategyRules(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The strategy as the text of a rules file: applied to parameters of these names and numbers of
/// dimensions, the rules give every device the same slices. Globs stand for several names if they
/// match no others. Rules cannot state indices_offset and optimizer_shard_step, which reading a
/// checkpoint does not need.
/// @throws Error kUnsupported if rules cannot state a layout; names the parameter and the layout.
RESHARDFS_EXPORT std::string to_rules(const Strategy& strategy);

/// Derives a target strategy from the source's: the same dimensions are cut, into other numbers of
/// parts.
/// @param sizes tp=8,dp=2,pp=1.
/// @param source the strategy the checkpoint was saved with.
/// @param stage_layers number of layers of each stage; empty: layers stay where they are if the
///        number of stages is the same, otherwise they are spread as evenly as possible.
/// @throws Error kUsage if a size or a number of layers is wrong; kBadInput if the result would
///         be ambiguous; it names the parameters that need a rule.
RESHARDFS_EXPORT Strategy derive_strategy(const DerivedSizes& sizes, const Strategy& source,
                                          const std::vector<std::int64_t>& stage_layers = {});

}  // namespace reshardfs
