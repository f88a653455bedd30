// SPDX-License-Identifier: Apache-2.0
/// What every place that an export writes to must do with names, texts and files.
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "conformance/export_case.h"
#include "export/checksums.h"
#include "export/other_manifests.h"
#include "support/errors.h"

namespace reshardfs::conformance {
namespace {

using test::expect_error;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Two parts and a half of an object, and many blocks of a file.
constexpr std::size_t kLargeBytes = std::size_t{20} << 20U;
/// After two parts of an object.
constexpr std::uint64_t kFailsFrom = std::uint64_t{16} << 20U;

using ExportTarget = ExportCase;

TEST_F(ExportTarget, HasNothingAtFirst) {
  const TargetPtr target = alone();
  EXPECT_EQ(target->read("absent"), std::nullopt);
  EXPECT_EQ(target->read("absent", "end"), std::nullopt);
  EXPECT_THAT(target->names(""), IsEmpty());
  const Target::Listing there = target->list({"absent", "rank_0/absent", kChecksumFile});
  EXPECT_THAT(there.files, IsEmpty());
  EXPECT_THAT(there.ranks, IsEmpty());
  target->remove("absent");
  EXPECT_TRUE(target->revoke(Manifest::kName));
  EXPECT_FALSE(read_complete_share(*target, kIdentity, kPlan));
}

TEST_F(ExportTarget, ReadsWhatWasPut) {
  const TargetPtr target = alone();
  target->put("text", "first\nlast\n");
  EXPECT_EQ(target->read("text"), "first\nlast\n");
  EXPECT_EQ(target->read("text", "last\n"), "first\nlast\n");
  EXPECT_EQ(target->read("text", "first\n"), std::nullopt);
  EXPECT_EQ(target->read("text", std::string(100, 'x')), std::nullopt);
  target->put("text", "");
  EXPECT_EQ(target->read("text"), "");
  EXPECT_EQ(size_of(*target, "text"), 0U);
}

TEST_F(ExportTarget, PutReplacesInOneStep) {
  const TargetPtr target = shared();
  const std::string one(50'000, '1');
  const std::string other(70'000, '2');
  target->put("text", one);
  std::atomic<bool> done{false};
  std::jthread reader([&] {
    do {
      const auto text = target->read("text");
      EXPECT_TRUE(text == one || text == other);
    } while (!done);
  });
  for (int i = 0; i < 20; ++i) target->put("text", i % 2 == 0 ? other : one);
  done = true;
  reader.join();
  EXPECT_THAT(target->names(""), ElementsAre("text"));
}

TEST_F(ExportTarget, AnyNumberMayPutAtOnce) {
  std::vector<std::jthread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([] { shared()->put("text", "the same"); });
  }
  writers.clear();
  EXPECT_EQ(shared()->read("text"), "the same");
  EXPECT_THAT(shared()->names(""), ElementsAre("text"));
}

TEST_F(ExportTarget, RemovesWhatIsThere) {
  const TargetPtr target = alone();
  target->put("text", "x");
  target->put("other", "x");
  target->remove("text");
  EXPECT_EQ(target->read("text"), std::nullopt);
  EXPECT_THAT(target->names(""), ElementsAre("other"));
}

TEST_F(ExportTarget, ListsWhatIsAskedForAndAllRanks) {
  const TargetPtr target = alone();
  Manifest manifest(*target, kIdentity, false);
  const OutputFile first = file("rank_3/a", "abc");
  const OutputFile second = file("rank_11/b c/\u00e9", "x");
  const OutputFile third = file("merged/c", "");
  write(*target, manifest, {&first, &second, &third});
  target->put("text", "four");
  const Target::Listing there = target->list({"rank_3/a", "text", "merged/c", "rank_3/z"});
  std::vector<std::string> names;
  for (const auto& [path, found] : there.files) names.push_back(path);
  EXPECT_THAT(names, ElementsAre("merged/c", "rank_3/a", "text"));
  EXPECT_EQ(there.files.at("rank_3/a").size, 3U);
  EXPECT_EQ(there.files.at("merged/c").size, 0U);
  EXPECT_THAT(there.ranks, ElementsAre("rank_11", "rank_3"));
  EXPECT_EQ(size_of(*target, second.path), 1U);
}

TEST_F(ExportTarget, TellsNamesByWhatTheyBeginWith) {
  const TargetPtr target = alone();
  for (const char* name : {"b", "ab", "aa", "a", "ba", ".a"}) target->put(name, "x");
  EXPECT_THAT(target->names("a"), ElementsAre("a", "aa", "ab"));
  EXPECT_THAT(target->names("c"), IsEmpty());
}

TEST_F(ExportTarget, WritesFilesOfAnySize) {
  const TargetPtr target = alone();
  Manifest manifest(*target, kIdentity, false);
  const std::string large = test::varied_bytes(kLargeBytes);
  const OutputFile empty = file("empty", "");
  const OutputFile small = file("small", "abc");
  const OutputFile big = file("big", large);
  EXPECT_EQ(write(*target, manifest, {&empty, &small, &big}).resumed_bytes, 0U);
  EXPECT_EQ(target->read("empty"), "");
  EXPECT_EQ(target->read("small"), "abc");
  EXPECT_TRUE(target->read("big") == large);
  EXPECT_EQ(manifest.find("big")->sha256, test::sha256_of(large));
  EXPECT_EQ(manifest.find("big")->size, kLargeBytes);
}

TEST_F(ExportTarget, AFailureLeavesNothing) {
  const TargetPtr target = alone();
  Manifest manifest(*target, kIdentity, false);
  manifest.save();
  const std::string large = test::varied_bytes(kLargeBytes);
  const OutputFile small = failing("small", "0123456789", 0);
  const OutputFile big = failing("big", large, kFailsFrom);
  for (const OutputFile* each : {&small, &big}) {
    const auto abandon = [](WriteJob& job) { job.abandon(); };
    EXPECT_TRUE(write(*target, manifest, {each}, abandon).has_failed);
    EXPECT_FALSE(manifest.find(each->path));
    EXPECT_THAT(target->names(""), ElementsAre(Manifest::kName));
  }
  // Nor anything that could be gone on with.
  const OutputFile good = file("big", large);
  EXPECT_EQ(write(*target, manifest, {&good}).resumed_bytes, 0U);
  EXPECT_TRUE(target->read("big") == large);
}

/// Files must not grow beyond 1 MiB for as long as it lives.
class FileSizeLimit {
 public:
  FileSizeLimit() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &old_), 0);
    const rlimit low{rlim_t{1} << 20U, old_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &old_), 0);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit old_{};
};

