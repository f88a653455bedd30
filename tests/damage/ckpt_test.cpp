// SPDX-License-Identifier: Apache-2.0
/// .ckpt files that are cut anywhere, or have any bit flipped that is not tensor data.
#include "format/ckpt/ckpt.h"

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/checkpoint.h"
#include "support/sources.h"
#include "support/wire.h"
#include "tally.h"

namespace reshardfs::damage {
namespace {

using test::counting_bytes;
using test::MemorySource;
using test::record;

std::vector<std::string> sample_records() {
  return {record("layer.weight", {3, 5}, "Float32", counting_bytes(60)),
          record("layer.bias", {5, 1, 2}, "BFloat16", counting_bytes(20, 60)),
          record("text", {0}, "str", std::string("a\0\0\0", 4)),
          record("sliced", {10, 10}, "Int8", counting_bytes(50)),
          record("sliced", {10, 10}, "Int8", counting_bytes(50, 50)),
          record("global_step", {}, "Int32", "1234"),
          record("old_scalar", {0}, "Float32", "5678"),
          record("empty", {0, 3}, "Float64", ""),
          record("flags", {4}, "Bool", std::string("\0\1\0\1", 4))};
}

std::string joined(const std::vector<std::string>& records) {
  std::string out;
  for (const std::string& one : records) out += one;
  return out;
}

std::string crc_trailer(const std::string& records) {
  ckpt::CrcSum sum;
  sum.add(std::as_bytes(std::span(records)));
  return ckpt::trailer(sum.value());
}

enum class Crc { kIgnored, kChecked };

Parameters read(const std::string& file, Crc crc = Crc::kIgnored) {
  const auto source = std::make_shared<MemorySource>(file);
  if (crc == Crc::kChecked && ckpt::check_crc(*source) == CrcCheck::kBad) {
    throw Error(ErrorKind::kBadInput, "does not match its CRC");
  }
  return read_whole(set_of({rank_file(Rank(0), source, ".ckpt")}));
}

std::vector<Range> contents_of(const std::string& file) {
  std::vector<Range> ranges;
  const FileIndex index = ckpt::read_index(MemorySource(file));
  for (const TensorEntry& entry : index.entries()) {
    for (const ByteRange& extent : entry.extents) {
      ranges.push_back({extent.offset(), extent.end()});
    }
  }
  return ranges;
}

/// Whether the byte belongs to the text of a name or a type.
bool is_in_text(const std::string& file, const std::vector<std::string>& texts, std::size_t byte) {
  for (const std::string& text : texts) {
    for (auto at = file.find(text); at != std::string::npos; at = file.find(text, at + 1)) {
      if (byte >= at && byte < at + text.size()) return true;
    }
  }
  return false;
}

std::vector<std::string> names_of(const Parameters& parameters) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : parameters) names.push_back(name);
  return names;
}

void flip_all(const std::string& what, const std::string& file, Crc crc,
              const std::set<std::string>& allowed, std::size_t bits) {
  const Parameters intact = read(file, crc);
  ASSERT_EQ(intact.size(), 8U);
  Tally tally(what, allowed);
  each_flip(file, contents_of(file), [&](const auto& flipped, const auto& where, std::size_t byte) {
    tally.add(where, [&] {
      const std::string kind = kind_of_change(intact, read(flipped, crc));
      // Another name comes from a bit of that name, and from nothing else.
      if (kind == "name" && !is_in_text(file, names_of(intact), byte)) return "WRONG: " + kind;
      return kind;
    });
  });
  EXPECT_EQ(tally.total(), bits);
  EXPECT_TRUE(allowed.empty() || tally.count("name") > 0);
}

TEST(DamagedCkpt, EveryCutIsRefusedOrEndsBehindARecord) {
  const std::vector<std::string> records = sample_records();
  const std::string file = joined(records) + crc_trailer(joined(records));
  const Parameters intact = read(file);
  Tally tally("cuts of a .ckpt file", {"missing"});
  each_cut(file, [&](const std::string& cut, const std::string& where) {
    tally.add(where, [&] { return kind_of_change(intact, read(cut)); });
  });
  // Behind each record but the last, and the two halves of one parameter count as one.
  EXPECT_EQ(tally.count("missing"), records.size() - 2);
  EXPECT_EQ(tally.count("identical"), 1U);  // without the trailer
  EXPECT_EQ(tally.total(), file.size());
}

