// SPDX-License-Identifier: Apache-2.0
#include "modelmap/family_counts.h"

#include <algorithm>

#include "reshardfs/error.h"

namespace reshardfs::modelmap {
namespace {

/// Where the value of an expression comes from, for a message.
std::string origin_of(const Expression& expression, const Variables& variables) {
  const std::set<std::string> names = variables.with_dependencies(expression.names());
  const bool is_given = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return variables.given.contains(name);
  });
  const std::string from = names.contains(kLayerPattern) ? "the hybrid layer pattern"
                           : names.empty()               ? "the map"
                           : is_given                    ? "--map-var"
                                                         : "config.json";
  return "'" + expression.text() + "' of " + from;
}

}  // namespace

void state_count(const ModelMap& map, const Variables& variables, const std::string& capture,
                 const Expression* range, Count& count) {
  const Scope scope(variables);
  const auto try_one = [&](const Expression& expression) {
    const auto& names = expression.names();
    const bool is_known = std::all_of(
        names.begin(), names.end(), [&](const std::string& name) { return scope.is_known(name); });
    if (!is_known || count.stated) return;
    const std::int64_t value = scope.evaluate(expression);
    if (value < 0) return;
    count.stated = value;
    count.origin = origin_of(expression, variables);
  };
  const auto declared = map.family.counts.find(capture);
  const bool has_range = range != nullptr && !map.family.counts.empty();
  count.is_declared = declared != map.family.counts.end() || has_range;
  try {
    if (declared != map.family.counts.end()) {
      for (const Expression& expression : declared->second) try_one(expression);
    }
    if (has_range) try_one(*range);
  } catch (const Error&) {
    // A variable that cannot be evaluated is refused where a rule needs it.
  }
}

std::string numbers_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (end - i == 2) text += ", " + std::to_string(numbers[i + 1]);
    if (end - i > 2) text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace reshardfs::modelmap
