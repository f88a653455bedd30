// SPDX-License-Identifier: Apache-2.0
#include "check/verify_quantized.h"

#include <algorithm>

#include "reshardfs/error.h"

#include "checkpoint/quantized/dequantize.h"

namespace reshardfs {

void check_quantized(const CheckpointSet& set,
                     const std::function<bool(const std::string& name)>& takes,
                     VerifyReport& report) {
  QuantizedModel model;
  try {
    model = quantized_model(set.files(), set.completeness().config, nullptr);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return;  // a method that is not known says nothing of the files
  }
  for (const ModelParts::Shown& shown : model.weights) {
    report.quantized += takes(shown.weight.codes.name) ? 1U : 0U;
  }
  for (const auto& [why, names] : model.refused) {
    if (model.forms.contains(why)) continue;
    for (const std::string& name : names) {
      if (!takes(name)) continue;
      Problem problem;
      problem.kind = ProblemKind::kShape;
      problem.parameter = name;
      problem.message = "does not fit the quantization that " + model.file + " states: " + why;
      report.problems.push_back(std::move(problem));
    }
  }
}

}  // namespace reshardfs
