// SPDX-License-Identifier: Apache-2.0
#include "storage/local/local_readers.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "local_readers_fixture.h"

namespace reshardfs {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::kEndless;
using test::kNone;
using test::LocalReadersTest;
using test::until;

TEST_F(LocalReadersTest, ReadManyRangesOfAFileAtOnce) {
  start({.at_once = 8, .of_file = 3, .patience = kEndless});
  const auto file = new_file();
  for (const char* name : {"1", "2", "3", "4"}) submit(file, name);
  EXPECT_EQ(sorted(3), (Names{"1", "2", "3"}));
  const auto other = new_file();
  submit(other, "other");
  EXPECT_EQ(await(4).back(), "other");
  EXPECT_EQ(readers_->figures().in_flight, 4U);
  let_go("2");
  EXPECT_EQ(await(5).back(), "4");
  EXPECT_EQ(readers_->figures().reads, 5U);
  EXPECT_EQ(readers_->figures().stuck, 0U);
}

TEST_F(LocalReadersTest, ReadWhatIsNeededFirst) {
  start({.at_once = 1, .patience = kEndless});
  const auto file = new_file();
  submit(file, "first");
  await(1);
  submit(file, "ahead", Foresight::kAhead);
  submit(file, "needed");
  let_all_go();
  EXPECT_EQ(await(3), (Names{"first", "needed", "ahead"}));
}

TEST_F(LocalReadersTest, TakeFilesInTurn) {
  start({.at_once = 1, .patience = kEndless});
  const auto one = new_file();
  const auto other = new_file();
  submit(one, "first");
  await(1);
  for (const char* name : {"a1", "a2", "a3"}) submit(one, name);
  for (const char* name : {"b1", "b2"}) submit(other, name);
  let_all_go();
  EXPECT_EQ(await(6), (Names{"first", "a1", "b1", "a2", "b2", "a3"}));
}

TEST_F(LocalReadersTest, LeaveTheirPlacesToOthersWhenAFileHangs) {
  start({.at_once = 2, .of_file = 2, .probe_interval = kNone, .patience = kNone});
  const auto hung = new_file();
  submit(hung, "h1");
  submit(hung, "h2");
  await(2);
  EXPECT_TRUE(hangs(hung));
  EXPECT_EQ(readers_->figures().stuck, 2U);
  const auto good = new_file();
  for (const char* name : {"1", "2", "3"}) {
    let_go(name);
    submit(good, name);
  }
  EXPECT_EQ(sorted(5), (Names{"1", "2", "3", "h1", "h2"}));
  let_all_go();
  until([&] { return readers_->figures().in_flight == 0; });
  EXPECT_FALSE(hangs(hung));
}

TEST_F(LocalReadersTest, LeaveAFileThatHangsUntilItAnswers) {
  start({.probe_interval = kEndless, .patience = kNone});
  const auto hung = new_file();
  submit(hung, "h1");
  await(1);
  EXPECT_EQ(readers_->answering(hung), Answering::kNo);
  submit(hung, "h2");
  EXPECT_EQ(readers_->answering(hung), Answering::kTried);
  const auto good = new_file();
  submit(good, "good");
  EXPECT_EQ(await(2), (Names{"h1", "good"}));
  let_go("h1");
  EXPECT_EQ(await(3), (Names{"h1", "good", "h2"}));
}

TEST_F(LocalReadersTest, TryAFileThatHangsNowAndThen) {
  start({.stuck_of_file = 2, .probe_interval = kNone, .patience = kNone});
  const auto hung = new_file();
  for (const char* name : {"h1", "h2", "h3"}) submit(hung, name);
  EXPECT_EQ(sorted(2), (Names{"h1", "h2"}));
  // No more than the limit says.
  const auto good = new_file();
  submit(good, "good");
  EXPECT_EQ(await(3).back(), "good");
  let_go("h2");
  EXPECT_EQ(await(4).back(), "h3");
}

/// Of a file of which none is stuck a read is always under way, however many others hang.
TEST_F(LocalReadersTest, ReadEachFileOfAFileSystemThatHangs) {
  start({.stuck_of_file_system = 2, .probe_interval = kEndless, .patience = kNone});
  const auto hanging = std::make_shared<FileSystemSpeed>();
  std::vector<LocalReaders::FilePtr> files;
  for (const char* name : {"1", "2", "3", "4"}) {
    files.push_back(LocalReaders::file_of(hanging));
    submit(files.back(), name);
    submit(files.back(), std::string(name) + " again");
    await(files.size());
    until([&] { return readers_->figures().stuck == files.size(); });
  }
  EXPECT_EQ(await(4), (Names{"1", "2", "3", "4"}));
  let_go("3");
  EXPECT_EQ(await(5).back(), "3 again");
}

/// One file's reads must not use up what others of its file system may have.
TEST_F(LocalReadersTest, AFileCountsWithAFewOfItsStuckReads) {
  start({.stuck_of_file = 32,
         .counted_of_file = 1,
         .stuck_of_file_system = 2,
         .probe_interval = kNone,
         .patience = kNone});
  const auto hanging = std::make_shared<FileSystemSpeed>();
  const auto one = LocalReaders::file_of(hanging);
  for (const char* name : {"1", "2", "3", "4"}) submit(one, name);
  EXPECT_EQ(sorted(4), (Names{"1", "2", "3", "4"})) << "it is tried again and again";
  until([&] { return readers_->figures().stuck == 4; });
  const auto other = LocalReaders::file_of(hanging);
  for (const char* name : {"5", "6", "7", "8"}) submit(other, name);
  EXPECT_EQ(sorted(6).size(), 6U);
  until([&] { return readers_->figures().stuck == 6; });
  // Now there are many: files that hang are tried less.
  const auto good = new_file();
  submit(good, "good");
  EXPECT_EQ(await(7).back(), "good");
  EXPECT_EQ(readers_->figures().reads, 7U);
}

TEST_F(LocalReadersTest, KeepThreadsForOtherFileSystems) {
  start({.at_once = 1, .threads = 3, .probe_interval = kEndless, .patience = kNone});
  const auto hanging = std::make_shared<FileSystemSpeed>();
  std::vector<LocalReaders::FilePtr> files;
  for (const char* name : {"1", "2"}) {
    files.push_back(LocalReaders::file_of(hanging));
    submit(files.back(), name);
    await(files.size());
    until([&] { return readers_->figures().stuck == files.size(); });
  }
  files.push_back(LocalReaders::file_of(hanging));
  EXPECT_EQ(readers_->answering(files.back()), Answering::kUnknown);
  submit(files.back(), "3");
  EXPECT_EQ(readers_->answering(files.back()), Answering::kTried);
  const auto good = new_file();
  submit(good, "good");
  EXPECT_EQ(await(3).back(), "good");
  let_go("good");
  let_go("1");
  EXPECT_EQ(await(4).back(), "3");
}

/// What answers is soon read as if nothing hung.
TEST_F(LocalReadersTest, ReadMoreAtOnceOfAFileThatAnswers) {
  start({.of_file = 6, .of_new_file = 2, .patience = kEndless});
  const auto file_system = std::make_shared<FileSystemSpeed>();
  file_system->add_stuck(1);
  const auto file = LocalReaders::file_of(file_system);
  for (const char* name : {"1", "2", "3", "4", "5", "6", "7", "8", "9"}) submit(file, name);
  EXPECT_EQ(sorted(2), (Names{"1", "2"}));
  EXPECT_EQ(readers_->figures().in_flight, 2U);
  EXPECT_EQ(readers_->answering(file), Answering::kUnknown);
  let_go("1");
  EXPECT_EQ(sorted(4), (Names{"1", "2", "3", "4"}));
  EXPECT_EQ(readers_->figures().in_flight, 3U);
  EXPECT_EQ(readers_->answering(file), Answering::kYes);
  let_go("2");
  EXPECT_EQ(sorted(6), (Names{"1", "2", "3", "4", "5", "6"}));
  EXPECT_EQ(readers_->figures().in_flight, 4U);
  file_system->add_stuck(-1);
  submit(file, "last");
  EXPECT_EQ(sorted(8).size(), 8U);
}

/// A file with one bad place is read elsewhere.
TEST_F(LocalReadersTest, AFileAnswersWhenAProbeComesBack) {
  start({.probe_interval = kNone, .patience = kNone});
  const auto file_system = std::make_shared<FileSystemSpeed>();
  const auto file = LocalReaders::file_of(file_system);
  submit(file, "bad");
  await(1);
  EXPECT_TRUE(hangs(file));
  // The others have seconds to come back.
  for (int i = 0; i < 100; ++i) file_system->note(1, hours(1));
  let_go("probe");
  submit(file, "probe");
  await(2);
  until([&] { return !hangs(file); });
  EXPECT_EQ(readers_->answering(file), Answering::kPartly);
  for (const char* name : {"a", "b"}) submit(file, name);
  EXPECT_EQ(sorted(4), (Names{"a", "b", "bad", "probe"})) << "two at once";
}

TEST_F(LocalReadersTest, ReadsAheadLeavePlacesToOthers) {
  start({.at_once = 2, .ahead_at_once = 1, .patience = kEndless});
  const auto file = new_file();
  for (const char* name : {"ahead 1", "ahead 2"}) submit(file, name, Foresight::kAhead);
  await(1);
  const auto other = new_file();
  submit(other, "needed");
  EXPECT_EQ(await(2), (Names{"ahead 1", "needed"}));
  EXPECT_EQ(readers_->figures().in_flight, 2U);
  let_go("ahead 1");
  let_go("needed");
  EXPECT_EQ(await(3).back(), "ahead 2");
}

TEST_F(LocalReadersTest, WaitLongerForWhatUsuallyTakesLong) {
  start({.patience = kNone});
  const auto file_system = std::make_shared<FileSystemSpeed>();
  for (int i = 0; i < 100; ++i) file_system->note(1, hours(1));
  EXPECT_GT(file_system->usual(), milliseconds(200));
  EXPECT_LE(file_system->usual(), milliseconds(250));
  const auto file = LocalReaders::file_of(file_system);
  submit(file, "late");
  await(1);
  EXPECT_FALSE(hangs(file));
  EXPECT_GT(readers_->patience(file), milliseconds(1600));
}

}  // namespace
}  // namespace reshardfs
