// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace reshardfs {

/// "tp=8,dp=2,ep=2,pp=1,opt=on": what is there.
struct DerivedSizes {
  std::optional<std::int64_t> tensor{};
  std::optional<std::int64_t> data{};
  std::optional<std::int64_t> expert{};
  std::optional<std::int64_t> pipeline{};
  std::optional<std::int64_t> optimizer{};  ///< as Layout::optimizer_shard_size
};

/// @throws Error kUsage
DerivedSizes parse_derivation(const std::string& text);

}  // namespace reshardfs
