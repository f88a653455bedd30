// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/byte_range.h"
#include "plan/reading/source_nest.h"

namespace reshardfs {

/// Turns nests of elements into strided runs of the wanted bytes. It joins ranges that are adjacent
/// in source and destination, also across nests.
class RunMaker {
 public:
  /// @param wanted the range of the destination's bytes.
  /// @param element bytes.
  /// @param visit must outlive this object.
  RunMaker(const ByteRange& wanted, std::uint64_t element,
           FunctionRef<void(const StridedRun&)> visit)
      : wanted_(wanted), element_(element), visit_(visit) {}

  /// @param source a nest. The wanted range may contain only a part of its first and last elements.
  void take(const SourceNest& source);
  /// Call this after the last take().
  void finish();

 private:
  void take_literal(const SourceNest& source);
  void add(const StridedRun& run);
  void add_wanted(const StridedRun& run);

  ByteRange wanted_;
  std::uint64_t element_;
  FunctionRef<void(const StridedRun&)> visit_;
  StridedRun pending_;  ///< length 0: none
};

}  // namespace reshardfs
