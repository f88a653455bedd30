// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzzing.h"
#include "strategy/rules/rules_apply.h"
#include "strategy/rules/rules_document.h"

using namespace reshardfs;

namespace {

const std::vector<NamedShape> kParameters{{"model.embed.weight", {64, 16}},
                                          {"model.layers.0.wq.weight", {16, 16}},
                                          {"model.layers.1.wq.weight", {16, 16}},
                                          {"model.layers.11.ffn.w1", {32, 16, 8}},
                                          {"adam_m.model.embed.weight", {64, 16}},
                                          {"learning_rate", {}},
                                          {"lm_head.bias", {64}}};

}  // namespace

/// What rules say of parameters, they say again when they are written from it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kMaxRulesBytes) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::may_refuse([&] {
    const Strategy strategy = apply_rules(read_rules("rules.toml", text), kParameters);
    // Larger ones take their time, which is no hang.
    if (strategy.stage_count() * strategy.devices_per_stage() > 256) return;
    std::string written;
    if (!fuzz::may_refuse([&] { written = to_rules(strategy); })) return;
    const Strategy again = apply_rules(read_rules("written.toml", written), kParameters);
    fuzz::require(again.stage_count() == strategy.stage_count(), "another number of stages");
    fuzz::require(again.devices_per_stage() == strategy.devices_per_stage(), "other devices");
  });
  return 0;
}
