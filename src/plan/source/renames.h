// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/source/source_table.h"

namespace reshardfs {

class RenameRule;

/// The names that the tensors of a source get before maps and filters see them. First the words go
/// that wrappers of PyTorch put into names (base/text/wrapper_names.h), then --rename gives new
/// names, and --drop leaves tensors out.
class Renames {
 public:
  Renames() = default;
  /// @param renames "OLD=NEW" each, in the patterns of model maps. A "*" at the beginning or end of
  ///        both stands for any text. Each rule reads what the one before it has made.
  /// @param drops patterns, also with "*".
  ///        What a rule does to a weight, it does to the weight's states, too.
  /// @param state_prefixes see weight_of().
  /// @throws Error kUsage with the option and its text if a pattern is wrong, or NEW has a capture
  ///         that OLD lacks.
  Renames(const std::vector<std::string>& renames, const std::vector<std::string>& drops,
          std::vector<std::string> state_prefixes = {});

  /// Whether options ask for any.
  bool are_given() const noexcept { return !rules_.empty() || !drops_.empty(); }

  /// Decides for all names of a set whether words of wrappers go: where two names would become one,
  /// all stay as they are stored. See wrapper_clash().
  void settle_wrappers(const CheckpointSet& set);

  /// Whether --drop leaves out what has this new name.
  bool drops(const std::string& name) const { return is_dropped(name, nullptr); }

  /// nullopt: it is left out.
  std::optional<std::string> operator()(const std::string& stored) const;
  /// The new names, without those that are left out.
  std::vector<std::string> of(const std::vector<std::string>& stored) const;
  /// Selects stored names by their new ones. Empty for an empty one without drops.
  NameTaker taking(const NameTaker& takes) const;
  /// @throws Error kUsage if two of the stored names become one that `takes` selects.
  void require_distinct(const std::vector<std::string>& stored, const NameTaker& takes) const;
  /// "--rename 'OLD=NEW'" and "--drop 'OLD'" of rules that take none of these names.
  std::vector<std::string> idle(const std::vector<std::string>& stored) const;

  /// The table with the new names; the table itself if there are none.
  /// @throws Error kUsage if two tensors would get one name.
  std::shared_ptr<const SourceTable> apply(const std::shared_ptr<const SourceTable>& table) const;

 private:
  bool changes_any() const noexcept { return unwraps_ || are_given(); }

  std::string renamed(std::string name, std::vector<bool>* used) const;
  bool is_dropped(const std::string& name, std::vector<bool>* used) const;

  std::vector<std::string> state_prefixes_{};
  std::vector<std::shared_ptr<const RenameRule>> rules_{};
  std::vector<std::shared_ptr<const RenameRule>> drops_{};
  bool unwraps_ = false;
};

/// A warning that names two tensors whose names differ in words of wrappers alone; empty: there are
/// none.
std::string wrapper_clash(const CheckpointSet& set);

}  // namespace reshardfs
