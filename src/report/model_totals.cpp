// SPDX-License-Identifier: Apache-2.0
#include "report/model_totals.h"

#include "report/page_data.h"

namespace reshardfs {

ModelTotals model_totals(const TargetTable& target, const std::vector<Rank>& ranks,
                         const ParameterRoles& roles) {
  ModelTotals totals;
  for (const TargetParameter& parameter : target.parameters()) {
    const bool of_optimizer = roles.is_of_optimizer(parameter);
    const std::uint64_t bytes = full_bytes(target, parameter, ranks);
    ModelTotals::OfType& type = totals.by_type[std::string(mindspore_name(parameter.dtype))];
    for (ModelTotals::OfType* sum : {&type, &totals.all}) {
      ModelTotals::Share& share = of_optimizer ? sum->optimizer : sum->weights;
      ++share.parameters;
      share.bytes += bytes;
    }
  }
  return totals;
}

}  // namespace reshardfs
