// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "base/unmatched_options.h"
#include "plan/source/source_table.h"

namespace reshardfs {

/// A checkpoint to compare, as the user names it.
struct DiffSource {
  std::filesystem::path path{};
  /// Nothing: every rank holds whole parameters.
  std::optional<std::filesystem::path> strategy{};
  /// See CheckpointOptions.
  std::string pattern{};
  std::string step = "latest";
  std::string prefix{};
  std::string prefix_option = "--src-prefix";
  std::string state_key{};
  std::string state_key_option = "--state-key";
  bool dequantize = false;
  /// Without a strategy: parameters of which each rank holds a slice along dimension 0.
  std::vector<std::string> join{};
  /// What the parameters are shown through.
  ModelMapOptions maps{};
  std::filesystem::path dec_key_file{};
  std::string dec_mode = "AES-GCM";
  bool no_symlinks = false;
  /// The maps need no rule for states of training: see NameFilter.
  bool weights_only = false;
  Replicas replicas = Replicas::kSame;
  /// Rules and `join` that select nothing are warned of, and no error.
  bool allow_unmatched = false;
};

/// How a source says to open its set.
/// @throws Error kMissing, kIo or kBadInput for the key file.
CheckpointOptions set_options(const DiffSource& source);

/// One side of a comparison. Every member function may be called from any number of threads.
class DiffSide {
 public:
  /// Reads no data: what no rule takes has no layout, and replicas are believed to be the same.
  /// @param set the source's, open; nullptr: it is opened.
  /// @param takes selects parameters by the names that maps show; empty: all.
  /// @throws Error as CheckpointSet::open(), Strategy::load() and SourceTable.
  static DiffSide open(const DiffSource& source, std::shared_ptr<const CheckpointSet> set = nullptr,
                       const NameTaker& takes = {});
  /// Checks both, as a mount does, of the parameters that `takes` takes.
  /// @throws Error kBadInput besides, where what is read would be a guess.
  static DiffSide open_checked(const DiffSource& source, const NameTaker& takes);
  explicit DiffSide(std::shared_ptr<const SourceTable> table, Replicas replicas = Replicas::kSame)
      : table_(std::move(table)), replicas_(replicas) {}

  /// What the user should know, one line each.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  /// Choices made, one line each.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

  const SourceTable& table() const noexcept { return *table_; }

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
  std::vector<std::string> warnings_;
  std::vector<std::string> notes_;
};

}  // namespace reshardfs
