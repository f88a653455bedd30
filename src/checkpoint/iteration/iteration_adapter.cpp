// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/iteration/iteration_adapter.h"

#include <cstdint>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/text/text.h"
#include "storage/small_file.h"

namespace reshardfs {

std::string adapter_of_iteration(const std::filesystem::path& file, const SourceTreePtr& tree) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20U;
  const auto config = JsonDocument::parse(read_small_file(file, kMostBytes, tree));
  if (!config) {
    throw Error(ErrorKind::kBadInput, "it is no JSON, though it says that the set is an adapter")
        .in_file(file.string());
  }
  const auto base = config->value().find("base_load_path");
  const auto path = base ? base->text() : std::nullopt;
  return path && !path->empty() ? "a LoRA adapter of '" + printable(std::string(*path)) + "'"
                                : std::string("a LoRA adapter of a model that it does not name");
}

}  // namespace reshardfs
