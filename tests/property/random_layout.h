// SPDX-License-Identifier: Apache-2.0
/// Random layouts, and the shapes that fit them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>

#include "naive.h"

namespace property {

using Random = std::mt19937_64;

/// Uniform in [low, high].
std::int64_t pick(Random& random, std::int64_t low, std::int64_t high);

/// True once in `count` times.
bool one_in(Random& random, std::int64_t count);

/// `devices` as a product of one to four axes.
naive::Numbers random_matrix(Random& random, std::int64_t devices);

/// What MindSpore's files can say: cuts of dimension 0 by fields or into given lengths too.
naive::Layout random_layout(Random& random, std::int64_t devices, std::size_t dimensions);

/// What rules can say: one device matrix for all, uneven cuts of any dimension, and an optimizer's
/// cut only where it can be shared out equally.
naive::Layout random_rule_layout(Random& random, const naive::Numbers& matrix,
                                 std::size_t dimensions);

using ByStage = std::map<std::size_t, naive::Layout>;

/// A small shape that all layouts fit.
naive::Numbers random_shape(Random& random, const ByStage& src, const ByStage& dst,
                            std::size_t dimensions, std::int64_t most_elements);

/// Chooses the lengths of parts that random layouts leave open.
void fill_lengths(Random& random, const naive::Numbers& shape, naive::Layout& layout);

}  // namespace property
