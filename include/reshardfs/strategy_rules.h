// SPDX-License-Identifier: Apache-2.0
/// Strategies that people write: a few rules over parameter names instead of a layout for each
/// parameter. The file format is described in reshardfs-strategy(5).
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
#include "reshardfs/strategy.h"

namespace reshardfs {

/// A parameter that rules are applied to.
struct NamedShape {
  std::string name{};
  /// The full tensor's shape, or a slice's: rules need the number of dimensions alone.
  Shape shape{};
};

/// Which rule took a parameter.
struct RuleMatch {
  std::string parameter{};  ///< empty from unused()
  std::size_t rule = 0;     ///< number in the file, from 0
  std::int64_t line = 0;    ///< of the rule in the file
  std::string glob{};       ///< the rule's first that matches; from unused() all of them
};

/// For parameters that no rule takes: the name of the one whose rule holds for them too; empty:
/// every device has them whole.
using LaidOutLike = std::map<std::string, std::string>;

class RESHARDFS_EXPORT StrategyRules {
 public:
  /// Whether a strategy file is one of rules: its name ends in .toml.
  static bool is_rules_file(const std::filesystem::path& path);

  /// @param linkless_root as for Strategy::load().
  /// @throws Error kBadInput with file and line, kMissing, kIo.
  static StrategyRules load(const std::filesystem::path& path,
                            const std::filesystem::path& linkless_root = {});

  StrategyRules(StrategyRules&&) noexcept;
  StrategyRules& operator=(StrategyRules&&) noexcept;
  ~StrategyRules();

  /// A strategy that these parameters are to get. Parameters that no rule takes are replicated on
  /// all devices of every stage (of their layer's stage, where the file places layers), or refused,
  /// as the file says. A scalar is on all devices whatever the rule says.
  /// @throws Error kBadInput with file, line and parameter if a rule does not fit a shape.
  Strategy apply(const std::vector<NamedShape>& parameters) const;

  /// The strategy that these parameters were saved under. Unlike apply() it leaves out those that
  /// are unknown(), but for the ones that `like` says more of.
  Strategy apply_to_source(const std::vector<NamedShape>& parameters,
                           const LaidOutLike& like = {}) const;
  /// The parameters that no rule takes, if the file does not say that such are whole or an error:
  /// where they are to get a layout they can be given the simplest, but how they were saved nobody
  /// knows.
  std::vector<NamedShape> unknown(const std::vector<NamedShape>& parameters) const;
  /// Globs for one more rule at the end of the file, that is to take `names` and no others of
  /// `parameters`.
  std::vector<std::string> globs_for(const std::vector<NamedShape>& parameters,
                                     const std::set<std::string>& names) const;

  /// The file that was loaded.
  const std::string& file() const noexcept;
  /// The last axis of more than one device: where a message needs an example of a cut.
  const std::string& cutting_axis() const noexcept;
  /// Ranks of all stages, whatever the parameters are.
  std::int64_t rank_count() const noexcept;

  /// The rule of each parameter that one took, in the order of `parameters`.
  std::vector<RuleMatch> matches(const std::vector<NamedShape>& parameters) const;
  /// What rules and [[layers]] without `optional` select nothing of `parameters`: a line each, as
  /// "line 7: the rule '*.wq' matches no parameter".
  std::vector<std::string> unmatched(const std::vector<NamedShape>& parameters) const;
  /// The same as an error. A rule that others before it take everything from counts as one that
  /// selects nothing.
  /// @throws Error kBadInput with file and line, if there is any.
  void require_matched(const std::vector<NamedShape>& parameters) const;
  /// Pipeline stages.
  std::int64_t stage_count() const noexcept;
  /// The rules that took none of `parameters`: line and glob.
  std::vector<RuleMatch> unused(const std::vector<NamedShape>& parameters) const;

 private:
  struct State;
  explicit StrategyRules(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Rules that say the same: read again, and applied to parameters of these names and numbers of
/// dimensions, they give every device the same slices. Names are gathered under globs where these
/// take no others. Rules know no indices_offset and no optimizer_shard_step, which reading a
/// checkpoint does not need.
/// @throws Error kUnsupported if rules cannot say it; names the parameter and its layout.
RESHARDFS_EXPORT std::string to_rules(const Strategy& strategy);

/// A target strategy from the source's: the cut dimensions stay, the axes' sizes change.
/// @param text "tp=8,dp=2,pp=1": see reshardfs-strategy(5).
/// @param source the strategy the checkpoint was saved with.
/// @param stage_layers how many layers each stage has; empty: as many as possible stay where they
///        are, or else all stages have as many as possible alike.
/// @throws Error kUsage if the text or a number of layers is wrong; kBadInput if the choice is
///         ambiguous, naming the parameters that need a rule.
RESHARDFS_EXPORT Strategy derive_strategy(const std::string& text, const Strategy& source,
                                          const std::vector<std::int64_t>& stage_layers = {});

/// Whether the text of --dst-strategy is sizes for derive_strategy() and not a path.
RESHARDFS_EXPORT bool is_derivation(const std::string& text);

}  // namespace reshardfs
