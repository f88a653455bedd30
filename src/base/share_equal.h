// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace reshardfs {

/// Values of which many are equal are kept once: models have thousands of parameters, but few kinds
/// of them.
/// @param kinds the values that are shared so far. It takes some hundred; beyond that each further
///        kind is a value of its own, so that looking it up stays cheap.
/// @return the value, or an equal one of `kinds`.
template <typename T>
std::shared_ptr<const T> share_equal(std::vector<std::shared_ptr<const T>>& kinds, T value) {
  constexpr std::size_t kMostKinds = 256;
  const auto known =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return *kind == value; });
  if (known != kinds.end()) return *known;
  auto made = std::make_shared<const T>(std::move(value));
  if (kinds.size() < kMostKinds) kinds.push_back(made);
  return made;
}

}  // namespace reshardfs
