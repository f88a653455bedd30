// SPDX-License-Identifier: Apache-2.0
/// Assertions of rules: `require = "groups % tp == 0"`.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "modelmap/expression.h"
#include "modelmap/scope.h"

namespace reshardfs::modelmap {

struct Requirement {
  std::shared_ptr<const Expression> that{};
  std::string say{};  ///< words for the user; perhaps none
};

using Requirements = std::vector<Requirement>;

/// The names that the conditions mention, perhaps several times.
std::vector<std::string> names_in(const Requirements& requirements);

/// Checks assertions for one tensor, which messages name.
/// @param unbound names that need no value yet: what mentions an unknown one of them is left out.
/// @throws Error kBadInput with the words, the condition and the values in it, if one is false;
///         UnknownVariable if one has an unknown name.
void check_requirements(const Requirements& requirements, const Scope& scope,
                        const std::string& tensor, const std::set<std::string>& unbound = {});

}  // namespace reshardfs::modelmap
