// SPDX-License-Identifier: Apache-2.0
/// What every place that an export writes to must do with manifests, and with what is told by them.
#include <optional>
#include <string>
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

const SharePlan kSecond{{1, 2}, "sum"};
const std::optional<SharePlan> kAll;

class ExportClaim : public ExportCase {
 protected:
  /// Writes a share of one file, as a process of its own.
  static void write_share(const SharePlan& plan, const OutputFile& file) {
    const TargetPtr target = shared();
    Manifest manifest(*target, kIdentity, false, plan);
    write(*target, manifest, {&file});
    manifest.complete({file.path});
  }
};

TEST_F(ExportClaim, IsGoneOnWith) {
  const TargetPtr target = alone();
  {
    Manifest manifest(*target, kIdentity, false);
    manifest.add("a", {1, "aa", "tag"});
    manifest.set("b", {2, "bb", ""});
    manifest.save();
  }
  {
    const Manifest manifest(*target, kIdentity, false);
    EXPECT_EQ(manifest.entries().size(), 2U);
    EXPECT_EQ(manifest.find("a")->etag, "tag");
    EXPECT_EQ(manifest.find("b")->size, 2U);
  }
  expect_error(ErrorKind::kUsage, {Manifest::kName, "prefix", "--force"},
               [&] { Manifest(*target, kOther, false); });
  Manifest other(*target, kOther, true);
  EXPECT_THAT(other.entries(), IsEmpty());
}

TEST_F(ExportClaim, IsTakenByOneOfTwo) {
  // Where locks work the second is refused at once; elsewhere whoever is replaced notices it.
  std::vector<std::string> refusals;
  const auto noting = [&](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      refusals.emplace_back(error.what());
    }
  };
  const TargetPtr target = shared();
  std::optional<Manifest> one;
  std::optional<Manifest> other;
  noting([&] { one.emplace(*target, kIdentity, false, kPlan); });
  noting([&] { other.emplace(*target, kOther, false, kPlan); });
  for (auto* manifest : {&one, &other}) {
    if (*manifest) (*manifest)->set("a", {1, "aa", ""});
  }
  for (auto* manifest : {&one, &other}) {
    if (*manifest) noting([&] { (*manifest)->save(); });
  }
  for (auto* manifest : {&one, &other}) {
    if (*manifest) noting([&] { (*manifest)->complete({"a"}); });
  }
  ASSERT_EQ(refusals.size(), 1U);
  EXPECT_THAT(refusals.front(), ::testing::HasSubstr("another"));
  EXPECT_NE(read_complete_share(*target, kIdentity, kPlan).has_value(),
            read_complete_share(*target, kOther, kPlan).has_value());
}

TEST_F(ExportClaim, NoticesThatAnotherWasBegunInItsPlace) {
  const TargetPtr target = shared();
  Manifest manifest(*target, kIdentity, false, kPlan);
  manifest.set("a", {1, "aa", ""});
  manifest.save();
  manifest.require_own();
  target->put(manifest_name(kPlan.share), "{}\n");
  const std::string name = target->shown(manifest_name(kPlan.share));
  expect_error(ErrorKind::kUsage, {name, "another export has begun in the place of this one"},
               [&] { manifest.require_own(); });
  expect_error(ErrorKind::kUsage, {name, "another export has begun in the place of this one"},
               [&] { manifest.complete({"a"}); });
  EXPECT_EQ(target->read(manifest_name(kPlan.share)), "{}\n");
}

TEST_F(ExportClaim, IsCompleteInOneStepAndAlwaysTheSame) {
  const TargetPtr target = shared();
  std::vector<std::string> texts;
  for (int i = 0; i < 2; ++i) {
    Manifest manifest(*target, kIdentity, false, kPlan);
    manifest.set(i == 0 ? "b" : "a", {1, i == 0 ? "bb" : "aa", ""});
    manifest.set(i == 0 ? "a" : "b", {1, i == 0 ? "aa" : "bb", ""});
    EXPECT_EQ(read_complete_share(*target, kIdentity, kPlan).has_value(),
              i == 1 && !manifest.appends());
    manifest.complete({"b", "a"});
    texts.push_back(target->read(manifest_name(kPlan.share)).value_or(""));
  }
  EXPECT_EQ(texts.front(), texts.back());
  const auto entries = read_complete_share(*target, kIdentity, kPlan);
  ASSERT_TRUE(entries);
  EXPECT_EQ(entries->at("a").sha256, "aa");
  EXPECT_EQ(entries->at("b").sha256, "bb");
  EXPECT_FALSE(read_complete_share(*target, kOther, kPlan));
  EXPECT_FALSE(read_complete_share(*target, kIdentity, {kPlan.share, "other files"}));
  EXPECT_THAT(target->names(""), ElementsAre(manifest_name(kPlan.share)));
}

