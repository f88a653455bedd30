// SPDX-License-Identifier: Apache-2.0
/// Sizes that stand for a strategy: "tp=8,dp=2,ep=2,pp=1,opt=on".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reshardfs/export.h"

namespace reshardfs {

/// Those that are given; see reshardfs-strategy(5).
struct DerivedSizes {
  std::string text{};  ///< as given
  std::optional<std::int64_t> tensor{};
  std::optional<std::int64_t> data{};
  std::optional<std::int64_t> expert{};
  std::optional<std::int64_t> pipeline{};
  std::optional<std::int64_t> optimizer{};  ///< as Layout::optimizer_shard_size

  bool empty() const noexcept { return text.empty(); }
};

/// @throws Error kUsage if the text is wrong; shows it, and what is expected.
RESHARDFS_EXPORT DerivedSizes parse_derivation(const std::string& text);

/// Whether the value of --src-strategy or --dst-strategy is sizes, not a path.
RESHARDFS_EXPORT bool is_derivation(const std::string& text);

}  // namespace reshardfs
