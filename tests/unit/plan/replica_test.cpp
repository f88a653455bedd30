// SPDX-License-Identifier: Apache-2.0
/// Reads that go on with another rank's file where one fails.
#include <cerrno>

#include <gtest/gtest.h>

#include "base/process/counters.h"
#include "base/process/fault_report.h"
#include "plan/source/source_table.h"
#include "plan/target/file_image.h"
#include "plan/target/target_table.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::expect_error;

/// Fails every read while it is broken.
class BrokenSource final : public test::Decorator {
 public:
  using Decorator::Decorator;
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (broken) throw io_error("read", name(), EIO);
    Decorator::read_at(offset, out);
  }
  void check_unchanged() const override {
    if (changed) throw Error(ErrorKind::kChanged, "has been changed").in_file(name());
  }

  bool broken = false;
  bool changed = false;
};

/// `w` of 4 bytes: ranks 0 and 1 hold the first half, 2 and 3 the second; `s` is on all.
class Replicas : public testing::Test {
 protected:
  Replicas() {
    std::vector<RankFile> list;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const std::string half = rank < 2 ? "ab" : "cd";
      auto source = std::make_shared<BrokenSource>(std::make_shared<test::MemorySource>(
          test::record("w", {2}, "UInt8", half) + test::record("s", {1}, "UInt8", "s"),
          "rank_" + std::to_string(rank)));
      sources.push_back(source);
      list.push_back(test::rank_file(rank, source));
    }
    Layout layout{.device_matrix = {2, 2}, .tensor_map = {{1}}};
    auto table =
        std::make_shared<const SourceTable>(std::make_shared<const CheckpointSet>(std::move(list)),
                                            Strategy({StageLayouts{{"w", layout}}}, 0, false));
    target = std::make_unique<TargetTable>(table, std::nullopt, TargetOptions{});
  }

  /// All parameters of the only rank, in the table's order.
  std::string read() const {
    FileImage image;
    for (const TargetParameter& parameter : target->parameters()) {
      image.append(ShownElements(target->view(parameter, Rank(0)), parameter.dtype));
    }
    std::string out(image.size(), '\0');
    read_checked(
        [&](ReadBatch& batch) { image.read(0, std::as_writable_bytes(std::span(out)), batch); });
    return out;
  }

  std::vector<std::shared_ptr<BrokenSource>> sources;
  std::unique_ptr<TargetTable> target;
};

TEST_F(Replicas, StandInForAFileThatFails) {
  const std::string whole = read();
  ASSERT_EQ(whole, "abcds");
  const std::uint64_t before = counters().values().replica_reads;
  sources[0]->broken = true;
  EXPECT_EQ(read(), whole);
  sources[2]->changed = true;
  EXPECT_EQ(read(), whole);
  EXPECT_EQ(counters().values().replica_reads, before + 2);
}

std::string& reported() {
  static std::string text;
  return text;
}

TEST_F(Replicas, AreReportedWithWhatHasFailed) {
  const std::uint64_t before = counters().values().replica_reads;
  EXPECT_EQ(read(), "abcds");
  EXPECT_EQ(counters().values().replica_reads, before);  // nothing to report
  set_fault_listener(
      [](LogEvent, const std::string&, const std::string& text) { reported() = text; });
  sources[0]->broken = true;
  EXPECT_EQ(read(), "abcds");
  set_fault_listener(nullptr);
  EXPECT_NE(reported().find("read from a replica instead: rank_0"), std::string::npos)
      << reported();
}

TEST_F(Replicas, DoNotHideMistakesOfTheProgram) {
  int tries = 0;
  expect_error(ErrorKind::kInternal, {"mistake"}, [&] {
    read_checked([&](ReadBatch& batch) {
      ++tries;
      batch.use(*sources[0]);
      throw Error(ErrorKind::kInternal, "mistake");
    });
  });
  EXPECT_EQ(tries, 1);
}

TEST_F(Replicas, AreOfNoUseBehindAFileThatHasChanged) {
  // Read whole, and found to have changed only then: what was read of it does not count.
  sources[0]->changed = true;
  EXPECT_EQ(read(), "abcds");
  sources[1]->changed = true;
  expect_error(ErrorKind::kChanged, {"rank_0"}, [&] { read(); });
}

TEST_F(Replicas, TheErrorIsThatOfTheFirstIfAllFail) {
  sources[0]->broken = true;
  sources[1]->changed = true;
  expect_error(ErrorKind::kIo, {"rank_0"}, [&] { read(); });
  sources[0]->broken = false;
  EXPECT_EQ(read(), "abcds");
  sources[0]->changed = true;
  expect_error(ErrorKind::kChanged, {"rank_0"}, [&] { read(); });
}

TEST_F(Replicas, AllRanksHoldWhatIsKept) {
  for (const int rank : {0, 1, 2}) sources[static_cast<std::size_t>(rank)]->broken = true;
  // `w` lacks its first half now, and `s` does not.
  expect_error(ErrorKind::kIo, {"rank_0"}, [&] { read(); });
  sources[1]->broken = false;
  EXPECT_EQ(read(), "abcds");
}

}  // namespace
}  // namespace reshardfs
