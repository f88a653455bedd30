// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plan/target/target_table.h"

namespace reshardfs {

/// Which parameters are weights, and which only training needs: by their names.
class ParameterRoles {
 public:
  ParameterRoles() = default;
  /// @param state_prefixes see weight_of().
  /// @param mapped_states names of optimizer states that model maps show; may be nullptr.
  ParameterRoles(std::vector<std::string> state_prefixes,
                 std::shared_ptr<const std::set<std::string>> mapped_states)
      : state_prefixes_(std::move(state_prefixes)), mapped_states_(std::move(mapped_states)) {}

  /// Whether it is an optimizer's state, or a counter of the training such as global_step.
  bool is_of_optimizer(const TargetParameter& parameter) const;

 private:
  std::vector<std::string> state_prefixes_;
  std::shared_ptr<const std::set<std::string>> mapped_states_;
};

}  // namespace reshardfs
