// SPDX-License-Identifier: Apache-2.0
#include "check/diff.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/text/state_names.h"
#include "conversion/unmatched_selectors.h"
#include "plan/target/shown_elements.h"
#include "plan/target/shown_tensor.h"
#include "view/tensor_set.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kDiffBlockBytes = 1U << 20U;

/// A parameter with a name on at least one side.
struct Pair {
  std::string name;
  const SourceParameter* a = nullptr;
  const SourceParameter* b = nullptr;
};

/// What is compared. A side may state what its states are, and the other one not know it.
NameFilter filter_of(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
  NameFilter filter = options.names;
  for (const DiffSide* side : {&a, &b}) {
    const std::vector<std::string>& more = side->state_prefixes();
    filter.state_prefixes.insert(filter.state_prefixes.end(), more.begin(), more.end());
  }
  return filter;
}

std::vector<Pair> pairs_of(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
  std::vector<Pair> pairs;
  std::set<std::string> seen;
  const NameFilter filter = filter_of(a, b, options);
  for (const SourceParameter& parameter : a.table().parameters()) {
    const std::string& name = options.name_map.target(parameter.name);
    if (!filter.takes(name)) continue;
    if (!seen.insert(name).second) {
      throw Error(ErrorKind::kBadInput, "the name map gives two parameters of A this name")
          .for_parameter(name);
    }
    pairs.push_back({name, &parameter, b.table().find(name)});
  }
  for (const SourceParameter& parameter : b.table().parameters()) {
    if (!filter.takes(parameter.name) || seen.contains(parameter.name)) continue;
    pairs.push_back({parameter.name, nullptr, &parameter});
  }
  return pairs;
}

bool is_empty(const SourceParameter& parameter) {
  if (parameter.grid && parameter.grid->mapped() != nullptr) {
    return element_count(parameter.grid->full_shape()) == 0;
  }
  return is_array(parameter.dtype) &&
         std::all_of(parameter.holders.begin(), parameter.holders.end(),
                     [](const Holding& holder) { return holder.entry->content_bytes == 0; });
}

bool holds_no_empty_parameters(const DiffSide& side) {
  return side.table().checkpoint().format().name == "ckpt";
}

std::uint64_t size_of(const SourceParameter& parameter) {
  if (!parameter.grid) return parameter.holders.front().entry->content_bytes;
  return ShownTensor(parameter.grid).size();
}

class Comparison {
 public:
  Comparison(const DiffSide& a, const DiffSide& b, const DiffOptions& options, Progress& progress)
      : a_(a), b_(b), options_(options), progress_(progress) {}

  std::vector<ParameterDiff> compare(const Pair& pair) const;

 private:
  /// A whole tensor in the type in which it is shown, which a map may have cast it to.
  struct Whole {
    CellGridPtr grid;
    DType dtype = DType::kFloat32;

    Whole() = default;
    explicit Whole(CellGridPtr shown) : Whole(shown, shown->dtype()) {}
    Whole(CellGridPtr shown, DType type) : grid(std::move(shown)), dtype(type) {}
    Tensor tensor(const std::string& name) const {
      // The sides have what the grid points into.
      return TensorAccess::whole(
          std::make_shared<const TensorElements>(name, ShownElements(ShownTensor(grid), dtype),
                                                 nullptr, std::make_shared<ForeseenFile>()));
    }
  };

  static ParameterDiff describe(const std::string& name, const Whole& a, const Whole& b);
  ParameterDiff only_one(const Pair& pair) const;
  ParameterDiff compare_wholes(const std::string& name, const Whole& a, const Whole& b) const;
  std::vector<ParameterDiff> compare_ranks(const Pair& pair) const;
  void compare_values(const Tensor& a, const Tensor& b, ParameterDiff& result) const;

  const DiffSide& a_;
  const DiffSide& b_;
  const DiffOptions& options_;
  Progress& progress_;
};

ParameterDiff Comparison::describe(const std::string& name, const Whole& a, const Whole& b) {
  ParameterDiff result;
  result.name = name;
  if (a.grid) {
    result.a_type = a.dtype;
    result.a_shape = a.grid->full_shape();
  }
  if (b.grid) {
    result.b_type = b.dtype;
    result.b_shape = b.grid->full_shape();
  }
  return result;
}

/// Its data is not read, so where its ranks differ the first one's shape is as good as any.
ParameterDiff Comparison::only_one(const Pair& pair) const {
  const SourceParameter& parameter = pair.a != nullptr ? *pair.a : *pair.b;
  const Whole whole(parameter.grid ? parameter.grid : single_cell_grid(parameter.holders.front()),
                    parameter.dtype);
  const bool in_a = pair.a != nullptr;
  ParameterDiff result = describe(pair.name, in_a ? whole : Whole(), in_a ? Whole() : whole);
  result.status = in_a ? DiffStatus::kOnlyInA : DiffStatus::kOnlyInB;
  if (is_empty(parameter) && holds_no_empty_parameters(in_a ? b_ : a_)) {
    result.status = DiffStatus::kEqual;
  }
  return result;
}

std::vector<ParameterDiff> Comparison::compare(const Pair& pair) const {
  if (pair.a == nullptr || pair.b == nullptr) return {only_one(pair)};
  const CellGridPtr a = a_.whole(*pair.a);
  const CellGridPtr b = b_.whole(*pair.b);
  if (!a || !b) return compare_ranks(pair);
  return {compare_wholes(pair.name, {a, pair.a->dtype}, {b, pair.b->dtype})};
}

