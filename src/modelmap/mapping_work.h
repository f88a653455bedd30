// SPDX-License-Identifier: Apache-2.0
/// What the steps of check_mapping() share. Private to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text/name_table.h"
#include "modelmap/form_inverse.h"
#include "modelmap/mapping.h"
#include "modelmap/pattern_index.h"
#include "modelmap/rule_form.h"

namespace reshardfs::modelmap {

/// The kinds of problems, in the order in which they are told: what causes others comes first.
enum class ProblemKind : std::uint8_t {
  kVariable,
  kSetting,  ///< of the training, which nothing tells
  kTwoRules,
  kFamily,  ///< another number of layers than is stated
  kNoRule,
  kMissing,
  kRuleUnused,
  kShape,
  kType,
  kElements,
  kAlias,  ///< of a tensor that is not made
};

class ProblemList {
 public:
  void add(ProblemKind kind, const MapPlace& place, const std::string& message);
  /// Without a rule.
  void add(ProblemKind kind, const std::string& file, const std::string& message);
  bool has_too_many() const noexcept { return count_ >= 2 * kMost; }
  std::vector<MapProblem> take();

 private:
  static constexpr std::size_t kMost = 1000;
  std::map<ProblemKind, std::vector<MapProblem>> problems_{};
  std::set<std::pair<std::string, std::int64_t>> known_{};
  std::size_t count_ = 0;
};

/// The tensors with one prefix of optimizer states; those without one are weights.
struct TensorSet {
  std::string source_prefix{};
  std::string target_prefix{};
  bool is_weights() const noexcept { return source_prefix.empty(); }
};

/// A rule for one set of captures, of one set of tensors.
struct Application {
  std::size_t set = 0;
  std::size_t rule = 0;
  /// By capture of the rule; of those that collect, and forward those that spread, 0.
  std::vector<CaptureValue> values{};
  /// Inverse: the tensor of `to`. Forward: the source of a rule that reads one; else 0.
  std::uint32_t tensor = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const Application&) const = default;
};

/// What a rule makes of certain shapes.
struct RuleForm {
  IndexedForm form;
  std::vector<Shape> source_shapes{};
  std::vector<bool> is_read{};  ///< by source
};
using RuleFormPtr = std::shared_ptr<const RuleForm>;

/// The range of a capture.
struct KnownRange {
  /// Whether it is the same for all tensors; nothing: not looked at.
  std::optional<bool> is_fixed{};
  std::optional<std::int64_t> value{};  ///< of a fixed one, once it was needed
};

/// A rule and what depends on the variables alone.
struct RuleWork {
  bool is_active = true;   ///< its conditions without captures hold
  bool is_broken = false;  ///< there is a problem already
  bool is_used = false;
  bool has_capture_condition = false;
  /// Whether it holds is unknown: for the lack of this variable.
  std::optional<UnknownVariable> undecided{};
  std::vector<bool> tells_all{};  ///< by pattern of `from`: whether it has all shared captures
  std::vector<Numberings> from_numberings{};
  Numberings to_numberings{};
  std::vector<std::size_t> form_captures{};  ///< those that the form depends on
  std::vector<std::string> form_parts{};     ///< `tp`, `from_tp` if it depends on them
  std::map<std::vector<std::int64_t>, RuleFormPtr> forms{};
  RuleSourcesPtr sources{};          ///< nullptr: not the same for all tensors, or not looked at
  std::vector<KnownRange> ranges{};  ///< by capture, as they were needed
};

/// A target and the order in which it stands.
struct OrderedTarget {
  TargetTensor tensor{};
  std::uint32_t first_source = 0;
  std::size_t rule = 0;
  std::vector<CaptureValue> values{};
  std::size_t pattern = 0;
};

/// What is known before the tensors are.
Variables variables_of(const ModelMap& map, const MapOptions& options);

/// The pattern of layers, if the map uses one.
/// @throws Error kBadInput, without the file, if it is none, or contradicts the source's names.
Known<LayerPattern> pattern_of(const ModelMap& map, const MapOptions& options,
                               const std::vector<SourceTensor>& tensors, Direction direction);
