// SPDX-License-Identifier: Apache-2.0
/// Sorting a million names, nearly all of which begin like others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace reshardfs {

/// The positions of the names in their order, that of their bytes; equal names by position. Takes
/// time in proportion to the names' bytes, times the logarithm of how many begin alike.
/// @param names fewer than 2^32.
std::vector<std::uint32_t> order_of_names(std::span<const std::string_view> names);

/// Whether no name stands twice. In much less time than their order takes.
bool are_distinct(std::span<const std::string_view> names);

/// The order of names that are elsewhere.
/// @param name_of the name at a position.
template <typename NameOf>
std::vector<std::uint32_t> order_by_name(std::size_t count, NameOf&& name_of) {
  std::vector<std::string_view> names;
  names.reserve(count);
  for (std::size_t i = 0; i < count; ++i) names.push_back(name_of(i));
  return order_of_names(names);
}

}  // namespace reshardfs
