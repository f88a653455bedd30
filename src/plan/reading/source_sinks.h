// SPDX-License-Identifier: Apache-2.0
/// Lists the sources of a range of a view or a file without reading them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/byte_range.h"
#include "base/engine.h"
#include "checkpoint/holders.h"
#include "plan/reading/source_nest.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// Receives the sources of a range, one at a time.
class SourceSink {
 public:
  SourceSink() = default;
  SourceSink(const SourceSink&) = delete;
  SourceSink& operator=(const SourceSink&) = delete;
  virtual ~SourceSink() = default;

  /// Ranges of a parameter's content; offsets are relative to the content.
  virtual void take(const Holding& holding, const StridedRanges& ranges) = 0;
  /// Bytes of a source that belong to no parameter.
  virtual void take(const ByteSource& source, const ByteRange& range) = 0;
};

/// Collects ranges of sources, which can be requested before they are read.
class RESHARDFS_ENGINE RangesAhead final : public SourceSink {
 public:
  enum class Of : std::uint8_t {
    kFar,  ///< sources that always gain from it, whichever program reads
    kAll,  ///< the kernel is told of those of local files, too
  };
  explicit RangesAhead(Of of = Of::kFar) : of_(of) {}

  void take(const Holding& holding, const StridedRanges& ranges) override;
  void take(const ByteSource& source, const ByteRange& range) override;
  /// Requests all of these ranges. @return their bytes.
  std::uint64_t foresee(Foresight when) const;

 private:
  bool wants(const ByteSource& source) const { return of_ == Of::kAll || source.is_far(); }

  Of of_;
  std::unordered_map<const ByteSource*, std::vector<ByteRange>> ranges_;
};

StridedRanges ranges_of(const StridedRun& run);

}  // namespace reshardfs