/// With the pattern that the names tell; without it if anything is wrong with it.
Variables variables_for_names(const ModelMap& map, const MapOptions& options,
                              const std::vector<SourceTensor>& tensors, Direction direction);

/// The prefixes of optimizer states on the source's side, and those on the target's.
std::map<std::string, std::string> state_prefixes(const ModelMap& map, Direction direction);
/// The longest of the prefixes that a name has before its end; empty without one.
std::string_view state_prefix_of(const std::map<std::string, std::string>& prefixes,
                                 const std::string& name);

class MappingWork {
 public:
  MappingWork(const ModelMap& map, const std::vector<SourceTensor>& tensors,
              const MapOptions& options, Direction direction);

  Mapping run();

 private:
  /// Forward: which target reads which source.
  struct Read {
    std::uint32_t tensor = 0;
    std::uint32_t number = 0;  ///< of the source in the form
    std::size_t target = 0;
  };
  struct MadeTarget {
    RuleFormPtr form{};
    std::size_t rule = 0;
  };

  /// Inverse: what a tensor of `from` is made of.
  struct Piece {
    RuleFormPtr form{};
    std::uint32_t number = 0;
    std::uint32_t tensor = 0;
    std::size_t rule = 0;
    DType dtype = DType::kFloat32;
    float added = 0;
  };
  struct FromTensor {
    Shape shape{};
    std::vector<Piece> pieces{};
    OrderedTarget order{};
    bool is_broken = false;
  };

  struct Coverage {
    std::int64_t undefined = 0;
    std::optional<std::pair<std::size_t, std::size_t>> overlap{};
    std::shared_ptr<const NormalForm> form{};  ///< inverse
  };
  using CoverageKey = std::vector<std::uintptr_t>;

  // mapping_proofs.cpp
  void prove_variables();

  // mapping.cpp
  void check_options() const;
  void prepare_rule(std::size_t number);
  void prepare_conditions(std::size_t number);
  void index_patterns();
  void check_rules_used();
  void check_unused();
  Mapping finish();

  // mapping_match.cpp
  void find_applications();
  void match_tensor(std::uint32_t number);
  void keep(std::uint32_t number, const std::string& bare, std::size_t set);
  bool take_matches(std::uint32_t number, std::string_view name, std::size_t set);
  bool add_applications(std::uint32_t number, const PatternIndex::Match& match, std::size_t set);
  bool add_spread(Application application, std::size_t capture);
  bool add_application(Application application);
  std::size_t set_of_prefix(std::string_view prefix);
  bool is_dropped(const std::string& name, const std::string& bare) const;
  bool is_to_be_identity(const std::string& name) const;
  void add_undecided(std::uint32_t number, std::size_t rule);
  void report_undecided();

  // mapping_rules.cpp
  void bind_captures(Scope& scope, const Application& application) const;
  bool holds(const Application& application) const;
  bool in_range(const Application& application, const std::vector<std::size_t>& captures);
  bool has_fixed_range(const MapRule& rule, const RuleCapture& capture) const;
  Known<std::int64_t> to_parts_of(const Application& application) const;
  Known<std::int64_t> from_parts_of(const Application& application,
                                    const RuleSources* sources) const;
  Known<std::int64_t> parts_of(const PartsOf& parts, const std::string& prefix,
                               const std::string& name) const;
  void explain(const std::string& target, const Application& application, const Scope& scope);
  RuleSourcesPtr sources_of(const Application& application, const Scope& scope);
  std::string from_name(const Application& application, const RuleSources& sources,
                        std::size_t source) const;
  std::optional<std::string> to_name(const Application& application) const;
  std::vector<std::int64_t> form_key(const Application& application, const Scope& scope) const;
  std::optional<std::uint32_t> tensor_named(const std::string& name) const;
  std::optional<DType> target_dtype(const Application& application, const std::string& target,
                                    DType source);
  /// What the target gets added; of states of the optimizer, those that are weights alone.
  float added_to(const Application& application, const std::string& target, DType dtype);
  void fail(ProblemKind kind, const Application& application, const std::string& message);
  /// What making a target has thrown.
  void fail(const Application& application, const Error& error);
  bool wants(const std::string& target) const { return !options_.wants || options_.wants(target); }
  /// Takes note of tensors that are not asked for, and for which others are missing.
  void excuse(const std::vector<std::string>& targets) {
    out_.excused.insert(out_.excused.end(), targets.begin(), targets.end());
  }
  void check_required(const Application& application, const Scope& scope,
                      const std::string& tensor) const;

