// SPDX-License-Identifier: Apache-2.0
#include "check/problem.h"

#include <algorithm>

namespace reshardfs {

Problem problem_from(const Error& error) {
  Problem problem;
  switch (error.kind()) {
    case ErrorKind::kIo:
    case ErrorKind::kChanged:
      problem.kind = ProblemKind::kIo;
      break;
    case ErrorKind::kInternal:
      throw error;
    case ErrorKind::kUnsupported:
      problem.kind = ProblemKind::kUnsupported;
      break;
    default:
      problem.kind = ProblemKind::kFile;
  }
  problem.file = error.file();
  problem.parameter = error.parameter();
  problem.offset = error.offset();
  problem.message = error.message();
  if (problem.kind == ProblemKind::kIo) problem.hint = error.hint();
  return problem;
}

Problem problem_from(const SetFault& fault) {
  Problem problem = problem_from(fault.error);
  problem.rank = fault.rank;
  if (fault.kind == FaultKind::kStep) problem.kind = ProblemKind::kStep;
  if (fault.kind == FaultKind::kMissingPart) problem.kind = ProblemKind::kMissingPart;
  return problem;
}

const char* name_of(ProblemKind kind) noexcept {
  switch (kind) {
    case ProblemKind::kIo:
      return "io";
    case ProblemKind::kFile:
      return "file";
    case ProblemKind::kUnsupported:
      return "unsupported";
    case ProblemKind::kCrc:
      return "crc";
    case ProblemKind::kManifest:
      return "manifest";
    case ProblemKind::kStep:
      return "step";
    case ProblemKind::kMissingRank:
      return "missing-rank";
    case ProblemKind::kMissingPart:
      return "missing-part";
    case ProblemKind::kShape:
      return "shape";
    case ProblemKind::kType:
      return "type";
    case ProblemKind::kReplica:
      return "replica";
    case ProblemKind::kExtent:
      return "extent";
    case ProblemKind::kMap:
      return "map";
  }
  return "";
}

bool VerifyReport::unread() const noexcept {
  return std::any_of(problems.begin(), problems.end(),
                     [](const Problem& problem) { return problem.kind == ProblemKind::kIo; });
}

bool VerifyReport::damaged() const noexcept {
  return std::any_of(problems.begin(), problems.end(), [](const Problem& problem) {
    return problem.kind != ProblemKind::kIo && problem.kind != ProblemKind::kUnsupported &&
           problem.kind != ProblemKind::kExtent;
  });
}

bool VerifyReport::only_open() const noexcept {
  return !problems.empty() &&
         std::all_of(problems.begin(), problems.end(),
                     [](const Problem& problem) { return problem.kind == ProblemKind::kExtent; });
}

}  // namespace reshardfs
