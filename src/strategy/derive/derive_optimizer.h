// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "reshardfs/layout.h"
#include "reshardfs/strategy.h"

namespace reshardfs {

/// Optimizer cuts of a derived strategy.
class DerivedOptimizer {
 public:
  /// @param wanted as Layout::optimizer_shard_size; nothing: as the source.
  /// @param data_parallel of the target.
  DerivedOptimizer(const Strategy& source, std::optional<std::int64_t> wanted,
                   std::int64_t data_parallel);

  /// The optimizer_shard_size of a parameter.
  /// @param holders devices of the target that hold the same slice before this cut.
  /// @throws Error kBadInput if so many devices cannot share the number of parts.
  std::int64_t size_for(const Layout& source, std::int64_t holders) const;

 private:
  std::int64_t as_source(const Layout& source, std::int64_t holders) const;

  std::optional<std::int64_t> wanted_;
  std::int64_t data_parallel_;
  bool source_has_cuts_ = false;
};

}  // namespace reshardfs
