// SPDX-License-Identifier: Apache-2.0
#include "conversion/derived_fit.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "layout/fold.h"
#include "layout/slicing.h"

namespace reshardfs {
namespace {

using StrategyFor = std::function<std::optional<Strategy>(const DerivedSizes& sizes)>;

/// More numbers than anybody would try.
constexpr std::size_t kMostShown = 8;

/// "tp" or "mp", as the user has written it; empty if the sizes do not say.
std::string tensor_key(const DerivedSizes& sizes) {
  std::istringstream items(sizes.text);
  for (std::string item; std::getline(items, item, ',');) {
    const std::size_t begin = std::min(item.find_first_not_of(' '), item.size());
    for (const char* key : {"tp", "mp"}) {
      if (item.compare(begin, 2, key) == 0) return key;
    }
  }
  return "";
}

DerivedSizes with_tensor_size(const DerivedSizes& sizes, std::int64_t size) {
  const std::string key = tensor_key(sizes);
  std::string out;
  std::istringstream items(sizes.text);
  for (std::string item; std::getline(items, item, ',');) {
    const std::size_t begin = std::min(item.find_first_not_of(' '), item.size());
    if (!out.empty()) out += ",";
    out += item.compare(begin, 2, key) == 0 ? key + "=" + std::to_string(size) : item;
  }
  return parse_derivation(out);
}

/// Whether the tensor axis cuts a dimension in equal parts.
bool is_cut_evenly(const Layout& layout, std::size_t dimension) {
  if (dimension >= layout.tensor_map.size() || layout.tensor_map[dimension].empty()) return false;
  if (dimension < layout.uneven.size() && layout.uneven[dimension] != DimensionSplit{})
    return false;
  return dimension > 0 || (layout.field == 0 && layout.param_split_shape.empty());
}

class Fit {
 public:
  Fit(const SourceTable& source, const TargetOptions& target, const StrategyFor& strategy_for)
      : source_(source),
        names_(target.name_map),
        filter_(target.names),
        strategy_for_(strategy_for) {}

  std::optional<Strategy> derived(const DerivedSizes& sizes) const { return strategy_for_(sizes); }

  /// Calls visit(layout, full shape) for each stage of each parameter that a strategy lays out.
  template <typename Visit>
  void for_each_layout(const Strategy& strategy, Visit&& visit) const {
    for (const SourceParameter& parameter : source_.parameters()) {
      const std::string& name = names_.target(parameter.name);
      if (!parameter.grid || !takes(filter_, names_, parameter.name)) continue;
      for (const std::int64_t stage : strategy.stages_of(name)) {
        visit(strategy.stage(stage).at(name), parameter.grid->full_shape());
      }
    }
  }

  /// The greatest number that divides all dimensions that a strategy cuts evenly.
  std::int64_t common_divisor(const Strategy& strategy) const {
    std::int64_t divisor = 0;
    for_each_layout(strategy, [&](const Layout& layout, const Shape& full) {
      for (std::size_t d = 0; d < full.size(); ++d) {
        if (is_cut_evenly(layout, d)) divisor = std::gcd(divisor, full[d]);
      }
    });
    return divisor;
  }

  bool fits(const DerivedSizes& sizes) const {
    std::vector<std::pair<Layout, Shape>> seen;
    try {
      const std::optional<Strategy> strategy = derived(sizes);
      for_each_layout(*strategy, [&](const Layout& layout, const Shape& full) {
        constexpr std::size_t kMostKinds = 256;
        const std::pair<Layout, Shape> kind{layout, full};
        if (std::find(seen.begin(), seen.end(), kind) != seen.end()) return;
        static_cast<void>(Slicing(fold_expanded(layout, full, /*is_slice=*/false), full));
        if (seen.size() < kMostKinds) seen.push_back(kind);
      });
      return true;
    } catch (const Error&) {
      return false;
    }
  }

 private:
  const SourceTable& source_;
  const NameMap& names_;
  const NameFilter& filter_;
  const StrategyFor& strategy_for_;
};

/// "2, 4 and 8 fit every parameter"
std::string numbers_that_fit(const Fit& fit, const DerivedSizes& sizes, std::int64_t divisor) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t number = 2; number <= divisor && numbers.size() < kMostShown; ++number) {
    if (divisor % number == 0 && fit.fits(with_tensor_size(sizes, number))) {
      numbers.push_back(number);
    }
  }
  if (numbers.empty()) return "no " + tensor_key(sizes) + " above 1 fits every parameter";
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool last = i + 1 == numbers.size();
    if (i > 0) text += last && numbers.size() < kMostShown ? " and " : ", ";
    text += std::to_string(numbers[i]);
  }
  if (numbers.size() == kMostShown) text += ", ...";
  return text + (numbers.size() == 1 ? " fits" : " fit") + " every parameter";
}

}  // namespace

Error misfit_of_sizes(const Error& error, const DerivedSizes& sizes, const SourceTable& source,
                      const TargetOptions& target, const StrategyFor& strategy_for) {
  const std::optional<std::int64_t> tensor = sizes.tensor;
  const SourceParameter* parameter = source.find(error.parameter());
  if (!tensor || parameter == nullptr || !parameter->grid) return error;
  const Fit fit(source, target, strategy_for);
  const std::optional<Strategy> strategy = fit.derived(sizes);
  const std::string& name = target.name_map.target(parameter->name);
  const Shape& full = parameter->grid->full_shape();
  for (const std::int64_t stage : strategy->stages_of(name)) {
    const Layout& layout = strategy->stage(stage).at(name);
    for (std::size_t d = 0; d < full.size(); ++d) {
      if (!is_cut_evenly(layout, d) || full[d] % *tensor == 0) continue;
      return Error(ErrorKind::kBadInput, tensor_key(sizes) + "=" + std::to_string(*tensor) +
                                             " does not divide " + std::to_string(full[d]) +
                                             ", dimension " + std::to_string(d) + " of its shape " +
                                             to_string(full))
          .for_parameter(parameter->name)
          .hint(numbers_that_fit(fit, sizes, fit.common_divisor(*strategy)));
    }
  }
  return error;
}

}  // namespace reshardfs
