// SPDX-License-Identifier: Apache-2.0
/// If a pickle sets a key several times, the last value counts, in the place of the first one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "format/torch/pickle_layout.h"
#include "format/torch/pickle_reader.h"
#include "format/torch/pickle_tree.h"

namespace reshardfs {
namespace pickle {
namespace {

/// The keys of so many pairs are compared with each other.
constexpr std::size_t kFewPairs = 8;

/// Longer tuples are equal to themselves alone: one may be a key again and again.
constexpr std::size_t kMostInTuple = 8;
constexpr double kMostWhole = 9007199254740992.0;  // 2^53

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

struct Keys::Hash {
  const Keys& keys;
  std::size_t operator()(PickleValue key) const { return keys.hash(key); }
};

struct Keys::Equal {
  const Keys& keys;
  bool operator()(PickleValue a, PickleValue b) const { return keys.are_equal(a, b); }
};

bool Keys::any_twice(std::span<const PickleValue> pairs) const {
  if (pairs.size() <= 2 * kFewPairs) {
    for (std::size_t i = 2; i < pairs.size(); i += 2) {
      for (std::size_t before = 0; before < i; before += 2) {
        if (are_equal(pairs[before], pairs[i])) return true;
      }
    }
    return false;
  }
  std::unordered_set<PickleValue, Hash, Equal> keys(pairs.size() / 2, Hash{*this}, Equal{*this});
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    if (!pairs[i].is(PickleKind::kObject) && !keys.insert(pairs[i]).second) return true;
  }
  return false;
}

std::vector<PickleValue> Keys::settled(std::span<const PickleValue> pairs) const {
  std::unordered_map<PickleValue, std::size_t, Hash, Equal> places(pairs.size() / 2, Hash{*this},
                                                                   Equal{*this});
  std::vector<PickleValue> out;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    const auto [place, is_new] = places.emplace(pairs[i], out.size());
    if (!is_new) {
      out[place->second + 1] = pairs[i + 1];
      continue;
    }
    out.push_back(pairs[i]);
    out.push_back(pairs[i + 1]);
  }
  return out;
}

double Keys::float_of(PickleValue value) const {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof bits; ++i) {
    bits = bits << 8U | static_cast<unsigned char>(bytes_[value.payload() + i]);
  }
  return std::bit_cast<double>(bits);
}

/// True, 1 and 1.0 are one key.
std::optional<std::int64_t> Keys::number_of(PickleValue key) const {
  if (key.is(PickleKind::kBool)) return key.payload() != 0 ? 1 : 0;
  if (!key.is(PickleKind::kFloat)) return tree_.integer(key);
  const double value = float_of(key);
  if (!(std::abs(value) < kMostWhole) || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::string_view Keys::bytes_of(PickleValue text) const {
  return bytes_.substr(start_of_text(text), length_of_text(text));
}

bool Keys::are_equal(PickleValue a, PickleValue b) const {
  if (const auto number = number_of(a)) return number == number_of(b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case PickleKind::kText:
    case PickleKind::kBytes:
      return a == b || bytes_of(a) == bytes_of(b);
    case PickleKind::kFloat:
      return float_of(a) == float_of(b);
    case PickleKind::kHugeInt:
      return false;
    case PickleKind::kTuple:
      return a == b || are_equal(tree_.tuple(a), tree_.tuple(b));
    default:
      return a == b;
  }
}

bool Keys::are_equal(std::span<const PickleValue> a, std::span<const PickleValue> b) const {
  return a.size() == b.size() && a.size() <= kMostInTuple &&
         std::equal(a.begin(), a.end(), b.begin(), [&](PickleValue x, PickleValue y) {
           return x.is(PickleKind::kTuple) ? x == y : are_equal(x, y);
         });
}

std::size_t Keys::hash(PickleValue key) const {
  if (const auto number = number_of(key)) return std::hash<std::int64_t>()(*number);
  const std::hash<std::uint64_t> of_payload;
  switch (key.kind()) {
    case PickleKind::kText:
    case PickleKind::kBytes:
      return std::hash<std::string_view>()(bytes_of(key));
    case PickleKind::kFloat:
      return std::hash<double>()(float_of(key));
    case PickleKind::kTuple: {
      const auto elements = tree_.tuple(key);
      if (elements.size() > kMostInTuple) return of_payload(key.payload());
      std::size_t sum = elements.size();
      for (const PickleValue element : elements) {
        const bool inner = element.is(PickleKind::kTuple);
        sum = sum * 0x9e3779b97f4a7c15ULL ^ (inner ? of_payload(element.payload()) : hash(element));
      }
      return sum;
    }
    default:
      return of_payload(key.payload());
  }
}

}  // namespace
}  // namespace pickle

/// At the end, because any opcode may add to a dictionary that is in the memo.
void PickleReader::keep_last_values() {
  const pickle::Keys keys(tree_, bytes_);
  std::vector<PickleValue> parts;
  for (std::size_t i = 0; i < is_dict_.size(); ++i) {
    const PickleTree::Container& head = tree_.containers_[i];
    if (!is_dict_[i] || (head.count <= 2 && head.next == PickleTree::kNoNode)) continue;
    std::span<const PickleValue> pairs = std::span(tree_.values_).subspan(head.first, head.count);
    const PickleValue dict(PickleKind::kDict, i);
    if (head.next != PickleTree::kNoNode) {
      parts.clear();
      tree_.visit_segments(dict, [&](std::span<const PickleValue> part) {
        parts.insert(parts.end(), part.begin(), part.end());
        return true;
      });
      pairs = parts;
    }
    if (!keys.any_twice(pairs)) continue;
    const std::vector<PickleValue> settled = keys.settled(pairs);
    std::size_t done = 0;
    for (auto node = static_cast<std::uint32_t>(i); node != PickleTree::kNoNode;
         node = tree_.containers_[node].next) {
      PickleTree::Container& part = tree_.containers_[node];
      part.count =
          static_cast<std::uint32_t>(std::min<std::size_t>(part.count, settled.size() - done));
      std::copy_n(settled.begin() + static_cast<std::ptrdiff_t>(done), part.count,
                  tree_.values_.begin() + static_cast<std::ptrdiff_t>(part.first));
      done += part.count;
    }
  }
}

}  // namespace reshardfs
