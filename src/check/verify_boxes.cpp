// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "check/verify_parameter.h"

namespace reshardfs {
namespace {

Problem problem_of(ProblemKind kind, const HeldParameter& parameter, std::string message) {
  const Holding& first = parameter.holders.front();
  Problem problem;
  problem.kind = kind;
  problem.rank = first.file->rank;
  problem.file = first.file->path.string();
  problem.parameter = parameter.name;
  problem.message = std::move(message);
  return problem;
}

/// What a check has found of a box.
struct BoxFiles {
  bool is_listed = false;         ///< whether any entry has it
  std::vector<Holding> replicas;  ///< those of the right type and shape
};

using BoxMap = std::map<Box, BoxFiles>;

void report_lost(const HeldParameter& parameter, const BoxMap& boxes, ParameterFindings& findings) {
  std::size_t lost = 0;
  const Box* first = nullptr;
  for (const auto& [box, files] : boxes) {
    if (files.is_listed) continue;
    if (lost++ == 0) first = &box;
  }
  if (lost == 0) return;
  findings.problems.push_back(problem_of(
      ProblemKind::kMissingPart, parameter,
      "the box " + to_string(*first) + " is in no file" +
          (lost == 1 ? "" : ", and neither are " + std::to_string(lost - 1) + " more boxes")));
}

/// @throws Error kBadInput if a box is not inside the tensor.
void check_places(const HeldParameter& parameter, const Shape& full_shape, const BoxMap& boxes,
                  ParameterFindings& findings) {
  std::vector<Box> list;
  for (const auto& [box, files] : boxes) list.push_back(box);
  const BoxSet set(full_shape, list);
  if (const auto overlap = set.overlap()) {
    findings.problems.push_back(problem_of(ProblemKind::kShape, parameter,
                                           "the boxes " + to_string(list[overlap->first]) +
                                               " and " + to_string(list[overlap->second]) +
                                               " overlap, and are not equal"));
  } else if (set.uncovered() > 0) {
    findings.problems.push_back(problem_of(
        ProblemKind::kMissingPart, parameter,
        std::to_string(set.uncovered()) + " of its " + std::to_string(element_count(full_shape)) +
            " elements (full shape " + to_string(full_shape) + ") are in no box"));
  }
}

}  // namespace

/// @param usable holders of the usual type.
void ParameterVerifier::check_boxes(const HeldParameter& parameter, const BoxPlacement& placement,
                                    const std::vector<Holding>& usable,
                                    ParameterFindings& findings) const {
  std::set<std::pair<const RankFile*, const TensorEntry*>> usable_pieces;
  for (const Holding& holding : usable) usable_pieces.emplace(holding.file, holding.entry);
  BoxMap boxes;
  for (const PlacedBox& placed : placement.boxes) {
    std::vector<Holding> fitting;
    for (const Holding& holding : placed.holdings) {
      if (usable_pieces.contains({holding.file, holding.entry})) fitting.push_back(holding);
    }
    fitting = drop_other_shapes(
        std::move(fitting), [&](const Holding&) { return placed.box.sizes; }, findings);
    if (element_count(placed.box.sizes) == 0) continue;
    BoxFiles& files = boxes[placed.box];
    // What has a wrong type or shape is a problem already.
    files.is_listed = files.is_listed || !placed.holdings.empty();
    files.replicas.insert(files.replicas.end(), fitting.begin(), fitting.end());
  }
  for (const auto& [box, files] : boxes) {
    if (!files.replicas.empty()) compare(files.replicas, findings);
  }
  report_lost(parameter, boxes, findings);
  check_places(parameter, placement.full_shape, boxes, findings);
}

}  // namespace reshardfs