TEST(DamagedCkpt, EveryFlippedBitIsRefusedOrGivesAFileThatIsGoodInItself) {
  const std::string file = joined(sample_records());
  // shape: a dimension of 1 whose key became a field that nobody knows; (1) and () of one element;
  // what has no elements. No type has a neighbour of its size that is one bit away.
  flip_all("bits of a .ckpt file", file, Crc::kIgnored, {"name", "shape"},
           8 * (file.size() - 60 - 20 - 4 - 100 - 4 - 4 - 4));
}

TEST(DamagedCkpt, EveryFlippedBitOfAFileWithATrailerIsRefusedIfTheCrcIsChecked) {
  const std::string records = joined(sample_records());
  const std::string file = records + crc_trailer(records);
  flip_all("bits of a .ckpt file with a trailer", file, Crc::kIgnored, {"name", "shape"},
           8 * (file.size() - 200 + 4));
  flip_all("the same with --check-crc", file, Crc::kChecked, {}, 8 * (file.size() - 200 + 4));
}

/// Two ranks, of which the second is damaged: the first and the strategy tell what it must hold.
class DamagedRank : public ::testing::Test {
 protected:
  static std::string file_of(unsigned rank) {
    return record("w", {2, 3}, "Float32", counting_bytes(24, 24 * rank)) +
           record("v", {4, 1}, "BFloat16", counting_bytes(8, 100 + 8 * rank)) +
           record("replica", {2}, "Int16", "abcd") +
           record("adam_m.w", {2, 3}, "Float32", counting_bytes(24, 50 + 24 * rank)) +
           record("step", {}, "Int32", "1234");
  }
  static Strategy source() {
    const Layout rows{.device_matrix = {2}, .tensor_map = {{0}, {}}};
    const Layout columns{.device_matrix = {2}, .tensor_map = {{}, {0}}};
    const Layout none{.device_matrix = {2}, .tensor_map = {{}}};
    return Strategy({{{"w", rows}, {"v", columns}, {"replica", none}}}, 0, false);
  }
  static Strategy target() {
    const Layout columns{.device_matrix = {3}, .tensor_map = {{}, {0}}};
    const Layout none{.device_matrix = {3}, .tensor_map = {{}, {}}};
    const Layout flat{.device_matrix = {3}, .tensor_map = {{}}};
    return Strategy({{{"w", columns}, {"v", none}, {"replica", flat}}}, 0, false);
  }

  static std::string kind(const std::string& second) {
    static const std::vector<Parameters> intact = read_all(file_of(1));
    const std::vector<Parameters> found = read_all(second);
    if (found.size() != intact.size()) return "WRONG: other ranks";
    std::string first;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::string one = kind_of_change(intact[i], found[i]);
      if (i > 0 && one != first) return "WRONG: '" + first + "' here and '" + one + "' there";
      first = one;
    }
    return first;
  }

 private:
  /// The target's ranks, and the whole model behind them.
  static std::vector<Parameters> read_all(const std::string& second) {
    const auto set =
        set_of({rank_file(Rank(0), std::make_shared<MemorySource>(file_of(0)), ".ckpt"),
                rank_file(Rank(1), std::make_shared<MemorySource>(second), ".ckpt")});
    std::vector<Parameters> all = read_target(set, source(), target());
    all.push_back(read_whole(set, source()));
    return all;
  }
};

TEST_F(DamagedRank, EveryCutIsRefusedUnlessAnotherRankHasWhatIsMissing) {
  Tally tally("cuts of one rank's .ckpt file", {});
  each_cut(file_of(1), [&](const std::string& cut, const std::string& where) {
    tally.add(where, [&] { return kind(cut); });
  });
  EXPECT_EQ(tally.count("identical"), 1U);  // before step, which the first rank has too
}

TEST_F(DamagedRank, EveryFlippedBitIsRefusedOrHarmless) {
  const std::string file = file_of(1);
  // The name of what the other rank has too (a replica, or what no strategy lays out): there it
  // stands by its own name, and what has another name here is shown beside it.
  Tally tally("bits of one rank's .ckpt file", {"more"});
  each_flip(file, contents_of(file), [&](const auto& flipped, const auto& where, std::size_t byte) {
    tally.add(where, [&] {
      const std::string found = kind(flipped);
      if (found == "more" && !is_in_text(file, {"step", "replica"}, byte)) return "WRONG: " + found;
      return found;
    });
  });
  EXPECT_GT(tally.refused(), tally.total() / 2);
}

}  // namespace
}  // namespace reshardfs::damage
