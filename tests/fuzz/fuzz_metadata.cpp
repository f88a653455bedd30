// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>

#include "format/mindformers/iteration_metadata.h"
#include "format/mindformers/shard_id.h"
#include "fuzz/fuzzing.h"
#include "support/sources.h"

using namespace reshardfs;

namespace {

using fuzz::require;

void check(const RecordedParameter& parameter, std::size_t files) {
  const std::vector<RecordedSlice>& slices = *parameter.slices;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    require(i == 0 || slices[i - 1].number < slices[i].number, "slices are not in order");
    for (const StoredShard& stored : *slices[i].stored)
      require(stored.file < files, "a file that is none");
  }
  if (parameter.layout == nullptr) return;
  const RecordedLayout& layout = *parameter.layout;
  std::size_t places = 1;
  for (const std::int64_t size : layout.device_matrix) places *= static_cast<std::size_t>(size);
  require(places == layout.ranks.size(), "not as many ranks as places");
  require(std::set(layout.ranks.begin(), layout.ranks.end()).size() == places, "a rank twice");
  std::set<int> used;
  for (const auto& axes : layout.tensor_map) {
    for (const int axis : axes) {
      require(axis >= 0 && static_cast<std::size_t>(axis) < layout.device_matrix.size(),
              "an axis that is none");
      require(used.insert(axis).second, "an axis twice");
    }
  }
}

}  // namespace

/// The input is a metadata.json, or (first byte odd) the key of a shard.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) {
    const auto id = parse_shard_id(bytes);
    require(!id || (!id->name.empty() && !id->numbers.empty()), "an empty shard");
    return 0;
  }
  const test::MemorySource source(bytes, "metadata.json");
  fuzz::may_refuse([&] {
    const IterationMetadata found = read_iteration_metadata(source);
    std::set<std::string> names;
    for (const RecordedParameter& parameter : found.parameters) {
      require(names.insert(parameter.name).second, "a name twice");
      check(parameter, found.files.size());
    }
    for (const std::string& file : found.files)
      require(file.find('/') == std::string::npos, "a path");
  });
  return 0;
}
