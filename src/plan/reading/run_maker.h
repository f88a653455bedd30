// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/byte_range.h"
#include "plan/reading/source_nest.h"

namespace reshardfs {

/// Nests of elements as strided runs of the bytes that are wanted. Ranges that follow one another
/// on both sides are joined, also over the borders of nests.
class RunMaker {
 public:
  /// @param wanted bytes of the destination.
  /// @param element bytes.
  /// @param visit which must live as long as this object.
  RunMaker(const ByteRange& wanted, std::uint64_t element,
           FunctionRef<void(const StridedRun&)> visit)
      : wanted_(wanted), element_(element), visit_(visit) {}

  /// @param source whose first and last elements may be wanted in part.
  void take(const SourceNest& source);
  /// To be called after the last one.
  void finish();

 private:
  void take_literal(const SourceNest& source);
  void add(const StridedRun& run);
  void add_wanted(const StridedRun& run);

  ByteRange wanted_;
  std::uint64_t element_;
  FunctionRef<void(const StridedRun&)> visit_;
  StridedRun pending_;  ///< without length: none
};

}  // namespace reshardfs
