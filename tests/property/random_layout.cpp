// SPDX-License-Identifier: Apache-2.0
#include "random_layout.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace property {
namespace {

/// A matrix and a map; no other cuts.
naive::Layout random_map(Random& random, naive::Numbers matrix, std::size_t dimensions) {
  naive::Layout layout;
  layout.device_matrix = std::move(matrix);
  layout.tensor_map.resize(dimensions);
  std::vector<int> axes(layout.device_matrix.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::shuffle(axes.begin(), axes.end(), random);
  for (const int axis : axes) {
    if (pick(random, 0, 9) < 3) continue;  // these devices are replicas
    const std::int64_t dimension = pick(random, 0, static_cast<std::int64_t>(dimensions) - 1);
    layout.tensor_map[static_cast<std::size_t>(dimension)].push_back(axis);
  }
  return layout;
}

/// Lengths that fill_lengths() is to choose.
naive::Split open_lengths(const naive::Layout& layout, std::size_t dimension) {
  return {false, naive::Numbers(static_cast<std::size_t>(naive::parts(layout)[dimension]), 0)};
}

/// By how much each dimension's length is divided, and its least length.
struct Demand {
  std::int64_t divisor = 1;
  std::int64_t least = 1;
};

Demand demand_of(const naive::Layout& layout, std::size_t dimension) {
  const std::int64_t unit = naive::units(layout)[dimension];
  const std::int64_t all = unit * naive::parts(layout)[dimension];
  const naive::Split split = layout.splits.empty() ? naive::Split{} : layout.splits[dimension];
  const bool even = !split.balanced && split.lengths.empty();
  return {even ? all : unit, all};
}

}  // namespace

std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  // Not std::uniform_int_distribution: the same seed must mean the same set everywhere.
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

bool one_in(Random& random, std::int64_t count) {
  return pick(random, 1, count) == 1;
}

naive::Numbers random_matrix(Random& random, std::int64_t devices) {
  naive::Numbers matrix(static_cast<std::size_t>(pick(random, 1, 4)), 1);
  const auto last = static_cast<std::int64_t>(matrix.size()) - 1;
  for (std::int64_t factor = 2; devices > 1; ++factor) {
    for (; devices % factor == 0; devices /= factor) {
      matrix[static_cast<std::size_t>(pick(random, 0, last))] *= factor;
    }
  }
  return matrix;
}

naive::Layout random_layout(Random& random, std::int64_t devices, std::size_t dimensions) {
  naive::Layout layout = random_map(random, random_matrix(random, devices), dimensions);
  switch (pick(random, 0, 3)) {
    case 0:
      layout.optimizer_size = -1;
      break;
    case 1:
      layout.optimizer_size = pick(random, 1, naive::replicas(layout));  // need not divide
      break;
    default:
      break;
  }
  if (one_in(random, 8)) {
    layout.fields = pick(random, 2, 3);
  } else if (one_in(random, 8)) {
    layout.splits.resize(dimensions);
    layout.splits.front() = open_lengths(layout, 0);
  }
  return layout;
}

naive::Layout random_rule_layout(Random& random, const naive::Numbers& matrix,
                                 std::size_t dimensions) {
  naive::Layout layout = random_map(random, matrix, dimensions);
  const bool balanced_rows = !layout.tensor_map.front().empty() && one_in(random, 8);
  // Balanced parts differ by one, so that no optimizer can cut them all.
  if (!balanced_rows && one_in(random, 2)) {
    const std::int64_t replicas = naive::replicas(layout);
    layout.optimizer_size = pick(random, 1, replicas);
    if (replicas % layout.optimizer_size != 0) layout.optimizer_size = -1;
  }
  layout.splits.resize(dimensions);
  layout.splits.front().balanced = balanced_rows;
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (layout.tensor_map[d].empty() || layout.splits[d].balanced) continue;
    if (d == 0 && one_in(random, 8)) {
      layout.fields = pick(random, 2, 3);
    } else if (one_in(random, 6)) {
      layout.splits[d] = open_lengths(layout, d);
    } else if (d > 0 && one_in(random, 6)) {
      layout.splits[d].balanced = true;
    }
  }
  return layout;
}

naive::Numbers random_shape(Random& random, const ByStage& src, const ByStage& dst,
                            std::size_t dimensions, std::int64_t most_elements) {
  naive::Numbers divisors(dimensions, 1);
  naive::Numbers shape(dimensions, 1);
  for (std::size_t d = 0; d < dimensions; ++d) {
    for (const ByStage* layouts : {&src, &dst}) {
      for (const auto& [stage, layout] : *layouts) {
        const Demand demand = demand_of(layout, d);
        divisors[d] = std::lcm(divisors[d], demand.divisor);
        shape[d] = std::max(shape[d], demand.least);
      }
    }
    shape[d] += (divisors[d] - shape[d] % divisors[d]) % divisors[d];
  }
  for (std::size_t d = 0; d < dimensions; ++d) {
    const std::int64_t more = divisors[d] * pick(random, 0, 2 * shape[d] / divisors[d]);
    if (naive::product(shape) / shape[d] * (shape[d] + more) <= most_elements) shape[d] += more;
  }
  return shape;
}

void fill_lengths(Random& random, const naive::Numbers& shape, naive::Layout& layout) {
  for (std::size_t d = 0; d < layout.splits.size(); ++d) {
    naive::Numbers& lengths = layout.splits[d].lengths;
    if (lengths.empty()) continue;
    const std::int64_t unit = naive::units(layout)[d];
    std::fill(lengths.begin(), lengths.end(), unit);
    const auto last = static_cast<std::int64_t>(lengths.size()) - 1;
    for (std::int64_t left = shape[d] - unit * (last + 1); left > 0;) {
      // Large steps make some parts much longer than others.
      const std::int64_t more = pick(random, 1, left / unit) * unit;
      lengths[static_cast<std::size_t>(pick(random, 0, last))] += more;
      left -= more;
    }
  }
}

}  // namespace property
