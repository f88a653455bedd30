// SPDX-License-Identifier: Apache-2.0
#include "modelmap/requirement.h"

#include <algorithm>
#include <cctype>

#include "reshardfs/error.h"

namespace reshardfs::modelmap {
namespace {

/// "groups is 2, tp is 4": what names stand for, as far as they are known.
std::string values_text(const Expression& expression, const Scope& scope) {
  std::string text;
  for (const std::string& name : expression.names()) {
    if (!scope.is_known(name)) continue;
    text += (text.empty() ? ", and " : ", ") + name + " is " + scope.words_of(name);
  }
  return text;
}

std::string detail_of(const Requirement& requirement, const Scope& scope) {
  return "the rule requires '" + requirement.that->text() + "'" +
         values_text(*requirement.that, scope);
}

[[noreturn]] void refuse(const Requirement& requirement, const Scope& scope,
                         const std::string& tensor) {
  const std::string detail = detail_of(requirement, scope);
  throw Error(
      ErrorKind::kBadInput,
      printable(tensor) + ": " +
          (requirement.say.empty() ? detail : printable(requirement.say) + " (" + detail + ")"));
}

/// Whether a text has a name as a word.
bool has_word(const std::string& text, const std::string& name) {
  const auto is_part = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_part(text[at - 1])) && (end == text.size() || !is_part(text[end]))) {
      return true;
    }
  }
  return false;
}

/// The words of the assertion count if they are about the variable that is unknown.
[[noreturn]] void refuse_unknown(const Requirement& requirement, const Scope& scope,
                                 const std::string& tensor, const std::string& unknown) {
  const std::string detail = " (" + detail_of(requirement, scope) + ")";
  if (has_word(requirement.say, unknown)) {
    throw UnknownVariable(printable(tensor) + ": unknown variable '" + unknown +
                              "': " + printable(requirement.say) + detail,
                          unknown);
  }
  try {
    static_cast<void>(scope.value(unknown));
  } catch (const Error& error) {
    throw UnknownVariable(printable(tensor) + ": " + error.message() + detail, unknown);
  }
  throw Error(ErrorKind::kInternal, "'" + unknown + "' is known");
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
    NameLookup lookup = scope.lookup();
    lookup.value = [&](const std::string& name) {
      // The value does not matter then: whatever follows from it is refused.
      if (scope.is_known(name)) return scope.value(name);
      if (unknown.empty()) unknown = name;
      return std::int64_t{1};
    };
    const std::int64_t value = requirement.that->evaluate(lookup);
    if (!unknown.empty()) refuse_unknown(requirement, scope, tensor, unknown);
    if (value == 0) refuse(requirement, scope, tensor);
  }
}

}  // namespace reshardfs::modelmap