TEST_F(ExportTarget, AWriteThatFailsLeavesNothing) {
  const TargetPtr target = alone();
  Manifest manifest(*target, kIdentity, false);
  manifest.save();
  // A store refuses what has this name.
  const OutputFile refused = file("refused", test::varied_bytes(kLargeBytes));
  bool stays = false;
  {
    const FileSizeLimit limit;
    EXPECT_TRUE(write(*target, manifest, {&refused}, [&](WriteJob& job) {
                  stays = job.leave() || stays;
                }).has_failed);
  }
  EXPECT_FALSE(stays);
  EXPECT_FALSE(manifest.find("refused"));
  EXPECT_THAT(target->names(""), ElementsAre(Manifest::kName));
}

TEST_F(ExportTarget, GoesOnWithWhatWasLeft) {
  const TargetPtr target = alone();
  Manifest manifest(*target, kIdentity, false);
  manifest.save();
  const std::string large = test::varied_bytes(kLargeBytes);
  const OutputFile big = failing("big", large, kFailsFrom);
  bool stays = false;
  write(*target, manifest, {&big}, [&](WriteJob& job) { stays = job.leave(); });
  EXPECT_TRUE(stays);
  EXPECT_EQ(size_of(*target, "big"), std::nullopt);
  const OutputFile good = file("big", large);
  const Written written = write(*target, manifest, {&good});
  EXPECT_GT(written.resumed_bytes, 0U);
  EXPECT_EQ(written.damaged_blocks, 0U);
  EXPECT_TRUE(target->read("big") == large);
  EXPECT_THAT(target->names(""), ElementsAre(Manifest::kName, "big"));
}

TEST_F(ExportTarget, GoesOnWithNothingOfAnotherFile) {
  const TargetPtr target = alone();
  Manifest manifest(*target, kIdentity, false);
  std::string large = test::varied_bytes(kLargeBytes);
  const OutputFile big = failing("big", large, kFailsFrom);
  write(*target, manifest, {&big}, [](WriteJob& job) { job.leave(); });
  large.resize(2 * kLargeBytes, 'x');
  large.front() = static_cast<char>(~large.front());
  const OutputFile changed = file("big", large);
  EXPECT_LT(write(*target, manifest, {&changed}).resumed_bytes, kFailsFrom);
  EXPECT_TRUE(target->read("big") == large);
}

TEST_F(ExportTarget, KeepsItsOwnFilesAndRefusesOthers) {
  const TargetPtr target = alone();
  Manifest manifest(*target, kIdentity, false);
  const OutputFile mine = file("rank_0/a", "abc");
  const OutputFile other = file("b", "abc");
  const OutputFile absent = file("c", "abc");
  EXPECT_THAT(choose(*target, manifest, {&mine, &other}, false), ElementsAre(&mine, &other));
  write(*target, manifest, {&mine, &other});
  EXPECT_THAT(choose(*target, manifest, {&mine, &other, &absent}, false), ElementsAre(&absent));
  for (const char* text : {"xyz", "another size"}) {
    target->put("b", text);
    expect_error(ErrorKind::kUsage, {target->shown("b"), "choose another", "--force"}, [&] {
      choose(*target, manifest, {&mine, &other}, false);
    });
    EXPECT_THAT(choose(*target, manifest, {&mine, &other}, true), ElementsAre(&other));
    EXPECT_EQ(target->read("b"), text);
  }
  target->put("c", "not from here");
  expect_error(ErrorKind::kUsage, {target->shown("c"), "already exists", "--force"},
               [&] { choose(*target, manifest, {&absent}, false); });
}

TEST_F(ExportTarget, SaysWhatIsInTheWay) {
  const TargetPtr target = alone();
  expect_error(ErrorKind::kUsage,
               {target->shown("a/b"), "what it is", "choose another", target->words().another},
               [&] { throw_in_the_way(*target, "a/b", "what it is"); });
}

}  // namespace
}  // namespace reshardfs::conformance
