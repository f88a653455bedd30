// SPDX-License-Identifier: Apache-2.0
/// What the doctor's checks say of caches, fstab, servers, and of what takes too long.
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/doctor/bounded_check.h"
#include "cli/doctor/cache_check.h"
#include "cli/doctor/fstab_checks.h"
#include "cli/doctor/mount_checks.h"
#include "cli/doctor/server_checks.h"
#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kNow = 1'800'000'000;
constexpr std::int64_t kDay = 86400;

TEST(DoctorFinding, KeepsAllInJson) {
  for (const Health health : {Health::kOk, Health::kWarning, Health::kFailed, Health::kSkipped}) {
    const Finding finding{"name", health, "a \"message\"", "remedy", "subject"};
    JsonWriter json;
    json.open_object();
    write_findings(json, {finding});
    json.close_object();
    const Findings read = findings_of(JsonDocument::parse(json.take())->value());
    ASSERT_THAT(read, SizeIs(1));
    const Finding& again = read.front();
    EXPECT_EQ(again.name, "name");
    EXPECT_EQ(again.health, health);
    EXPECT_EQ(again.message, "a \"message\"");
    EXPECT_EQ(again.remedy, "remedy");
    EXPECT_EQ(again.subject, "subject");
  }
}

TEST(DoctorFinding, HasTheHintOfAnErrorAsItsRemedy) {
  const Finding plain = failed("x", Error(ErrorKind::kIo, "no").in_file("/a").hint("do 'this'"));
  EXPECT_EQ(plain.message, "/a: no");
  EXPECT_EQ(plain.remedy, "do 'this'");
  const Finding wild = failed("x", Error(ErrorKind::kIo, "no").hint("rm \x1b[2J"));
  EXPECT_THAT(wild.remedy, testing::Not(HasSubstr("\x1b")));
}

TEST(DoctorBounded, GivesUpWhatTakesTooLong) {
  const auto begin = std::chrono::steady_clock::now();
  const Findings found = BoundedChecks(seconds(1)).run("slow", "/a\n", [] {
    std::this_thread::sleep_for(seconds(60));
    return Findings{};
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(30));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].health, Health::kFailed);
  EXPECT_EQ(found[0].name, "slow");
  EXPECT_THAT(found[0].message, AllOf(HasSubstr("no answer within 1 s"), HasSubstr("/a\\n")));
}

TEST(DoctorBounded, TellsWhatIsThrownAndFound) {
  const BoundedChecks bounded(seconds(20));
  const Findings thrown = bounded.run(
      "x", "", []() -> Findings { throw Error(ErrorKind::kMissing, "gone").hint("look"); });
  ASSERT_THAT(thrown, SizeIs(1));
  EXPECT_EQ(thrown[0].message, "gone");
  EXPECT_EQ(thrown[0].remedy, "look");
  const Findings two = bounded.run("x", "", [] {
    return Findings{{.name = "a", .message = "\xff"}, {.name = "b", .health = Health::kWarning}};
  });
  ASSERT_THAT(two, SizeIs(2));
  EXPECT_EQ(two[1].health, Health::kWarning);
  const Findings killed = bounded.run("x", "", []() -> Findings { ::_exit(1); });
  EXPECT_EQ(killed.at(0).health, Health::kFailed);
}

