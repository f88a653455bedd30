// SPDX-License-Identifier: Apache-2.0
#include "check/problem.h"

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

}  // namespace reshardfs
