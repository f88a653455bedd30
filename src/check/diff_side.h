// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/source_table.h"

namespace reshardfs {

/// A checkpoint to compare, as the user names it.
struct DiffSource {
  std::filesystem::path path{};
  /// Nothing: every rank holds whole parameters.
  std::optional<std::filesystem::path> strategy{};
  /// See CheckpointOptions.
  std::string pattern{};
  std::string step = "latest";
  /// Without a strategy: parameters of which each rank holds a slice along dimension 0.
  std::vector<std::string> join{};
  std::filesystem::path dec_key_file{};
  std::string dec_mode = "AES-GCM";
  bool no_symlinks = false;
};

/// One side of a comparison. Every member function may be called from any number of threads.
class DiffSide {
 public:
  /// @throws Error as CheckpointSet::open(), Strategy::load() and SourceTable.
  static DiffSide open(const DiffSource& source);
  explicit DiffSide(std::shared_ptr<const SourceTable> table) : table_(std::move(table)) {}

  const SourceTable& table() const noexcept { return *table_; }

  /// The parameter by its layout, else like its weight; nullptr: it has neither. Reads no data, and
  /// parts of it may be missing.
  ShardGridPtr laid_out(const SourceParameter& parameter) const;

  /// The whole parameter: by its layout, else like its weight, else from any rank if all ranks have
  /// the same bytes (which are read to find out). nullptr: every rank has its own.
  /// @throws Error kMissing if no file holds a part of it.
  ShardGridPtr whole(const SourceParameter& parameter) const;

 private:
  ShardGridPtr find_grid(const SourceParameter& parameter) const;
  void require_complete(const SourceParameter& parameter, const ShardGrid& grid) const;

  std::shared_ptr<const SourceTable> table_;
};

}  // namespace reshardfs
