// SPDX-License-Identifier: Apache-2.0
/// What the readers of slow files do with reads that are stuck, and behind a fork.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "local_readers_fixture.h"
#include "storage/local/local_readers.h"
#include "support/no_threads.h"

namespace reshardfs {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::kEndless;
using test::kNone;
using test::LocalReadersTest;
using test::until;

/// Its reads have long to come back.
void make_patient(FileSystemSpeed& file_system) {
  for (int i = 0; i < 100; ++i) file_system.note(1, hours(1));
}

TEST_F(LocalReadersTest, WithoutAnyThreadTheCallerReads) {
  start({.threads = 0});
  std::thread::id reader;
  readers_->submit(new_file(), Foresight::kNow, [&] { reader = std::this_thread::get_id(); });
  EXPECT_EQ(reader, std::this_thread::get_id());
}

TEST_F(LocalReadersTest, WhereNoThreadCanBeStartedTheCallerReads) {
  const NoThreads none;
  start({});
  std::thread::id reader;
  readers_->submit(new_file(), Foresight::kNow, [&] { reader = std::this_thread::get_id(); });
  EXPECT_EQ(reader, std::this_thread::get_id());
  EXPECT_EQ(readers_->figures().reads, 0U);
}

/// Each may find that the thread of the one before has ended.
TEST_F(LocalReadersTest, ThreadsThatEndLeaveTheirPlaces) {
  start({.threads = 1, .patience = kEndless, .idle = kNone});
  let_all_go();
  const auto file = new_file();
  for (std::size_t count = 1; count <= 200; ++count) {
    submit(file, std::to_string(count));
    EXPECT_EQ(await(count).size(), count);
    until([&] { return readers_->figures().in_flight == 0; });
  }
}

TEST_F(LocalReadersTest, OneThreadReadsWhatOthersAskForMeanwhileAndLater) {
  start({.threads = 1, .patience = kEndless, .idle = kEndless});
  submit(new_file(), "1");
  await(1);
  submit(new_file(), "2");
  let_all_go();
  EXPECT_EQ(await(2), (Names{"1", "2"}));
  for (std::size_t count = 3; count <= 100; ++count) {
    until([&] { return readers_->figures().in_flight == 0; });
    submit(new_file(), std::to_string(count));
    EXPECT_EQ(await(count).size(), count);
  }
}

TEST_F(LocalReadersTest, KeepNoFileThatIsNotRead) {
  start({.patience = kEndless});
  let_all_go();
  auto file = new_file();
  const std::weak_ptr<LocalReaders::File> kept = file;
  submit(file, "1");
  submit(file, "2");
  file = nullptr;
  until([&] { return kept.expired(); });
}

TEST_F(LocalReadersTest, CountTheStuckOnesAmongThoseUnderWay) {
  start({.patience = kNone});
  submit(new_file(), "1");
  submit(new_file(), "2");
  await(2);
  EXPECT_EQ(readers_->figures().stuck, 2U);
  EXPECT_EQ(readers_->figures().in_flight, 2U);
}

TEST_F(LocalReadersTest, FindWhatIsStuckBehindWhatIsNot) {
  start({.patience = kNone});
  const auto patient = std::make_shared<FileSystemSpeed>();
  make_patient(*patient);
  submit(LocalReaders::file_of(patient), "patient");
  await(1);
  const auto stuck = new_file();
  submit(stuck, "stuck");
  await(2);
  EXPECT_TRUE(hangs(stuck));
}

/// Nobody else looks at them.
TEST_F(LocalReadersTest, NoticeByThemselvesWhatIsStuck) {
  start({.at_once = 1, .probe_interval = kEndless, .patience = milliseconds(1), .idle = kEndless});
  let_go("0");
  submit(new_file(), "0");
  until([&] { return readers_->figures().reads == 1 && readers_->figures().in_flight == 0; });
  for (const char* name : {"1", "2", "3"}) submit(new_file(), name);
  EXPECT_EQ(sorted(4), (Names{"0", "1", "2", "3"}));
  submit(new_file(), "4");
  EXPECT_EQ(await(5).back(), "4");
}

TEST_F(LocalReadersTest, AFileBeginsWithOneReadWhereManyAreStuck) {
  start({.stuck_of_file_system = 1, .probe_interval = kEndless, .patience = kNone});
  const auto file_system = std::make_shared<FileSystemSpeed>();
  submit(LocalReaders::file_of(file_system), "stuck");
  await(1);
  EXPECT_EQ(readers_->figures().stuck, 1U);
  make_patient(*file_system);
  const auto file = LocalReaders::file_of(file_system);
  submit(file, "1");
  await(2);
  submit(file, "2");
  submit(new_file(), "good");
  EXPECT_EQ(await(3), (Names{"stuck", "1", "good"}));
}

TEST_F(LocalReadersTest, WhatWasStuckAndHasComeBackCountsNoMore) {
  start({.counted_of_file = 1,
         .stuck_of_file_system = 2,
         .probe_interval = kNone,
         .patience = kNone});
  const auto file_system = std::make_shared<FileSystemSpeed>();
  for (const char* name : {"1", "2"}) submit(LocalReaders::file_of(file_system), name);
  await(2);
  until([&] { return readers_->figures().stuck == 2; });
  let_go("1");
  let_go("2");
  until([&] { return readers_->figures().in_flight == 0; });
  const auto file = LocalReaders::file_of(file_system);
  for (const char* name : {"a", "b", "c", "d"}) submit(file, name);
  EXPECT_EQ(sorted(6), (Names{"1", "2", "a", "b", "c", "d"})) << "it is tried again and again";
}

TEST_F(LocalReadersTest, ReadWhatComesAgainAfterAFork) {
  start({.at_once = 1, .probe_interval = kEndless, .patience = kNone});
  const auto file = new_file();
  submit(file, "stuck");
  await(1);
  EXPECT_EQ(readers_->answering(file), Answering::kNo);
  submit(file, "needed");
  submit(file, "ahead", Foresight::kAhead);
  const pid_t child = ::fork();
  if (child == 0) {
    LocalReaders own({.patience = kEndless});
    if (own.answering(file) != Answering::kYes) ::_exit(1);
    std::promise<void> needed;
    std::promise<void> ahead;
    own.submit(file, Foresight::kNow, [&] { needed.set_value(); });
    own.submit(file, Foresight::kAhead, [&] { ahead.set_value(); });
    needed.get_future().wait();
    ahead.get_future().wait();
    ::_exit(own.figures().reads == 2 ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace reshardfs