ParameterDiff Comparison::compare_wholes(const std::string& name, const Whole& a,
                                         const Whole& b) const {
  ParameterDiff result = describe(name, a, b);
  if (!can_compare(a.dtype, b.dtype)) {
    result.status = DiffStatus::kType;
  } else if (a.grid->full_shape() != b.grid->full_shape()) {
    result.status = DiffStatus::kShape;
  } else {
    compare_values(a.tensor(name), b.tensor(name), result);
    if (result.tally.different > 0) {
      result.status = DiffStatus::kDifferent;
    } else if (options_.strict_types && result.types_differ()) {
      result.status = DiffStatus::kType;
    }
  }
  return result;
}

bool has_boxes(const SourceParameter& parameter) {
  return parameter.grid && parameter.grid->boxes() != nullptr;
}

/// Each rank's own parameter with that of the same rank, if both sides have the same ranks. Boxes
/// belong to no rank.
std::vector<ParameterDiff> Comparison::compare_ranks(const Pair& pair) const {
  const std::vector<Holding> a(pair.a->holders.begin(), pair.a->holders.end());
  const std::vector<Holding> b(pair.b->holders.begin(), pair.b->holders.end());
  const bool same_ranks =
      !has_boxes(*pair.a) && !has_boxes(*pair.b) &&
      std::equal(a.begin(), a.end(), b.begin(), b.end(),
                 [](const Holding& x, const Holding& y) { return x.file->rank == y.file->rank; });
  std::vector<ParameterDiff> results;
  for (std::size_t i = 0; same_ranks && i < a.size(); ++i) {
    results.push_back(
        compare_wholes(pair.name, Whole(single_cell_grid(a[i])), Whole(single_cell_grid(b[i]))));
    results.back().rank = a[i].file->rank;
  }
  if (!same_ranks) {
    const auto shown = [](const SourceParameter& parameter) {
      return Whole(has_boxes(parameter) ? parameter.grid
                                        : single_cell_grid(parameter.holders.front()));
    };
    results.push_back(describe(pair.name, shown(*pair.a), shown(*pair.b)));
    results.back().status = DiffStatus::kPerRank;
  }
  return results;
}

void Comparison::compare_values(const Tensor& a, const Tensor& b, ParameterDiff& result) const {
  const auto a_size = static_cast<std::uint64_t>(element_size(*result.a_type));
  const auto b_size = static_cast<std::uint64_t>(element_size(*result.b_type));
  const std::uint64_t elements = a.bytes() / a_size;
  const std::uint64_t block = std::min(elements, kDiffBlockBytes / std::max(a_size, b_size));
  std::vector<std::byte> left(block * a_size);
  std::vector<std::byte> right(block * b_size);
  for (std::uint64_t done = 0; done < elements; done += block) {
    const std::uint64_t part = std::min(block, elements - done);
    a.read(done * a_size, std::span(left).first(part * a_size));
    b.read(done * b_size, std::span(right).first(part * b_size));
    compare_elements({*result.a_type, left.data()}, {*result.b_type, right.data()}, part, done,
                     options_.tolerance, result.tally);
    progress_.add_bytes(part * (a_size + b_size));
  }
}

}  // namespace

const char* name_of(DiffStatus status) noexcept {
  switch (status) {
    case DiffStatus::kEqual:
      return "equal";
    case DiffStatus::kDifferent:
      return "different";
    case DiffStatus::kOnlyInA:
      return "only in A";
    case DiffStatus::kOnlyInB:
      return "only in B";
    case DiffStatus::kShape:
      return "other shape";
    case DiffStatus::kType:
      return "other type";
    case DiffStatus::kPerRank:
      return "per rank";
  }
  return "";
}

std::vector<std::int64_t> index_tuple(std::uint64_t flat, const Shape& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto length = static_cast<std::uint64_t>(shape[d]);
    index[d] = static_cast<std::int64_t>(flat % length);
    flat /= length;
  }
  return index;
}

UnmatchedOptions unmatched_in(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
  const std::vector<std::string> names = names_in(a.table());
  std::vector<std::string> compared = renamed(names, options.name_map);
  for (std::string& name : names_in(b.table())) compared.push_back(std::move(name));
  if (options.names.weights_only) {
    // What a map has not been asked to show.
    for (const DiffSide* side : {&a, &b}) {
      for (std::string& name : names_in(side->table().checkpoint())) {
        if (is_training_state(name, side->state_prefixes())) compared.push_back(std::move(name));
      }
    }
  }
  UnmatchedOptions unmatched;
  unmatched.add_globs("--include", options.names.include, compared);
  unmatched.add_globs("--exclude", options.names.exclude, compared);
  add_unmatched_names(options.name_map, options.name_map_file, names, unmatched);
  return unmatched;
}

std::vector<ParameterDiff> diff(const DiffSide& a, const DiffSide& b, const DiffOptions& options,
                                Progress& progress) {
  const std::vector<Pair> pairs = pairs_of(a, b, options);
  if (pairs.empty()) {
    throw Error(ErrorKind::kUsage, "no parameter is left to compare")
        .hint("check --include, --exclude, --weights-only, --a-drop and --b-drop");
  }
  for (const Pair& pair : pairs) {
    if (pair.a != nullptr && pair.b != nullptr) {
      progress.expect_bytes(size_of(*pair.a) + size_of(*pair.b));
    }
  }
  const Comparison comparison(a, b, options, progress);
  std::vector<std::vector<ParameterDiff>> results(pairs.size());
  parallel_for(
      pairs.size(), [&](std::size_t i) { results[i] = comparison.compare(pairs[i]); },
      options.jobs);
  std::vector<ParameterDiff> out;
  for (auto& list : results) {
    std::move(list.begin(), list.end(), std::back_inserter(out));
  }
  return out;
}

}  // namespace reshardfs
