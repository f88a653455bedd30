// SPDX-License-Identifier: Apache-2.0
#include "check/verify_parameter.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/rank_list.h"
#include "check/diff.h"
#include "check/problem.h"
#include "layout/fold.h"
#include "plan/replicas/replica_check.h"
#include "plan/source/cell_grid.h"

namespace reshardfs {
namespace {

Problem problem_of(ProblemKind kind, const Holding& holding, std::string message) {
  Problem problem;
  problem.kind = kind;
  problem.rank = holding.file->rank;
  problem.file = holding.file->path.string();
  problem.parameter = holding.entry->name;
  problem.message = std::move(message);
  return problem;
}

/// What most holders have; the lowest rank's where two are equally frequent.
template <typename Value, typename Get>
Value most_common(const std::vector<Holding>& holders, Get&& get) {
  std::map<Value, std::size_t> counts;
  for (const Holding& holder : holders) ++counts[get(holder)];
  Value best = get(holders.front());
  for (const Holding& holder : holders) {
    if (counts[get(holder)] > counts[best]) best = get(holder);
  }
  return best;
}

bool is_cut(const Layout& layout) {
  return layout.optimizer_shard_size != 0 ||
         std::any_of(layout.tensor_map.begin(), layout.tensor_map.end(),
                     [](const auto& axes) { return !axes.empty(); });
}

/// The full shape follows from any slice: of one that is as most are, if there is a usual one.
std::vector<RankSlice> slices_usual_first(const std::vector<Holding>& holders, const Shape& usual,
                                          const DeviceRanks& devices) {
  std::vector<RankSlice> slices;
  for (const bool take_usual : {true, false}) {
    for (const Holding& holder : holders) {
      const Shape& shape = holder.entry->shape;
      if (shape.size() == usual.size() && (shape == usual) == take_usual) {
        slices.emplace_back(devices.place_of(holder.file->rank).value(), shape);
      }
    }
  }
  return slices;
}

Holders as_holders(const std::vector<Holding>& list) {
  Holders holders;
  for (const Holding& holder : list) holders.add({holder.file, 1, holder.entry});
  return holders;
}

std::set<const RankFile*> files_of(const std::vector<Holding>& holders) {
  std::set<const RankFile*> files;
  for (const Holding& holder : holders) files.insert(holder.file);
  return files;
}

/// "element (0, 3)" of the byte where a replica differs.
std::string element_words(const ReplicaDifference& difference) {
  const TensorEntry& entry = *difference.holding.entry;
  if (!is_array(entry.dtype)) return "byte " + std::to_string(difference.first);
  const auto element = difference.first / static_cast<std::uint64_t>(element_size(entry.dtype)) *
                       static_cast<std::uint64_t>(elements_per_unit(entry.dtype));
  std::string out;
  for (const std::int64_t index : index_tuple(element, entry.shape)) {
    out += (out.empty() ? "" : ", ") + std::to_string(index);
  }
  return "element (" + out + ")";
}

}  // namespace

/// Whether the files that hold a state hold slices of the weight of the same shape.
bool ParameterVerifier::is_sliced_like(const std::string& weight,
                                       const std::vector<Holding>& holders) const {
  return std::all_of(holders.begin(), holders.end(), [&](const Holding& holder) {
    for (const RankFile& file : context_.set.files_of(holder.file->rank)) {
      const TensorEntry* twin = file.index->find(weight);
      if (twin != nullptr) return twin->shape == holder.entry->shape;
    }
    return false;
  });
}

std::vector<HeldParameter> held_parameters(const CheckpointSet& set, const NameTaker& takes) {
  std::vector<HeldParameter> parameters;
  std::vector<std::string_view> names;                        // of the parameters
  std::unordered_map<std::string_view, std::size_t> numbers;  // those of the first ones by name
  const auto number_of = [&](std::string_view name) {
    for (std::size_t i = numbers.size(); i < names.size(); ++i) numbers.emplace(names[i], i);
    return numbers.try_emplace(name, names.size()).first->second;
  };
  for (const RankFile& file : set.files()) {
    // The parts of a rank share no names but those of boxes.
    const bool has_new_names = file.rank == set.files().front().rank && !file.index->has_boxes();
    std::size_t expected = 0;  // files of a stage list the same names in the same order
    for (const TensorEntry& entry : file.index->entries()) {
      const bool is_neighbour = expected < names.size() && names[expected] == entry.name;
      if (!is_neighbour) {
        const bool left_out = set.catalogue() && set.catalogue()->leaves_out(entry.name);
        if (left_out || !takes(entry.name)) continue;
        expected = has_new_names ? names.size() : number_of(entry.name);
      }
      if (expected == names.size()) {
        names.emplace_back(entry.name);
        parameters.push_back({entry.name, {}});
      }
      parameters[expected++].holders.push_back({&file, &entry});
    }
  }
  return parameters;
}

std::vector<std::size_t> ends_of_parts(const std::vector<HeldParameter>& parameters) {
  constexpr std::size_t kMost = 512;
  constexpr std::uint64_t kBytes = 1 << 20;
  std::vector<std::size_t> ends;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const Holding& holder : parameters[i].holders) bytes += holder.entry->content_bytes;
    if (++count < kMost && bytes < kBytes && i + 1 < parameters.size()) continue;
    ends.push_back(i + 1);
    count = 0;
    bytes = 0;
  }
  return ends;
}

