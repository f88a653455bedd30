// SPDX-License-Identifier: Apache-2.0
/// Safetensors files that are cut anywhere, or have any bit of the header flipped.
#include "format/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include "support/checkpoint.h"
#include "support/sources.h"
#include "tally.h"
#include "unit/format/safetensors_samples.h"

namespace reshardfs::damage {
namespace {

using test::MemorySource;
using test::safetensors_file;
using test::tensor_json;

constexpr std::size_t kDataBytes = 104;

std::string sample_file() {
  return safetensors_file(R"({"__metadata__":{"format":"ms","q":"Int4"},)" +
                              tensor_json("层.weight", "F32", "[3,5]", 0, 60) + "," +
                              tensor_json("step", "I32", "[]", 60, 64) + "," +
                              tensor_json(R"(e\u00e9\"\\)", "BF16", "[0,2]", 64, 64) + "," +
                              tensor_json("q", "I8", "[2]", 64, 66) + "," +
                              tensor_json("flat", "U16", "[2, 1 ,3]", 66, 78) + "," +
                              tensor_json("x", "F8_E4M3", "[26]", 78, 104) + "}  ",
                          test::counting_bytes(kDataBytes));
}

Parameters read(const std::string& file) {
  return read_whole(
      set_of({rank_file(Rank(0), std::make_shared<MemorySource>(file), ".safetensors")}));
}

TEST(DamagedSafetensors, EveryCutIsRefused) {
  const std::string file = sample_file();
  const Parameters intact = read(file);
  Tally tally("cuts of a safetensors file", {});
  each_cut(file, [&](const std::string& cut, const std::string& where) {
    tally.add(where, [&] { return kind_of_change(intact, read(cut)); });
  });
  EXPECT_EQ(tally.refused(), file.size());
}

TEST(DamagedSafetensors, EveryFlippedBitOfTheHeaderIsRefusedOrGivesAFileThatIsGoodInItself) {
  const std::string file = sample_file();
  const Parameters intact = read(file);
  ASSERT_EQ(intact.size(), 6U);
  // type: the metadata says that "q" is an Int4, and may say it of another name. shape: of a
  // parameter without elements.
  Tally tally("bits of a safetensors file", {"name", "shape"});
  each_flip(file, {{file.size() - kDataBytes, file.size()}},
            [&](const auto& flipped, const auto& where, std::size_t) {
              tally.add(where, [&] { return kind_of_change(intact, read(flipped)); });
            });
  EXPECT_EQ(tally.total(), 8 * (file.size() - kDataBytes));
  EXPECT_GT(tally.refused(), tally.total() / 2);
}

}  // namespace
}  // namespace reshardfs::damage
