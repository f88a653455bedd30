// SPDX-License-Identifier: Apache-2.0
#include "base/text/name_order.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <tuple>

#include "base/process/parallel.h"

namespace reshardfs {
namespace {

constexpr std::size_t kKeyBytes = 8;
/// Groups up to this size are compared name by name.
constexpr std::size_t kFewNames = 12;
/// Fewer names than this are sorted sooner than a thread starts.
constexpr std::size_t kNamesOfAThread = 1U << 14U;

struct Item {
  std::uint64_t key = 0;  ///< the next bytes of the name
  std::uint32_t position = 0;
};

using Items = std::span<Item>;

/// Bytes of the name from `at` on as a number that sorts as they do; zeros behind its end.
std::uint64_t key_at(std::string_view name, std::size_t at) noexcept {
  std::uint64_t key = 0;
  const std::string_view bytes = name.substr(std::min(at, name.size()), kKeyBytes);
  for (const char byte : bytes) key = key << 8U | static_cast<unsigned char>(byte);
  return bytes.empty() ? 0 : key << 8U * (kKeyBytes - bytes.size());
}

/// How many bytes both begin with.
std::size_t common_bytes(std::string_view a, std::string_view b) noexcept {
  const std::size_t most = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(most);
  return static_cast<std::size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

/// Names that begin alike.
struct Group {
  Items items{};
  std::size_t at = 0;  ///< the first of their bytes that may differ
};

class NameSorter {
 public:
  /// @param later receives the groups of a size for one thread, which stay unsorted; nullptr: all
  ///        are sorted at once.
  explicit NameSorter(std::span<const std::string_view> names, std::vector<Group>* later = nullptr)
      : names_(names), later_(later) {}

  /// Sorts names whose first bytes up to `at` are equal.
  void sort(Items items, std::size_t at) const {
    if (items.size() <= kFewNames) return compare_rest(items, at);
    at += common_beginning(items, at);
    for (Item& item : items) item.key = key_at(names_[item.position], at);
    const auto before = [](const Item& a, const Item& b) {
      return std::tie(a.key, a.position) < std::tie(b.key, b.position);
    };
    if (!std::is_sorted(items.begin(), items.end(), before)) {
      std::sort(items.begin(), items.end(), before);
    }
    for (auto first = items.begin(); first != items.end();) {
      const auto last = std::find_if(
          first, items.end(), [key = first->key](const Item& item) { return item.key != key; });
      if (last - first > 1) sort_equal_keys(Items(first, last), at + kKeyBytes);
      first = last;
    }
  }

 private:
  /// Of names whose keys are equal, those that have ended are the beginnings of the others. Zeros
  /// at their end are bytes of theirs, or behind it.
  void sort_equal_keys(Items items, std::size_t at) const {
    const auto size_of = [&](const Item& item) { return names_[item.position].size(); };
    const auto longer = std::stable_partition(
        items.begin(), items.end(), [&](const Item& item) { return size_of(item) <= at; });
    std::stable_sort(items.begin(), longer,
                     [&](const Item& a, const Item& b) { return size_of(a) < size_of(b); });
    const Items rest(longer, items.end());
    if (rest.size() < 2) return;
    if (later_ != nullptr && rest.size() <= kNamesOfAThread) {
      later_->push_back({rest, at});
    } else {
      sort(rest, at);
    }
  }

  /// Names of a model begin alike for long: those bytes need no key.
  std::size_t common_beginning(Items items, std::size_t at) const {
    std::string_view common = names_[items.front().position].substr(at);
    for (const Item& item : items) {
      const std::string_view rest = names_[item.position].substr(at);
      const bool has_it = rest.size() >= common.size() &&
                          std::memcmp(rest.data(), common.data(), common.size()) == 0;
      if (!has_it) common = common.substr(0, common_bytes(common, rest));
      if (common.empty()) break;
    }
    return common.size();
  }

  void compare_rest(Items items, std::size_t at) const {
    std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
      const int order = names_[a.position].substr(at).compare(names_[b.position].substr(at));
      return order != 0 ? order < 0 : a.position < b.position;
    });
  }

  std::span<const std::string_view> names_;
  std::vector<Group>* later_;
};

/// Sorts the groups, so many to a thread at a time that each has enough to do.
void sort_groups(const NameSorter& sorter, const std::vector<Group>& groups) {
  std::vector<std::size_t> ends;
  std::size_t names = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    names += groups[i].items.size();
    if (names < kNamesOfAThread && i + 1 < groups.size()) continue;
    ends.push_back(i + 1);
    names = 0;
  }
  parallel_for(ends.size(), [&](std::size_t part) {
    for (std::size_t i = part == 0 ? 0 : ends[part - 1]; i < ends[part]; ++i) {
      sorter.sort(groups[i].items, groups[i].at);
    }
  });
}

/// @return false also if names that are hard to tell apart by their hashes were made on purpose.
bool have_distinct_hashes(std::span<const std::string_view> names) {
  // A table that is at most half full. Its places follow from the first bits of the hashes.
  constexpr unsigned kPlaceBits = 32;
  constexpr std::size_t kMostSteps = 256;
  std::vector<std::uint32_t> table(std::bit_ceil(2 * names.size() + 1));
  for (const std::string_view name : names) {
    const std::uint64_t hash = std::hash<std::string_view>()(name);
    const auto kept = static_cast<std::uint32_t>(hash >> kPlaceBits) | 1U;
    std::size_t place = hash & (table.size() - 1);
    for (std::size_t steps = 0; table[place] != 0; place = (place + 1) & (table.size() - 1)) {
      if (table[place] == kept || ++steps == kMostSteps) return false;
    }
    table[place] = kept;
  }
  return true;
}

}  // namespace

std::vector<std::uint32_t> order_of_names(std::span<const std::string_view> names) {
  std::vector<std::uint32_t> order(names.size());
  std::iota(order.begin(), order.end(), 0U);
  if (std::is_sorted(names.begin(), names.end())) return order;
  std::vector<Item> items(names.size());
  for (std::uint32_t i = 0; i < items.size(); ++i) items[i].position = i;
  std::vector<Group> groups;
  NameSorter(names, &groups).sort(items, 0);
  sort_groups(NameSorter(names), groups);
  std::transform(items.begin(), items.end(), order.begin(),
                 [](const Item& item) { return item.position; });
  return order;
}

bool are_distinct(std::span<const std::string_view> names) {
  if (have_distinct_hashes(names)) return true;
  // Equal names, or other ones with the same hash.
  const std::vector<std::uint32_t> order = order_of_names(names);
  return std::adjacent_find(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
           return names[a] == names[b];
         }) == order.end();
}

}  // namespace reshardfs
