// SPDX-License-Identifier: Apache-2.0
#include "modelmap/requirement.h"

#include <algorithm>

#include "reshardfs/error.h"

namespace reshardfs::modelmap {
namespace {

/// "groups is 2, tp is 4": what names stand for, as far as they are known.
std::string values_text(const Expression& expression, const Scope& scope) {
  std::string text;
  for (const std::string& name : expression.names()) {
    if (!scope.is_known(name)) continue;
    text += (text.empty() ? ", and " : ", ") + name + " is " + std::to_string(scope.value(name));
  }
  return text;
}

/// @param unknown a name that has no value; empty: the condition is false.
[[noreturn]] void refuse(const Requirement& requirement, const Scope& scope,
                         const std::string& tensor, const std::string& unknown) {
  const std::string detail = "the rule requires '" + requirement.that->text() + "'" +
                             values_text(*requirement.that, scope);
  std::string message = printable(tensor) + ": ";
  if (!unknown.empty()) message += "unknown variable '" + unknown + "': ";
  message += requirement.say.empty() ? detail : printable(requirement.say) + " (" + detail + ")";
  throw Error(ErrorKind::kBadInput, message);
}

}  // namespace

std::vector<std::string> names_in(const Requirements& requirements) {
  std::vector<std::string> names;
  for (const Requirement& requirement : requirements) {
    const std::vector<std::string>& more = requirement.that->names();
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

void check_requirements(const Requirements& requirements, const Scope& scope,
                        const std::string& tensor, const std::set<std::string>& unbound) {
  for (const Requirement& requirement : requirements) {
    const std::vector<std::string>& names = requirement.that->names();
    const bool is_for_later = std::any_of(names.begin(), names.end(), [&](const auto& name) {
      return unbound.contains(name) && !scope.is_known(name);
    });
    if (is_for_later) continue;
    std::string unknown;
    const std::int64_t value = requirement.that->evaluate([&](const std::string& name) {
      // The value does not matter then: whatever follows from it is refused.
      if (scope.is_known(name)) return scope.value(name);
      unknown = name;
      return std::int64_t{1};
    });
    if (!unknown.empty() || value == 0) refuse(requirement, scope, tensor, unknown);
  }
}

}  // namespace reshardfs::modelmap