TEST_F(ExportClaim, IsRevoked) {
  {
    const TargetPtr target = shared();
    Manifest manifest(*target, kIdentity, false, kPlan);
    manifest.save();
  }
  EXPECT_TRUE(shared()->revoke(manifest_name(kPlan.share)));
  EXPECT_THAT(shared()->names(""), IsEmpty());
}

TEST_F(ExportClaim, OthersAreOfTheSameConversionAndSplit) {
  const OutputFile mine = file("rank_0/a", "abc");
  write_share(kPlan, mine);
  const TargetPtr target = shared();
  EXPECT_EQ(OtherManifests(*target, kIdentity, kAll, false).known().size(), 1U);
  const std::optional<SharePlan> same(kSecond);
  EXPECT_THAT(OtherManifests(*target, kIdentity, same, false).known(), IsEmpty());
  expect_error(ErrorKind::kUsage, {"prefix"},
               [&] { OtherManifests(*target, kOther, same, false); });
  const std::optional<SharePlan> split(SharePlan{{0, 3}, "sum"});
  expect_error(ErrorKind::kUsage, {target->shown(manifest_name(kPlan.share)), "in 2 shares", "I/2"},
               [&] { OtherManifests(*target, kIdentity, split, false); });
  EXPECT_TRUE(read_complete_share(*target, kIdentity, kPlan));
  OtherManifests(*target, kIdentity, split, true);
  EXPECT_FALSE(read_complete_share(*target, kIdentity, kPlan));
}

TEST_F(ExportClaim, SumsAreWrittenWhenAllSharesAreComplete) {
  const OutputFile first = file("rank_0/a", "abc");
  const OutputFile second = file("rank_1/a", "de");
  const TargetPtr target = shared();
  const auto incomplete = [&] { return write_shared_sums(*target, kIdentity, kPlan, {}); };
  EXPECT_EQ(incomplete(), kPlan.share);
  write_share(kPlan, first);
  EXPECT_EQ(incomplete(), kSecond.share);
  EXPECT_EQ(target->read(kChecksumFile), std::nullopt);
  write_share(kSecond, second);
  EXPECT_EQ(incomplete(), std::nullopt);
  const std::string sums = checksum_line(test::sha256_of(std::string("abc")), first.path) +
                           checksum_line(test::sha256_of(std::string("de")), second.path);
  EXPECT_EQ(target->read(kChecksumFile), sums);
  // A share that has lost a file is not complete.
  target->remove(kChecksumFile);
  target->remove(second.path);
  EXPECT_EQ(incomplete(), kSecond.share);
  EXPECT_EQ(target->read(kChecksumFile), std::nullopt);
}

TEST_F(ExportClaim, SumsAreOfWhatIsThere) {
  const TargetPtr target = alone();
  Manifest manifest(*target, kIdentity, false);
  const OutputFile mine = file("a", "abc");
  const OutputFile lost = file("b", "de");
  write(*target, manifest, {&mine, &lost});
  target->remove("b");
  const std::string sums = sums_of(*target, manifest.entries());
  EXPECT_EQ(sums, checksum_line(test::sha256_of(std::string("abc")), "a"));
  for (const std::string& text : {sums, std::string(), sums.substr(0, 20), "mine\n" + sums}) {
    target->put(kChecksumFile, text);
    const Target::Listing there = target->list({kChecksumFile});
    EXPECT_EQ(has_only_sums_of(*target, there.files.at(kChecksumFile), manifest.entries()),
              text.empty() || text == sums);
  }
}

}  // namespace
}  // namespace reshardfs::conformance