TEST(DoctorCache, MakesNothing) {
  const test::TempDir dir;
  const Findings found = check_cache(dir.path() / "a" / "b", 16 << 20);
  ASSERT_THAT(found, SizeIs(3));
  for (const Finding& finding : found) EXPECT_EQ(finding.health, Health::kOk) << finding.message;
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(DoctorCache, SaysWhoseADirectoryIs) {
  const test::TempDir dir;
  const auto own = dir.path() / fmt::format("reshardfs-{}", ::geteuid());
  ASSERT_EQ(::mkdir(own.c_str(), 0700), 0);
  EXPECT_EQ(check_cache(dir.path(), 16 << 20).at(0).health, Health::kOk);
  ::chmod(own.c_str(), 0755);
  const Findings open = check_cache(dir.path(), 16 << 20);
  EXPECT_EQ(open.at(0).health, Health::kFailed);
  EXPECT_EQ(open.at(0).remedy, "chmod 700 " + own.string());
  EXPECT_EQ(open.at(1).health, Health::kSkipped);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ::chmod(own.c_str(), 0700);
  ASSERT_EQ(::chown(own.c_str(), 12345, 12345), 0);
  EXPECT_THAT(check_cache(dir.path(), 16 << 20).at(0).message, HasSubstr("12345"));
}

TEST(DoctorCache, SaysThatTheDiskIsSmaller) {
  const test::TempDir dir;
  const Findings found = check_cache(dir.path(), std::uint64_t{1} << 60);
  EXPECT_EQ(found.at(2).health, Health::kWarning);
  EXPECT_THAT(found.at(2).remedy, HasSubstr("--cache-size"));
}

TEST(DoctorFstab, FindsItsEntriesAlone) {
  const FstabFile file = parse_fstab(
      "# /a /b reshardfs nofail 0 0\n"
      "UUID=1 / ext4 defaults 0 1\n"
      "\n"
      "/a\\040b\t/mnt/x  reshardfs nofail,prefix=a\\040b,_netdev 0 0\n"
      "/c /d fuse.reshardfs\n"
      "broken\n"
      "/e /f reshardsf\n"
      "/dev/sdb /g reiserfs\n");
  const std::vector<FstabEntry>& entries = file.entries;
  ASSERT_THAT(entries, SizeIs(3));
  EXPECT_THAT(file.unreadable, ElementsAre(6));
  EXPECT_EQ(entries[0].line, 4);
  EXPECT_EQ(entries[0].source, "/a b");
  EXPECT_EQ(entries[0].mountpoint, "/mnt/x");
  EXPECT_THAT(entries[0].options, ElementsAre("nofail", "prefix=a b", "_netdev"));
  EXPECT_TRUE(entries[0].has_option("prefix"));
  EXPECT_FALSE(entries[0].has_option("net"));
  EXPECT_EQ(entries[1].type, "fuse.reshardfs");
  EXPECT_THAT(entries[1].options, IsEmpty());
  EXPECT_EQ(entries[2].type, "reshardsf");
}

ServerProbe trusted(std::int64_t not_before, std::int64_t not_after) {
  ServerProbe probe{.status = 200};
  probe.certificate = ServerCertificate{"CN = ca", not_before, not_after};
  return probe;
}

TEST(DoctorServer, JudgesCertificates) {
  const std::string url = "https://h:1/p";
  const auto health = [&](const ServerProbe& probe) {
    return server_certificate(probe, url, kNow).health;
  };
  EXPECT_EQ(health(trusted(kNow - kDay, kNow + 100 * kDay)), Health::kOk);
  EXPECT_EQ(health(trusted(kNow - kDay, kNow + 3 * kDay)), Health::kWarning);
  ServerProbe bad = trusted(kNow - 9 * kDay, kNow - kDay);
  bad.failure = "certificate has expired";
  bad.is_untrusted = true;
  EXPECT_EQ(health(bad), Health::kFailed);
  EXPECT_THAT(server_certificate(bad, url, kNow).message, HasSubstr("has expired on 2027-01-14"));
  bad.certificate->not_after = kNow + kDay;
  EXPECT_THAT(server_certificate(bad, url, kNow).remedy, HasSubstr("--ca-file"));
  bad.certificate->not_before = kNow + 1;
  EXPECT_THAT(server_certificate(bad, url, kNow).message, HasSubstr("not valid before"));
  bad.certificate.reset();
  EXPECT_EQ(health(bad), Health::kFailed);
  EXPECT_EQ(server_certificate({}, "http://h", kNow).health, Health::kSkipped);
}

TEST(DoctorServer, JudgesClocks) {
  const auto clock = [](std::int64_t difference) {
    ServerProbe probe{.status = 200};
    probe.clock_difference = difference;
    return server_clock(probe);
  };
  EXPECT_EQ(clock(0).health, Health::kOk);
  EXPECT_EQ(clock(-200).health, Health::kOk);
  EXPECT_EQ(clock(301).health, Health::kWarning);
  EXPECT_EQ(clock(-900).health, Health::kFailed);
  EXPECT_THAT(clock(-900).message, HasSubstr("900 s ahead of"));
  EXPECT_THAT(clock(900).message, HasSubstr("900 s behind"));
  EXPECT_EQ(server_clock({.status = 200}).health, Health::kSkipped);
}

TEST(DoctorSource, IsOpened) {
  const test::TempDir dir;
  const BoundedChecks bounded(seconds(60));
  const Findings good = check_source(dir.write("m.ckpt", test::small_record("w")), bounded);
  EXPECT_EQ(good.at(0).health, Health::kOk);
  EXPECT_THAT(good.at(0).message, HasSubstr("files: 1"));
  const Findings bad = check_source(dir.write("broken.ckpt", "nonsense"), bounded);
  EXPECT_EQ(bad.at(0).health, Health::kFailed);
  EXPECT_THAT(bad.at(0).message, HasSubstr("broken.ckpt"));
}

}  // namespace
}  // namespace reshardfs
