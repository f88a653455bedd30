// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "format/torch/pickle_tree.h"

namespace reshardfs::pickle {

/// The keys of a tree's dictionaries, compared as Python compares them. Objects are equal to
/// themselves alone.
class Keys {
 public:
  /// @param bytes of the tree.
  Keys(const PickleTree& tree, std::string_view bytes) : tree_(tree), bytes_(bytes) {}

  /// @param pairs keys and values by turns, in the order in which they are set.
  bool any_twice(std::span<const PickleValue> pairs) const;
  /// As Python's dictionary has them in the end: each key where it is set first, with the value
  /// that it gets last.
  std::vector<PickleValue> settled(std::span<const PickleValue> pairs) const;

 private:
  struct Hash;
  struct Equal;

  double float_of(PickleValue value) const;
  std::optional<std::int64_t> number_of(PickleValue key) const;
  std::string_view bytes_of(PickleValue text) const;
  bool are_equal(PickleValue a, PickleValue b) const;
  bool are_equal(std::span<const PickleValue> a, std::span<const PickleValue> b) const;
  std::size_t hash(PickleValue key) const;

  const PickleTree& tree_;
  std::string_view bytes_;
};

}  // namespace reshardfs::pickle
