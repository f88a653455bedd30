// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/strategy.h"

#include "fuzz/fuzzing.h"
#include "strategy/files/strategy_file.h"

using namespace reshardfs;

namespace {

Strategy read(const char* name, const std::string& bytes) {
  return strategy_of_file(name, parse_strategy_file(name, bytes));
}

void require_same(const Strategy& a, const Strategy& b) {
  fuzz::require(a.stage_count() == b.stage_count(), "another number of stages");
  for (std::int64_t stage = 0; stage < a.stage_count(); ++stage) {
    for (const auto& [name, layout] : a.stage(stage)) {
      const auto found = b.stage(stage).find(name);
      fuzz::require(found != b.stage(stage).end(), "a parameter is lost");
      fuzz::require(found->second.device_matrix == layout.device_matrix &&
                        found->second.tensor_map == layout.tensor_map &&
                        found->second.optimizer_shard_size == layout.optimizer_shard_size,
                    "another layout");
    }
  }
}

}  // namespace

/// The first byte chooses between protobuf and JSON. What has been read is written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const char* name = data[0] % 2 == 0 ? "strategy.ckpt" : "strategy.json";
  fuzz::may_refuse([&] {
    const Strategy strategy = read(name, bytes);
    std::string text;
    // Names that are not UTF-8 have no JSON.
    if (fuzz::may_refuse([&] { text = to_json(strategy); })) {
      require_same(strategy, read("again.json", text));
    }
    // Nested maps have no protobuf.
    if (fuzz::may_refuse([&] { text = to_protobuf(strategy); })) {
      require_same(strategy, read("again.ckpt", text));
    }
  });
  return 0;
}
