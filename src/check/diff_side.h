// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reshardfs/source_request.h"

#include "conversion/source_opening.h"
#include "plan/source/source_table.h"

namespace reshardfs {

/// One side of a comparison. Every member function may be called from any number of threads.
class DiffSide {
 public:
  /// Which parameters are looked at, by the names that maps show.
  struct Wanted {
    NameTaker takes{};  ///< empty: all
    /// The maps need no rule for states of training: see NameFilter.
    bool weights_only = false;
  };

  /// Reads no data: what no rule takes has no layout, and replicas are believed to be the same.
  /// @param set the request's, open; nullptr: it is opened.
  /// @throws errors of SourceOpening and ModelMaps::apply().
  static DiffSide open(const SourceRequest& request, const Wanted& wanted,
                       std::shared_ptr<const CheckpointSet> set = nullptr);
  /// The same for a caller that has opened it, and logs SourceOpening::unmatched_warnings() itself.
  static DiffSide open(const SourceRequest& request, const Wanted& wanted, SourceOpening& opening);
  /// Checks both, as a mount does, of the parameters that are wanted.
  /// @throws Error kBadInput besides, where what is read would be a guess.
  static DiffSide open_checked(const SourceRequest& request, const Wanted& wanted);
  explicit DiffSide(std::shared_ptr<const SourceTable> table, const SourceRequest& request = {})
      : table_(std::move(table)),
        replicas_(request.replicas),
        state_prefixes_(reshardfs::state_prefixes(request, table_->checkpoint())) {}

  /// What the user should know, one line each.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  /// Choices made, one line each.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

  const SourceTable& table() const noexcept { return *table_; }
  /// Of the request and of the set: see weight_of().
  const std::vector<std::string>& state_prefixes() const noexcept { return state_prefixes_; }

  /// The parameter by its layout, else like its weight; nullptr: it has neither. Reads no data, and
  /// parts of it may be missing.
  CellGridPtr laid_out(const SourceParameter& parameter) const;

  /// The whole parameter: by its layout, else like its weight, else from any rank if all ranks have
  /// the same bytes (which are read to find out) or the lowest rank's are to be taken. nullptr:
  /// every rank has its own.
  /// @throws Error kMissing if no file holds a part of it.
  CellGridPtr whole(const SourceParameter& parameter) const;

 private:
  CellGridPtr find_grid(const SourceParameter& parameter) const;
  void require_complete(const SourceParameter& parameter, const CellGrid& grid) const;

  void check_replicas(const NameTaker& takes);

  std::shared_ptr<const SourceTable> table_;
  Replicas replicas_;
  std::vector<std::string> state_prefixes_;
  std::vector<std::string> warnings_;
  std::vector<std::string> notes_;
};

}  // namespace reshardfs
