// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/target/target_table.h"
#include "report/bounded_writer.h"
#include "report/page.h"
#include "report/parameter_role.h"

namespace reshardfs {

/// Bytes of full tensors, each once, in the target's types.
struct ModelTotals {
  struct Share {
    std::uint64_t parameters = 0;
    std::uint64_t bytes = 0;
  };
  struct OfType {
    Share weights;
    Share optimizer;
  };
  std::map<std::string, OfType> by_type;  ///< by MindSpore's name
  OfType all;
};

ModelTotals model_totals(const TargetTable& target, const std::vector<Rank>& ranks,
                         const ParameterRoles& roles);

/// Writes a page's section on sizes: what each element type takes, weights and optimizer apart, and
/// the files of each target rank.
void write_sizes(const ReportSubject& subject, BoundedWriter& out);

}  // namespace reshardfs
