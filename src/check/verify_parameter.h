// SPDX-License-Identifier: Apache-2.0
/// Checking one parameter over all files that hold it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/rank.h"

#include "check/coverage.h"
#include "check/replicas.h"
#include "check/verify.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/joined_ranks.h"
#include "layout/slicing.h"

namespace reshardfs {

/// A parameter's name, and the files that hold it, ascending by rank; one with several pieces once
/// for each.
struct HeldParameter {
  std::string name;
  std::vector<Holding> holders;
};

/// Those of a set that `takes` selects, in the order of its files.
std::vector<HeldParameter> held_parameters(const CheckpointSet& set, const NameTaker& takes);

/// Where parts of the parameters end that are checked one after the other: many small ones, so that
/// what lies together is read together.
std::vector<std::size_t> ends_of_parts(const std::vector<HeldParameter>& parameters);

/// What was found about one parameter.
struct ParameterFindings {
  std::vector<Problem> problems;
  bool per_rank = false;    ///< without a layout, and not the same on all ranks
  bool own_values = false;  ///< replicas differ, and may
};

struct VerifyContext {
  const CheckpointSet& set;
  std::shared_ptr<const Catalogue> catalogue;  ///< nullptr: no layouts are stated
  JoinedRanks* joined;                         ///< nullptr: nothing is to be joined
  std::vector<std::string> state_prefixes;
  /// Files of which every byte has been read: what has no replica in them is not read again.
  std::set<const RankFile*> read_files;
  Replicas replicas = Replicas::kSame;
};

/// For one thread; others may have their own for the same context at the same time.
class ParameterVerifier {
 public:
  ParameterVerifier(const VerifyContext& context, AbsentRanks& absent, Progress& progress)
      : context_(context), absent_(absent), progress_(progress) {}

  /// @param number of the parameter, see AbsentRanks::lose().
  /// @throws Error kBadInput if the layout that a strategy has is impossible for it on all ranks
  ///         alike: then the strategy is not this checkpoint's.
  ParameterFindings check(const HeldParameter& parameter, std::size_t number) const;

 private:
  void check(const HeldParameter& parameter, std::size_t number, ParameterFindings& findings) const;
  void check_unplaced(const HeldParameter& parameter, std::size_t number,
                      const std::vector<Holding>& holders, ParameterFindings& findings) const;
  void check_placed(const HeldParameter& parameter, std::size_t number,
                    const SlicePlacement& placement, const std::vector<Holding>& usable,
                    ParameterFindings& findings) const;
  bool is_sliced_like(const std::string& weight, const std::vector<Holding>& holders) const;
  std::vector<Holding> drop_other_types(std::vector<Holding> holders,
                                        ParameterFindings& findings) const;
  std::vector<Holding> drop_other_shapes(std::vector<Holding> holders,
                                         const std::function<Shape(const Holding&)>& expected,
                                         ParameterFindings& findings) const;
  void check_laid_out(const HeldParameter& parameter, std::size_t number,
                      const SlicePlacement& placement, const std::vector<Holding>& holders,
                      ParameterFindings& findings) const;
  void check_whole(const std::vector<Holding>& holders, ParameterFindings& findings) const;
  void check_unlaid(const std::vector<Holding>& holders, ParameterFindings& findings) const;
  void check_boxes(const HeldParameter& parameter, const BoxPlacement& placement,
                   const std::vector<Holding>& usable, ParameterFindings& findings) const;
  void check_joined(const HeldParameter& parameter, ParameterFindings& findings) const;
  void check_rows(const HeldParameter& parameter, ParameterFindings& findings) const;
  void compare(const std::vector<Holding>& replicas, ParameterFindings& findings) const;
  void report_missing(const HeldParameter& parameter, std::size_t number, const Slicing& slicing,
                      const DeviceRanks& devices, const std::set<std::int64_t>& held,
                      ParameterFindings& findings) const;

  const VerifyContext& context_;
  AbsentRanks& absent_;
  Progress& progress_;
  mutable CopyReader reader_{};
};

}  // namespace reshardfs