std::vector<Holding> ParameterVerifier::drop_other_types(std::vector<Holding> holders,
                                                         ParameterFindings& findings) const {
  const auto type_of = [](const Holding& holder) { return holder.entry->dtype; };
  const auto usual = most_common<DType>(holders, type_of);
  std::erase_if(holders, [&](const Holding& holder) {
    if (type_of(holder) == usual) return false;
    findings.problems.push_back(problem_of(ProblemKind::kType, holder,
                                           "is " + std::string(mindspore_name(type_of(holder))) +
                                               ", but " + std::string(mindspore_name(usual)) +
                                               " on other ranks"));
    return true;
  });
  return holders;
}

std::vector<Holding> ParameterVerifier::drop_other_shapes(
    std::vector<Holding> holders, const std::function<Shape(const Holding&)>& expected,
    ParameterFindings& findings) const {
  std::erase_if(holders, [&](const Holding& holder) {
    const Shape wanted = expected(holder);
    if (array_shape(*holder.entry) == wanted) return false;
    findings.problems.push_back(problem_of(ProblemKind::kShape, holder,
                                           "has the shape " +
                                               to_string(array_shape(*holder.entry)) +
                                               " instead of " + to_string(wanted)));
    return true;
  });
  return holders;
}

void ParameterVerifier::compare(const std::vector<Holding>& replicas,
                                ParameterFindings& findings) const {
  if (replicas.size() == 1 && context_.read_files.contains(replicas.front().file)) return;
  const ReplicaReport report = compare_replicas(replicas, reader_, progress_);
  for (const auto& [holding, error] : report.unreadable) {
    Problem problem = problem_from(error);
    problem.rank = holding.file->rank;
    problem.file = holding.file->path.string();
    problem.parameter = holding.entry->name;
    findings.problems.push_back(std::move(problem));
  }
  if (context_.replicas != Replicas::kSame) {
    findings.own_values = findings.own_values || !report.differences.empty();
    return;
  }
  for (const ReplicaDifference& difference : report.differences) {
    Problem problem = problem_of(ProblemKind::kReplica, difference.holding,
                                 std::to_string(difference.bytes) +
                                     (difference.bytes == 1 ? " byte differs" : " bytes differ") +
                                     " from rank " + to_string(difference.reference.file->rank) +
                                     ", first at " + element_words(difference));
    problem.offset = file_offset(*difference.holding.entry, difference.first);
    problem.differing_bytes = difference.bytes;
    findings.problems.push_back(std::move(problem));
  }
}

/// Every rank that has it must have the same.
void ParameterVerifier::check_whole(const std::vector<Holding>& holders,
                                    ParameterFindings& findings) const {
  if (holders.size() == 1) return compare(holders, findings);
  const auto shape_of = [](const Holding& holder) { return array_shape(*holder.entry); };
  const auto usual = most_common<Shape>(holders, shape_of);
  const auto same = drop_other_shapes(
      holders, [&](const Holding&) -> const Shape& { return usual; }, findings);
  compare(same, findings);
}

/// Nothing says that the ranks have the same: if they do not, it is each rank's own.
void ParameterVerifier::check_unlaid(const std::vector<Holding>& holders,
                                     ParameterFindings& findings) const {
  for (const Holding& holder : holders) {
    if (array_shape(*holder.entry) != array_shape(*holders.front().entry)) findings.per_rank = true;
  }
  if (!findings.per_rank && holders.size() > 1) {
    const ReplicaReport report = compare_replicas(holders, reader_, progress_);
    findings.per_rank = !report.differences.empty();
    if (report.unreadable.empty()) return;
  }
  // To have read them all, and to say which cannot be.
  for (const Holding& holder : holders) compare({holder}, findings);
}

