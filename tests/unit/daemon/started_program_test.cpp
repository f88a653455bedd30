// SPDX-License-Identifier: Apache-2.0
#include "daemon/started_program.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix/descriptor_message.h"
#include "daemon/handover/handover.h"

namespace reshardfs {
namespace {

using ::testing::ElementsAre;

TEST(StartedProgram, GoesOnWithTheSameWordsInTheSameDirectory) {
  const StartedProgram program("reshardfs", {"mount", "source", "place", "-v"});
  EXPECT_FALSE(program.is_successor());
  EXPECT_THAT(program.words(), ElementsAre("mount", "source", "place", "-v"));
  const ProgramStart start = program.successor();
  EXPECT_EQ(start.words, program.words());
  EXPECT_EQ(start.directory, std::filesystem::current_path());
  EXPECT_EQ(start.program, std::filesystem::read_symlink("/proc/self/exe"));
}

TEST(StartedProgram, TakesTheWordsOfMount8AsItsOwn) {
  StartedProgram program("/sbin/mount.reshardfs", {"source", "place", "-o", "ro"});
  program.set_words({"mount", "-o", "ro", "--", "source", "place"});
  EXPECT_EQ(program.successor().words, program.words());
}

TEST(StartedProgram, IsAProcessThatAnotherOneHasStarted) {
  auto [own, its] = message_sockets();
  const int given = ::dup(its.get());  // the program closes it
  StartedProgram program("reshardfs",
                         {"mount", kTakeOverOption, std::to_string(given), "source", "place"});
  EXPECT_TRUE(program.is_successor());
  EXPECT_THAT(program.words(), ElementsAre("mount", "source", "place"));
  EXPECT_EQ(program.predecessor(), nullptr);
  // Nobody has met it so far: it is told all the same.
  program.tell_predecessor("a wrong word");
  const auto told = HandoverSocket(std::move(own)).receive(std::chrono::seconds(60));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->step, HandoverStep::kFailed);
  EXPECT_EQ(told->text, "a wrong word");
  EXPECT_FALSE(program.is_successor());
  program.tell_predecessor("again");  // nobody is there
}

TEST(StartedProgram, WithoutAPredecessorTellsNobody) {
  StartedProgram program("reshardfs", {"inspect", "source"});
  program.meet_predecessor();
  EXPECT_EQ(program.predecessor(), nullptr);
  EXPECT_EQ(program.take_predecessor(), nullptr);
  program.tell_predecessor("nothing");
}

}  // namespace
}  // namespace reshardfs
