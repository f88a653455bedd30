// SPDX-License-Identifier: Apache-2.0
/// model.safetensors.index.json that is cut anywhere, or has any bit flipped, beside intact files.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_set.h"
#include "support/checkpoint.h"
#include "support/temp_dir.h"
#include "tally.h"
#include "unit/format/safetensors_samples.h"

namespace reshardfs::damage {
namespace {

using test::safetensors_file;
using test::tensor_json;

// Names that are one bit from each other: a flipped bit may give a name that is there already.
constexpr const char* kMap = R"({"metadata": {"total_size": 12},
 "weight_map": {"w3": "model-2.safetensors", "w1": "model-0.safetensors",
                "v": "model-0.safetensors"}})";

class DamagedNameMap : public ::testing::Test {
 protected:
  DamagedNameMap() {
    directory_.write("model-0.safetensors",
                     safetensors_file("{" + tensor_json("w1", "F32", "[1]", 0, 4) + "," +
                                          tensor_json("v", "I16", "[2]", 4, 8) + "}",
                                      "abcdefgh"));
    directory_.write("model-2.safetensors",
                     safetensors_file("{" + tensor_json("w3", "F32", "[1]", 0, 4) + "}", "ijkl"));
  }
  Parameters read(const std::string& map) const {
    directory_.write("model.safetensors.index.json", map);
    return read_whole(std::make_shared<const CheckpointSet>(
        CheckpointSet::open(directory_.path(), CheckpointOptions{})));
  }

 private:
  test::TempDir directory_;
};

TEST_F(DamagedNameMap, EveryCutIsRefused) {
  const Parameters intact = read(kMap);
  ASSERT_EQ(intact.size(), 3U);
  Tally tally("cuts of model.safetensors.index.json", {});
  each_cut(kMap, [&](const std::string& cut, const std::string& where) {
    tally.add(where, [&] { return kind_of_change(intact, read(cut)); });
  });
  EXPECT_EQ(tally.refused(), std::string(kMap).size());
}

TEST_F(DamagedNameMap, EveryFlippedBitIsRefusedOrHarmless) {
  const Parameters intact = read(kMap);
  Tally tally("bits of model.safetensors.index.json", {});
  each_flip(kMap, {}, [&](const auto& flipped, const auto& where, std::size_t) {
    tally.add(where, [&] { return kind_of_change(intact, read(flipped)); });
  });
  EXPECT_GT(tally.refused(), tally.total() / 2);
}

}  // namespace
}  // namespace reshardfs::damage
