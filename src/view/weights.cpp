// SPDX-License-Identifier: Apache-2.0
#include "view/weights.h"

#include "base/text/state_names.h"

namespace reshardfs {

TakesParameter weights_alone(const ViewContext& context) {
  return [states = context.model.states,
          prefixes = context.model.state_prefixes](const TargetParameter& parameter) {
    return !states->contains(parameter.source->name) &&
           !is_training_state(parameter.source->name, prefixes);
  };
}

}  // namespace reshardfs