/// Without a strategy: slices along dimension 0, in rank order, of equal further dimensions.
void ParameterVerifier::check_joined(const HeldParameter& parameter,
                                     ParameterFindings& findings) const {
  const auto rest_of = [](const Holding& holder) {
    const Shape& shape = holder.entry->shape;
    return shape.empty() ? Shape{-1} : Shape(shape.begin() + 1, shape.end());
  };
  const auto usual = most_common<Shape>(parameter.holders, rest_of);
  for (const Holding& holder : parameter.holders) {
    if (rest_of(holder) != usual) {
      findings.problems.push_back(problem_of(
          ProblemKind::kShape, holder,
          "has the shape " + to_string(holder.entry->shape) +
              ", which cannot be joined with that of the other ranks along dimension 0"));
    }
    compare({holder}, findings);
  }
  const RankRange& ranks = context_.joined->ranks();
  std::set<Rank> without(ranks.begin(), ranks.end());
  for (const Holding& holder : parameter.holders) without.erase(holder.file->rank);
  if (without.empty()) return check_rows(parameter, findings);
  Problem problem;
  problem.kind = ProblemKind::kMissingPart;
  problem.parameter = parameter.name;
  problem.message = "is to be joined, but " + rank_words({without.begin(), without.end()}) +
                    " has no slice of it";
  findings.problems.push_back(std::move(problem));
}

/// Whether what is joined of all ranks has as many rows as it should.
void ParameterVerifier::check_rows(const HeldParameter& parameter,
                                   ParameterFindings& findings) const {
  const Holding first = parameter.holders.front();
  Shape joined = first.entry->shape;
  if (joined.empty()) return;
  joined[0] = 0;
  try {
    for (const Holding& holder : parameter.holders) {
      const Shape& shape = holder.entry->shape;
      if (shape.empty()) return;
      joined[0] = add_or_throw(joined[0], shape[0], "the number of its rows");
    }
    context_.joined->add(parameter.name, joined, *first.file);
  } catch (const Error& error) {
    Problem problem = problem_from(error);
    problem.kind = ProblemKind::kMissingPart;
    problem.parameter = parameter.name;
    findings.problems.push_back(std::move(problem));
  }
}

void ParameterVerifier::report_missing(const HeldParameter& parameter, std::size_t number,
                                       const Slicing& slicing, const DeviceRanks& devices,
                                       const std::set<std::int64_t>& held,
                                       ParameterFindings& findings) const {
  std::map<std::int64_t, std::vector<Rank>> lacking;  // by cell
  for (std::int64_t place = 0; place < slicing.devices(); ++place) {
    const std::int64_t cell = slicing.cell_of(place);
    if (!held.contains(cell)) lacking[cell].push_back(devices.at(place));
  }
  std::vector<Rank> lost;
  for (const auto& [cell, ranks] : lacking) {
    std::vector<Rank> absent;
    std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(absent),
                 [&](Rank rank) { return absent_.contains(rank); });
    if (absent.empty()) {
      lost.insert(lost.end(), ranks.begin(), ranks.end());
    } else {
      absent_.lose(absent, parameter.name, number);
    }
  }
  if (lost.empty()) return;
  std::sort(lost.begin(), lost.end());
  Problem problem;
  problem.kind = ProblemKind::kMissingPart;
  problem.rank = lost.front();
  problem.parameter = parameter.name;
  problem.message = "the slice of " + rank_words(lost) + " is in no file";
  findings.problems.push_back(std::move(problem));
}

