// SPDX-License-Identifier: Apache-2.0
/// Encrypted .ckpt files that are cut anywhere, or have any bit flipped.
#include <gtest/gtest.h>

#include "format/encrypted/encrypted_blocks.h"
#include "support/checkpoint.h"
#include "support/sources.h"
#include "support/wire.h"
#include "tally.h"
#include "unit/format/encrypted_samples.h"

namespace reshardfs::damage {
namespace {

using test::MemorySource;
using test::record;

constexpr std::size_t kBlock = 64;
const std::string kKey = "a key of 16 byte";

std::string sample_file(const std::string& mode) {
  const std::string plain = record("layer.weight", {3, 5}, "Float32", test::counting_bytes(60)) +
                            record("step", {}, "Int32", "1234") +
                            record("flags", {20}, "Int8", test::counting_bytes(20));
  return test::encrypt(mode, kKey, plain, kBlock);
}

Parameters read(const std::string& file, const std::string& mode) {
  ByteSourcePtr plain =
      decrypt_blocks(std::make_shared<MemorySource>(file), test::key_of(mode, kKey), kBlock);
  return read_whole(set_of({rank_file(Rank(0), std::move(plain), ".ckpt")}));
}

class DamagedEncryption : public ::testing::TestWithParam<const char*> {
 protected:
  std::string mode() const { return GetParam(); }
  bool authenticated() const { return mode() == "AES-GCM"; }
};

TEST_P(DamagedEncryption, EveryCutIsRefused) {
  const std::string file = sample_file(mode());
  const Parameters intact = read(file, mode());
  Tally tally("cuts of a file encrypted with " + mode(), {});
  each_cut(file, [&](const std::string& cut, const std::string& where) {
    tally.add(where, [&] { return kind_of_change(intact, read(cut, mode())); });
  });
  EXPECT_EQ(tally.refused(), file.size());
}

TEST_P(DamagedEncryption, EveryFlippedBitIsRefusedIfItCanBeNoticed) {
  const std::string file = sample_file(mode());
  const Parameters intact = read(file, mode());
  // CBC is not authenticated. A bit of the cipher garbles 16 bytes of the plain file and changes
  // one bit of the next 16; a bit of an initialization vector changes one bit of the first 16. The
  // plain file is then refused as any other, or is a good one in itself.
  const std::set<std::string> unnoticed{"bytes", "name",    "shape",
                                        "type",  "missing", "several facts"};
  Tally tally("bits of a file encrypted with " + mode(),
              authenticated() ? std::set<std::string>{} : unnoticed);
  each_flip(file, {}, [&](const auto& flipped, const auto& where, std::size_t) {
    tally.add(where, [&] { return kind_of_change(intact, read(flipped, mode())); });
  });
  EXPECT_EQ(tally.total(), 8 * file.size());
  // In mode AES-GCM all but the last 4 bytes of each initialization vector, which are not used.
  EXPECT_TRUE(!authenticated() || tally.refused() == tally.total() - 3 * 4 * 8);
}

INSTANTIATE_TEST_SUITE_P(Modes, DamagedEncryption,
                         ::testing::Values("AES-GCM", "AES-CBC", "SM4-CBC"), [](const auto& mode) {
                           std::string name = mode.param;
                           name.erase(name.find('-'), 1);
                           return name;
                         });

}  // namespace
}  // namespace reshardfs::damage