  // mapping_forward.cpp
  void make_forward(const Application& application);
  void make_forward_target(const Application& application);
  std::optional<std::vector<std::uint32_t>> forward_sources(const Application& application,
                                                            const RuleSources& sources,
                                                            const std::string& target);
  /// What the form of a target depends on.
  std::vector<std::int64_t> forward_key(const Application& application, const Scope& scope,
                                        const std::vector<std::uint32_t>& sources) const;
  RuleFormPtr forward_form(const Application& application, RuleEvaluator& evaluator,
                           const Scope& scope, const std::string& target,
                           const std::vector<Shape>& shapes) const;
  void check_literals(const Application& application, const RuleForm& form,
                      const TargetTensor& tensor);
  void check_sources_read();
  void check_source_read(std::uint32_t tensor, std::span<const Read> reads);

  // mapping_inverse.cpp
  void make_inverse(const Application& application);
  void make_inverse_pieces(const Application& application, std::vector<std::string>& names);
  RuleFormPtr inverse_form(const Application& application, RuleEvaluator& evaluator, Scope& scope);
  void add_piece(const Application& application, const RuleSources& sources,
                 const RuleFormPtr& form, std::size_t source, const std::string& name);
  Coverage coverage_of(const FromTensor& tensor);
  void join_pieces();
  void join_pieces_of(const std::string& name, FromTensor& tensor);
  void fail_overlap(const std::string& name, const FromTensor& tensor,
                    const std::pair<std::size_t, std::size_t>& overlap);

  // mapping_alias.cpp
  void hide_source_aliases();
  void add_target_aliases();
  using UseAlias =
      std::function<void(const MapAlias&, const std::string& name, const std::string& of)>;
  void each_alias(bool of_source, const UseAlias& use);
  void each_alias_value(const MapAlias& alias, const UseAlias& use);
  void add_source_alias(const MapAlias& alias, const std::string& name, const std::string& of);

  void check_names();

  // mapping_family.cpp
  friend class FamilyCheck;
  void check_family();

  const ModelMap& map_;
  const std::vector<SourceTensor>& tensors_;
  const MapOptions& options_;
  Direction direction_;
  Variables variables_;
  ProblemList problems_;
  std::vector<RuleWork> rules_;
  PatternIndex index_;
  PatternIndex other_side_;  ///< of names that [rest] does not keep, since rules make them
  struct NameOfTensor {
    const std::vector<SourceTensor>* tensors;
    std::string_view operator()(std::uint32_t number) const { return (*tensors)[number].name; }
  };
  NameTable<NameOfTensor> names_;
  std::vector<TensorSet> sets_;
  std::map<std::string, std::string> prefixes_;  ///< of states: of the source, of the target
  std::vector<Application> applications_;

  /// Tensors of a rule whose condition has an unknown variable; by the variable.
  struct Undecided {
    std::size_t rule = 0;   ///< the first
    std::string message{};  ///< why, and what to give
    std::set<std::uint32_t> tensors{};
  };
  std::map<std::string, Undecided> undecided_;

  enum class Fate : std::uint8_t { kUnknown, kTaken, kDropped, kHidden, kSkipped };
  std::vector<Fate> fates_;  ///< by source tensor; skipped: there is a problem already

  std::vector<Read> reads_;
  std::vector<MadeTarget> made_;  ///< by number in targets_

  std::map<CoverageKey, Coverage> coverages_;
  std::map<std::string, FromTensor> from_tensors_;

  std::vector<OrderedTarget> targets_;
  Mapping out_;
};

}  // namespace reshardfs::modelmap