/// @param holders those of the placement that have the usual type.
void ParameterVerifier::check_laid_out(const HeldParameter& parameter, std::size_t number,
                                       const SlicePlacement& placement,
                                       const std::vector<Holding>& holders,
                                       ParameterFindings& findings) const {
  const Layout& layout = *placement.layout;
  const auto shape_of = [](const Holding& holder) { return holder.entry->shape; };
  const auto usual = most_common<Shape>(holders, shape_of);
  const auto place = [&](const Holding& holder) {
    return placement.devices.place_of(holder.file->rank).value();
  };
  try {
    const Layout folded = fold_expanded(layout, usual, /*is_slice=*/true);
    const Slicing slicing(
        folded, placement.full_shape
                    ? *placement.full_shape
                    : full_shape_of(folded, slices_usual_first(holders, usual, placement.devices)));
    const auto fitting = drop_other_shapes(
        holders, [&](const Holding& holder) { return slicing.slice_shape(place(holder)); },
        findings);
    std::map<std::int64_t, std::vector<Holding>> cells;
    std::set<std::int64_t> held;
    for (const Holding& holder : fitting) cells[slicing.cell_of(place(holder))].push_back(holder);
    // A slice of a wrong shape is a problem already.
    for (const Holding& holder : placement.holders) held.insert(slicing.cell_of(place(holder)));
    for (const auto& [cell, replicas] : cells) compare(replicas, findings);
    if (static_cast<std::int64_t>(held.size()) < slicing.cell_count()) {
      report_missing(parameter, number, slicing, placement.devices, held, findings);
    }
    if (!folded.tensor_shape.empty() && folded.tensor_shape != slicing.full_shape()) {
      findings.problems.push_back(
          problem_of(ProblemKind::kShape, holders.front(),
                     "the full shape is " + to_string(slicing.full_shape()) +
                         ", but the strategy says " + to_string(folded.tensor_shape)));
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    if (error.kind() == ErrorKind::kMissing) {
      // Unevenly cut: without all parts its full shape is not known.
      findings.problems.push_back(
          problem_of(ProblemKind::kMissingPart, holders.front(), error.message()));
      return;
    }
    throw Error(ErrorKind::kBadInput, error.message() + " (slice " + to_string(usual) +
                                          "; source: " + to_string(layout) + ")")
        .in_file(holders.front().file->path.string())
        .for_parameter(parameter.name)
        .hint(context_.catalogue->hint());
  }
}

void ParameterVerifier::check_placed(const HeldParameter& parameter, std::size_t number,
                                     const SlicePlacement& placement,
                                     const std::vector<Holding>& usable,
                                     ParameterFindings& findings) const {
  const std::set<const RankFile*> usable_files = files_of(usable);
  std::vector<Holding> holders;
  for (const Holding& holder : placement.holders) {
    if (usable_files.contains(holder.file)) holders.push_back(holder);
  }
  if (holders.empty()) return;
  const bool array = is_array(holders.front().entry->dtype);
  if (array) return check_laid_out(parameter, number, placement, holders, findings);
  // It is unknown which rank has which keys of a map that is cut.
  is_cut(*placement.layout) ? check_unlaid(holders, findings) : check_whole(holders, findings);
}

/// What no layout of its own places: a state may follow its weight.
void ParameterVerifier::check_unplaced(const HeldParameter& parameter, std::size_t number,
                                       const std::vector<Holding>& holders,
                                       ParameterFindings& findings) const {
  std::map<std::int64_t, std::vector<Holding>> stages;
  for (const Holding& holder : holders) {
    stages[context_.catalogue->ranks().stage_of(holder.file->rank)].push_back(holder);
  }
  const std::string weight = weight_of(parameter.name, context_.state_prefixes);
  for (const auto& [stage, in_stage] : stages) {
    std::vector<SlicePlacement> like;
    if (!weight.empty() && is_sliced_like(weight, in_stage)) {
      like = context_.catalogue->placements(weight, as_holders(in_stage));
    }
    if (like.empty()) {
      check_unlaid(in_stage, findings);
    } else {
      check_placed(parameter, number, like.front(), in_stage, findings);
    }
  }
}

ParameterFindings ParameterVerifier::check(const HeldParameter& parameter,
                                           std::size_t number) const {
  ParameterFindings findings;
  try {
    check(parameter, number, findings);
  } catch (const Error& error) {
    // The user may have given the wrong strategy; a set that records its own is damaged.
    if (!context_.set.catalogue()) throw;
    Problem problem = problem_from(error);
    problem.parameter = parameter.name;
    findings.problems.push_back(std::move(problem));
  }
  return findings;
}

void ParameterVerifier::check(const HeldParameter& parameter, std::size_t number,
                              ParameterFindings& findings) const {
  const std::vector<Holding> holders = drop_other_types(parameter.holders, findings);
  if (!context_.catalogue) {
    if (is_array(holders.front().entry->dtype) && context_.joined != nullptr &&
        context_.joined->takes(parameter.name)) {
      check_joined({parameter.name, holders}, findings);
    } else {
      check_whole(holders, findings);
    }
    return;
  }
  const Holders all = as_holders(parameter.holders);
  if (is_array(holders.front().entry->dtype)) {
    if (const auto boxes = context_.catalogue->boxes(parameter.name, all)) {
      return check_boxes(parameter, *boxes, holders, findings);
    }
  }
  const auto placements = context_.catalogue->placements(parameter.name, all);
  if (placements.empty() && !context_.catalogue->layouts_of(parameter.name).empty()) {
    findings.problems.push_back(
        problem_of(ProblemKind::kMissingPart, holders.front(),
                   "the strategy lays it out in another pipeline stage than that of this rank"));
  }
  std::set<const RankFile*> placed;
  for (const SlicePlacement& placement : placements) {
    for (const Holding& holder : placement.holders) placed.insert(holder.file);
    check_placed(parameter, number, placement, holders, findings);
  }
  std::vector<Holding> others = holders;
  std::erase_if(others, [&](const Holding& holder) { return placed.contains(holder.file); });
  check_unplaced(parameter, number, others, findings);
}

}  // namespace reshardfs
