// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export/folder.h"
#include "export/manifest.h"
#include "export/other_manifests.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "unit/export/target_of.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

const std::string kIdentity = R"({"version":"1","prefix":"checkpoint_"})";
const std::string kOther = R"({"version":"1","prefix":"net_"})";
const SharePlan kPlan{{1, 4}, "sum"};
const std::optional<SharePlan> kNoShare;

class ShareManifest : public ::testing::Test {
 protected:
  FolderTarget target() const { return test::target_of(directory_); }
  fs::path path(const Share& share) const { return directory_.path() / manifest_name(share); }
  std::string text() const {
    std::ifstream in(path(kPlan.share), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void begin(const SharePlan& plan, const std::string& identity = kIdentity) const {
    const Manifest manifest(target(), identity, false, plan);
  }
  void complete() const {
    Manifest manifest(target(), kIdentity, false, kPlan);
    manifest.add("rank_3/b", {20, "bb"});
    manifest.add("rank_2/a", {10, "aa"});
    manifest.complete({"rank_3/b", "rank_2/a"});
  }
  bool is_complete(const SharePlan& plan = kPlan, const std::string& identity = kIdentity) const {
    return read_complete_share(target(), identity, plan).has_value();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_.path()), {}));
  }

  test::TempDir directory_;
};

TEST_F(ShareManifest, HasANameThatTellsTheShare) {
  EXPECT_EQ(manifest_name(Share{3, 16}), ".reshardfs-export.3-of-16.jsonl");
  EXPECT_EQ(share_of_manifest(".reshardfs-export.3-of-16.jsonl"), (Share{3, 16}));
  for (const char* name : {".reshardfs-export.jsonl", ".reshardfs-export.03-of-16.jsonl",
                           "SHA256SUMS", ".reshardfs-export.3-of-16.jsonl.bak",
                           ".reshardfs-export.-of-.jsonl", ".reshardfs-export.3-of-.jsonl",
                           ".reshardfs-export.3-of-16", ".reshardfs-export.3-of-x.jsonl",
                           "..reshardfs-export.3-of-16.jsonl.0123456789abcdef.reshardfs-partial"}) {
    EXPECT_EQ(share_of_manifest(name), std::nullopt) << name;
  }
}

TEST_F(ShareManifest, IsCompleteOnlyWhenItSaysSo) {
  EXPECT_FALSE(is_complete());
  begin(kPlan);
  EXPECT_FALSE(is_complete());
  complete();
  const auto entries = read_complete_share(target(), kIdentity, kPlan);
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 2U);
  EXPECT_EQ(entries->at("rank_3/b").size, 20U);
  EXPECT_EQ(entries->at("rank_3/b").sha256, "bb");
  EXPECT_FALSE(is_complete({{1, 4}, "other files"}));
  EXPECT_FALSE(is_complete(kPlan, kOther));
  EXPECT_EQ(files(), 1U);
}

TEST_F(ShareManifest, HasTheSameBytesWheneverItIsComplete) {
  complete();
  const std::string once = text();
  const auto time = fs::last_write_time(path(kPlan.share));
  complete();
  // The second run has added lines, which belong to nothing but the log.
  EXPECT_EQ(text(), once);
  {
    Manifest manifest(target(), kIdentity, false, kPlan);
    EXPECT_EQ(manifest.entries().size(), 2U);
  }
  EXPECT_EQ(text(), once);
  fs::last_write_time(path(kPlan.share), time);
  Manifest(target(), kIdentity, false, kPlan).complete({"rank_2/a", "rank_3/b"});
  EXPECT_EQ(fs::last_write_time(path(kPlan.share)), time);
}

TEST_F(ShareManifest, IsNoLongerCompleteWhenItIsWrittenToOrDamaged) {
  complete();
  const std::string whole = text();
  Manifest(target(), kIdentity, false, kPlan).add("rank_2/a", {10, "aa"});
  EXPECT_FALSE(is_complete());
  directory_.write(manifest_name(kPlan.share), whole);
  EXPECT_TRUE(is_complete());
  std::string damaged = whole;
  damaged[whole.find("rank_2") - 5] = '?';
  directory_.write(manifest_name(kPlan.share), damaged);
  EXPECT_FALSE(is_complete());
  for (const std::size_t length : {whole.size() - 1, whole.size() / 2, std::size_t{0}}) {
    directory_.write(manifest_name(kPlan.share), whole.substr(0, length));
    EXPECT_FALSE(is_complete()) << length;
  }
}

TEST_F(ShareManifest, IsOfOneProcessAtATime) {
  const Manifest manifest(target(), kIdentity, false, kPlan);
  test::expect_error(ErrorKind::kUsage, {"another process", "share 1/4"}, [&] { begin(kPlan); });
  begin({{2, 4}, "sum"});
}

