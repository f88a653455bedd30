// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/source_nest.h"

namespace reshardfs {

/// Nests of elements as strided runs of bytes. Pieces that follow one another on both sides are
/// joined, also over the borders of nests.
class RunMaker {
 public:
  /// @param visit which must live as long as this object.
  explicit RunMaker(FunctionRef<void(const StridedRun&)> visit) : visit_(visit) {}

  void take(const SourceNest& source, const ElementPart& part);
  /// To be called after the last one.
  void finish();

 private:
  void take_literal(const SourceNest& source, const ElementPart& part);
  void add(const StridedRun& run);

  FunctionRef<void(const StridedRun&)> visit_;
  StridedRun pending_;  ///< without length: none
};

}  // namespace reshardfs
