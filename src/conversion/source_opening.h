// SPDX-License-Identifier: Apache-2.0
/// The one way from what the user says of a source to its parameters. All commands take it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "reshardfs/source_request.h"

#include "base/unmatched_options.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/set_faults.h"
#include "conversion/model_maps.h"
#include "conversion/strategy_input.h"
#include "plan/source/renames.h"
#include "plan/source/source_table.h"
#include "plan/source/strategy_catalogue.h"
#include "storage/inputs.h"

namespace reshardfs {

struct SourceTableOptions {
  /// Without a strategy: parameters of which each rank holds a slice along dimension 0.
  NameGlobs join{};
  /// Selects parameters; others are not compared, either.
  NameTaker takes{};
  /// See weight_of().
  std::vector<std::string> state_prefixes{};
};

struct SourceTableResult {
  std::shared_ptr<const SourceTable> table;
  std::vector<std::string> warnings;
  /// Rules that select nothing, if StrategyInput allows them; for warnings.
  std::vector<std::string> unmatched;
  std::vector<std::string> notes;
};

/// The parameters of a source under its strategy. For parameters that no rule matches, it reads
/// their bytes to find out how they are cut: see UnknownParameters.
/// @throws Error kBadInput with the rules file, the parameters and the rule to add if the bytes do
///         not decide; errors of StrategyInput and SourceTable.
SourceTableResult source_table(const std::shared_ptr<const CheckpointSet>& checkpoint,
                               StrategyInput& strategy, const SourceTableOptions& options);

/// How a request's set is opened.
/// @throws Error kMissing, kIo or kBadInput for the key file.
CheckpointOptions set_options(const SourceRequest& request);

/// The set of a request, without its strategy and its maps.
/// @param options of set_options(), and more.
/// @throws errors of CheckpointSet::open().
std::shared_ptr<const CheckpointSet> open_set(const SourceRequest& request,
                                              const CheckpointOptions& options);
/// @throws errors of set_options(), too.
inline std::shared_ptr<const CheckpointSet> open_set(const SourceRequest& request) {
  return open_set(request, set_options(request));
}

/// The source if symbolic links below it are refused; otherwise empty.
std::filesystem::path linkless_root(const SourceRequest& request);

/// What the names of optimizer states begin with: those that the set states, and those that the
/// user says. See weight_of().
std::vector<std::string> state_prefixes(const SourceRequest& request, const CheckpointSet& set);

/// The names that the tensors of a set have for maps and filters, without those of text.
/// @throws errors of Renames.
std::vector<std::string> shown_names(const SourceRequest& request, const CheckpointSet& set);

/// Step by step, in the order in which mistakes are best told.
class SourceOpening {
 public:
  /// Reads strategy and maps first: they are small, and a wrong one is the most likely mistake.
  /// @param request stays.
  /// @throws errors of StrategyInput and ModelMaps.
  explicit SourceOpening(const SourceRequest& request)
      : SourceOpening(request, read_strategy(request)) {}
  /// @param strategy of read_strategy().
  /// @param inputs gets the files that are read beside those with tensors; nullptr: nothing is
  ///        recorded.
  SourceOpening(const SourceRequest& request, StrategyInput strategy, InputsPtr inputs = nullptr);

  /// The strategy that is a file; that of sizes follows from the set.
  /// @param inputs as above.
  static StrategyInput read_strategy(const SourceRequest& request,
                                     const InputsPtr& inputs = nullptr);

  const ModelMaps& maps() const noexcept { return maps_; }
  /// Once the set is there, that of sizes, too.
  const StrategyInput& strategy() const noexcept { return strategy_; }

  /// How the set is opened.
  CheckpointOptions options_of_set() const;
  /// @param examines_all see CheckpointOptions
  /// @throws errors of CheckpointSet::open(), and of sized_source().
  const std::shared_ptr<const CheckpointSet>& open_set(bool examines_all = false);
  /// The same for the files that can be read.
  /// @param faults, threads and what is returned: see CheckpointSet::open_readable().
  std::shared_ptr<const CheckpointSet> open_readable(SetFaults& faults, std::size_t threads);
  /// With a set that is open.
  void take_set(std::shared_ptr<const CheckpointSet> set);
  const std::shared_ptr<const CheckpointSet>& set() const noexcept { return set_; }
  /// With which files of the source are opened; nullptr: by their paths.
  SourceTreePtr tree() const;

  /// Of the request and, once it is open, of the set.
  std::vector<std::string> state_prefixes() const;

  /// Whether options may select nothing: they are allowed to, or files of a pipeline stage are
  /// missing.
  bool allows_unmatched() const;
  /// Adds the options of the request that select none of the stored names in the set.
  void add_unmatched(const std::vector<std::string>& names, UnmatchedOptions& unmatched) const;

  /// The same as warnings. @throws Error kUsage, unless allows_unmatched().
  std::vector<std::string> unmatched_warnings() const;

  /// The names that the tensors of the set have for maps and filters.
  const Renames& renames() const noexcept { return renames_; }
  /// @throws Error kUsage if options give two tensors of the set one name that `takes` selects.
  void require_distinct_names(const NameTaker& takes) const;

  /// Which stored names need a layout if `takes` selects what is shown: through a map, other
  /// tensors may need what has the name that is not wanted.
  NameTaker needed(const NameTaker& takes) const {
    return renames_.taking(maps_.empty() ? takes : NameTaker());
  }

  /// The parameters of the set. Reads tensors' bytes where rules leave a parameter open. To be
  /// called once, as lay_out_unread().
  /// @param needed see needed().
  /// @throws errors of source_table().
  SourceTableResult lay_out(const NameTaker& needed);
  /// The same without reading data: what no rule takes has no layout.
  SourceTableResult lay_out_unread(const NameTaker& needed);

  /// What lay_out_unread() would give, without taking the strategy.
  /// @throws what that throws, but rules may select nothing.
  std::shared_ptr<const SourceTable> preview(const NameTaker& needed) const;

  /// For who looks at each file by itself: what lays parameters out, without a table of them. To be
  /// called once, in place of lay_out().
  /// @param allows_unmatched of rules.
  /// @param warnings gets their lines.
  StatedLayouts state_layouts(const NameTaker& needed, bool allows_unmatched,
                              std::vector<std::string>& warnings);

  /// Of maps.apply(): see there.
  /// @param weights_only the maps need no rule for states of training: see NameFilter.
  MappedSourceOptions mapped_options(bool weights_only = false) const;

 private:
  const SourceRequest& request_;
  StrategyInput strategy_;
  const InputsPtr inputs_;
  SourceTreePtr listed_;
  ModelMaps maps_;
  Renames renames_;
  std::shared_ptr<const CheckpointSet> set_;
};

}  // namespace reshardfs