TEST_F(ShareManifest, MayBeReplacedWhileAnotherProcessWaits) {
  // Who has locked the file that was replaced begins anew with the one that is there.
  const Manifest old(target(), kIdentity, false, kPlan);
  fs::rename(path(kPlan.share), directory_.path() / "old");
  complete();
  EXPECT_TRUE(is_complete());
}

TEST_F(ShareManifest, NoticesThatAnotherConversionWasBegunInItsPlace) {
  Manifest old(target(), kIdentity, false, kPlan);
  old.add("rank_2/a", {10, "aa"});
  old.require_own();
  // As a process does that does not see the lock.
  fs::rename(path(kPlan.share), directory_.path() / "old");
  begin(kPlan);
  old.require_own();
  { const Manifest other(target(), kOther, true, kPlan); }
  test::expect_error(ErrorKind::kUsage, {"another export has begun"}, [&] { old.require_own(); });
  test::expect_error(ErrorKind::kUsage, {"another export has begun"},
                     [&] { old.complete({"rank_2/a"}); });
  fs::remove(path(kPlan.share));
  test::expect_error(ErrorKind::kUsage, {"another export has begun"}, [&] { old.require_own(); });
}

TEST_F(ShareManifest, RefusesOtherFilesAndConversions) {
  begin(kPlan);
  test::expect_error(ErrorKind::kUsage, {"other files", "--ranks"}, [&] {
    begin({{1, 4}, "other files"});
  });
  test::expect_error(ErrorKind::kUsage, {"different: prefix"}, [&] { begin(kPlan, kOther); });
}

TEST_F(ShareManifest, OthersAreReadByAnExportOfAllFiles) {
  complete();
  begin({{0, 3}, "other files"});
  const OtherManifests others(target(), kIdentity, kNoShare, false);
  EXPECT_EQ(others.known().size(), 2U);
}

TEST_F(ShareManifest, OthersMustBeOfTheSameConversionAndSplit) {
  const FolderTarget there = target();
  complete();
  const std::optional<SharePlan> other_number(SharePlan{{0, 2}, "sum"});
  const std::optional<SharePlan> other_files(SharePlan{{0, 4}, "other files"});
  const std::optional<SharePlan> same(SharePlan{{0, 4}, "sum"});
  test::expect_error(ErrorKind::kUsage, {"in 4 shares", "I/4", "--force"},
                     [&] { OtherManifests(there, kIdentity, other_number, false); });
  test::expect_error(ErrorKind::kUsage, {"other files"},
                     [&] { OtherManifests(there, kIdentity, other_files, false); });
  test::expect_error(ErrorKind::kUsage, {"prefix"},
                     [&] { OtherManifests(there, kOther, same, false); });
  test::expect_error(ErrorKind::kUsage, {"prefix"},
                     [&] { OtherManifests(there, kOther, kNoShare, false); });
  { const OtherManifests others(there, kIdentity, same, false); }
  EXPECT_TRUE(is_complete());
  // It is another process's, which begins it anew.
  { const OtherManifests others(there, kOther, same, true); }
  EXPECT_TRUE(is_complete());
  { const OtherManifests others(there, kIdentity, other_number, true); }
  EXPECT_EQ(files(), 0U);
}

TEST_F(ShareManifest, OthersAreNotRemovedWhileTheirProcessRuns) {
  const FolderTarget there = target();
  const Manifest manifest(there, kIdentity, false, kPlan);
  const std::optional<SharePlan> other_number(SharePlan{{0, 2}, "sum"});
  test::expect_error(ErrorKind::kUsage, {"another export"},
                     [&] { OtherManifests(there, kIdentity, other_number, true); });
  EXPECT_TRUE(fs::exists(path(kPlan.share)));
}

TEST_F(ShareManifest, KeepsAnExportOfAllFilesAway) {
  {
    const Manifest manifest(target(), kIdentity, false, kPlan);
    test::expect_error(ErrorKind::kUsage, {"another export"},
                       [&] { Manifest(target(), kIdentity, false); });
  }
  {
    const Manifest whole(target(), kIdentity, false);
    test::expect_error(ErrorKind::kUsage, {"another export"}, [&] { begin(kPlan); });
  }
  // For as long as the share is exported, though it has a lock of its own.
  const Manifest manifest(target(), kIdentity, false, kPlan);
  const Folder folder = Folder::open(directory_.path());
  const auto whole = folder.open_file(Manifest::kName, O_RDONLY);
  ASSERT_TRUE(whole);
  EXPECT_EQ(try_lock(whole.get()), LockState::kHeldElsewhere);
  EXPECT_EQ(try_lock(whole.get(), LockMode::kShared), LockState::kTaken);
}

}  // namespace
}  // namespace reshardfs
