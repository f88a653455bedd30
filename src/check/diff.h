// SPDX-License-Identifier: Apache-2.0
/// Compares two checkpoints by value, independent of their layouts and formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/process/progress.h"
#include "base/text/glob.h"
#include "base/unmatched_options.h"
#include "check/diff_side.h"
#include "check/element_compare.h"
#include "plan/target/name_map.h"

namespace reshardfs {

struct DiffOptions {
  Tolerance tolerance{};
  /// Over the names that are compared (those in B).
  NameFilter names{};
  /// Names in A to names in B.
  NameMap name_map{};
  /// The file that name_map is from, for messages.
  std::filesystem::path name_map_file{};
  /// Globs and names that select nothing are no error: see unmatched_in().
  bool allow_unmatched = false;
  /// Whether another element type is a difference where all values are equal.
  bool strict_types = false;
  /// Threads; 0: a number that suits the machine.
  std::size_t jobs = 0;
};

enum class DiffStatus : std::uint8_t {
  kEqual,
  kDifferent,  ///< values
  kOnlyInA,
  kOnlyInB,
  kShape,    ///< shapes differ: values are not compared
  kType,     ///< types differ: they cannot be compared, or all values are equal but types count
  kPerRank,  ///< its ranks differ on one side, and cannot be matched with those of the other
};

/// "equal", "different", "only in A", ...
const char* name_of(DiffStatus status) noexcept;

struct ParameterDiff {
  std::string name;  ///< that in B
  /// Set if each rank has its own: there is one of these for each rank then.
  std::optional<Rank> rank;
  DiffStatus status = DiffStatus::kEqual;
  std::optional<DType> a_type;
  std::optional<DType> b_type;
  Shape a_shape;  ///< full; the number of bytes if it is not an array
  Shape b_shape;
  ElementTally tally;

  bool types_differ() const noexcept { return a_type && b_type && a_type != b_type; }
};

/// Of the options, what selects nothing on either side.
UnmatchedOptions unmatched_in(const DiffSide& a, const DiffSide& b, const DiffOptions& options);

/// Compares all parameters, those of A in its order, then what is only in B. Holds two blocks of
/// 1 MiB for each thread. What a format cannot hold is not missed: a .ckpt file has no parameters
/// without elements.
/// @param progress gets the bytes of both sides.
/// @throws Error kMissing if parts of a parameter are in no file, kUsage if the options leave none
///         to compare, and what the sources throw.
std::vector<ParameterDiff> diff(const DiffSide& a, const DiffSide& b, const DiffOptions& options,
                                Progress& progress);

/// Flat index to one index a dimension. @pre no dimension is 0
std::vector<std::int64_t> index_tuple(std::uint64_t flat, const Shape& shape);

}  // namespace reshardfs
