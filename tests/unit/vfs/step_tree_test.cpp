// SPDX-License-Identifier: Apache-2.0
#include "vfs/step_tree.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/vfs/step_tree_fixture.h"

namespace reshardfs {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing_vfs::child_names;
using testing_vfs::file_of;
using testing_vfs::Names;
using testing_vfs::resolve;
using testing_vfs::StepTreeTest;

TEST_F(StepTreeTest, ShowsAllStepsAndALinkToTheNewest) {
  const auto steps = make({"9_50", "10_50"});  // oldest first; as names, the other way round
  EXPECT_TRUE(steps->changes());
  EXPECT_THAT(shown(*steps), ElementsAre("10_50", "9_50"));
  EXPECT_EQ(latest(*steps), "steps/10_50");
  const auto tree = steps->current();
  EXPECT_THAT(child_names(*tree, tree->root()), ElementsAre("latest", "steps"));
  EXPECT_TRUE(tree->root().changing);
  EXPECT_TRUE(resolve(*tree, {"steps"})->changing);
  EXPECT_TRUE(resolve(*tree, {"latest"})->brief);
  EXPECT_TRUE(resolve(*tree, {"steps", "9_50"})->brief);
  EXPECT_TRUE(resolve(*tree, {"steps", "9_50"})->pending);
  EXPECT_TRUE(source.opened.empty());
}

TEST_F(StepTreeTest, WithoutStepsThereIsNoLink) {
  const auto steps = make({});
  EXPECT_TRUE(shown(*steps).empty());
  EXPECT_EQ(latest(*steps), "");
}

TEST_F(StepTreeTest, AStepIsOpenedWhenAskedForAndOnce) {
  const auto steps = make({"1_1", "1_22"});
  const InodeNumber before = number(*steps, {"steps", "1_22"});
  open(*steps, "1_22");
  open(*steps, "1_22");
  EXPECT_THAT(source.opened, ElementsAre("1_22"));
  const auto tree = steps->current();
  const Node* file = resolve(*tree, {"steps", "1_22", "rank_0", "a"});
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->size, 4U);
  EXPECT_EQ(file->mtime_ns, 42);
  EXPECT_FALSE(file->brief);
  EXPECT_EQ(number(*steps, {"steps", "1_22"}), before);
  EXPECT_FALSE(resolve(*tree, {"steps", "1_22"})->pending);
  EXPECT_TRUE(resolve(*tree, {"steps", "1_1"})->pending);
}

TEST_F(StepTreeTest, RefreshShowsNewStepsAndKeepsOpenOnes) {
  const auto steps = make({"1_1"});
  open(*steps, "1_1");
  const InodeNumber file = number(*steps, {"steps", "1_1", "rank_0", "a"});
  const auto old = steps->current();
  steps->refresh();
  EXPECT_EQ(steps->current(), old) << "nothing has changed";
  source.names = {"1_1", "1_2"};
  steps->refresh();
  EXPECT_THAT(shown(*steps), ElementsAre("1_1", "1_2"));
  EXPECT_EQ(latest(*steps), "steps/1_2");
  EXPECT_EQ(number(*steps, {"steps", "1_1", "rank_0", "a"}), file);
  EXPECT_THAT(source.opened, ElementsAre("1_1"));
  // What someone still looks at is as it was.
  EXPECT_EQ(old->root().children.size(), 2U);
  EXPECT_EQ(child_names(*old, *resolve(*old, {"steps"})).size(), 1U);
}

TEST_F(StepTreeTest, NumbersAreTheSameInEveryMount) {
  const auto one = make({"1_1", "1_2"});
  const auto other = make({"1_0", "1_2", "1_1"});
  for (const auto& steps : {one.get(), other.get()}) open(*steps, "1_1");
  for (const Names& names :
       {Names{"steps"}, Names{"latest"}, Names{"steps", "1_1"}, Names{"steps", "1_2"},
        Names{"steps", "1_1", "rank_0"}, Names{"steps", "1_1", "rank_0", "a"}}) {
    EXPECT_NE(number(*one, names), 0U);
    EXPECT_EQ(number(*one, names), number(*other, names));
  }
}

TEST_F(StepTreeTest, AVanishedStepIsGivenUpIfNothingOfItIsOpen) {
  const auto steps = make({"1_1", "1_2"});
  open(*steps, "1_1");
  const InodeNumber file = number(*steps, {"steps", "1_1", "rank_0", "a"});
  EXPECT_TRUE(steps->file_opened(file));
  steps->closed(steps->tree_of(file));
  EXPECT_FALSE(source.last_file.expired());
  source.names = {"1_2"};
  steps->refresh();
  EXPECT_THAT(shown(*steps), ElementsAre("1_2"));
  EXPECT_EQ(steps->current()->find(file), nullptr);
  EXPECT_TRUE(source.last_file.expired());
  EXPECT_FALSE(steps->file_opened(file));
}

TEST_F(StepTreeTest, OpenFilesOfAVanishedStepStayUntilTheLastIsClosed) {
  const auto steps = make({"1_1", "1_2"});
  open(*steps, "1_1");
  const InodeNumber file = number(*steps, {"steps", "1_1", "rank_0", "a"});
  EXPECT_TRUE(steps->file_opened(file));
  EXPECT_TRUE(steps->file_opened(file));
  source.names = {"1_2"};
  steps->refresh();
  steps->refresh();
  EXPECT_THAT(shown(*steps), ElementsAre("1_2"));
  ASSERT_NE(steps->current()->find(file), nullptr);
  EXPECT_EQ(steps->current()->find(file)->size, 3U);
  EXPECT_EQ(steps->current()->path(file), "steps/1_1/rank_0/a");
  steps->closed(steps->tree_of(file));
  EXPECT_NE(steps->current()->find(file), nullptr);
  steps->closed(steps->tree_of(file));
  EXPECT_EQ(steps->current()->find(file), nullptr);
  EXPECT_TRUE(source.last_file.expired());
}

TEST_F(StepTreeTest, AStepThatComesBackIsAnotherOne) {
  const auto steps = make({"1_1"});
  open(*steps, "1_1");
  const InodeNumber directory = number(*steps, {"steps", "1_1"});
  const InodeNumber file = number(*steps, {"steps", "1_1", "rank_0", "a"});
  EXPECT_TRUE(steps->file_opened(file));
  source.names = {};
  steps->refresh();
  EXPECT_EQ(latest(*steps), "");
  source.names = {"1_1"};
  steps->refresh();
  EXPECT_NE(number(*steps, {"steps", "1_1"}), directory);
  open(*steps, "1_1");
  EXPECT_THAT(source.opened, ElementsAre("1_1", "1_1"));
  EXPECT_NE(number(*steps, {"steps", "1_1", "rank_0", "a"}), file);
  EXPECT_NE(steps->current()->find(file), nullptr);
  steps->closed(steps->tree_of(file));
  EXPECT_EQ(steps->current()->find(file), nullptr);
  EXPECT_THAT(shown(*steps), ElementsAre("1_1"));
}

TEST_F(StepTreeTest, AStepThatWasSavedAgainIsAnotherOne) {
  source.tells_contents = true;
  const auto steps = make({"1_1", "1_2"});
  open(*steps, "1_1");
  const InodeNumber directory = number(*steps, {"steps", "1_1"});
  const InodeNumber unopened = number(*steps, {"steps", "1_2"});
  const InodeNumber file = number(*steps, {"steps", "1_1", "rank_0", "a"});
  EXPECT_TRUE(steps->file_opened(file));
  steps->refresh();
  EXPECT_THAT(source.listed_as_open, ElementsAre("1_1"));
  EXPECT_EQ(number(*steps, {"steps", "1_1"}), directory) << "nothing has changed";

  source.version = "saved again";
  steps->refresh();
  EXPECT_NE(number(*steps, {"steps", "1_1"}), directory);
  EXPECT_EQ(number(*steps, {"steps", "1_2"}), unopened) << "nobody has seen the old one";
  EXPECT_NE(steps->current()->find(file), nullptr) << "who has it open may go on";
  open(*steps, "1_1");
  EXPECT_NE(number(*steps, {"steps", "1_1", "rank_0", "a"}), file);
  steps->closed(steps->tree_of(file));
  EXPECT_EQ(steps->current()->find(file), nullptr);
  EXPECT_THAT(shown(*steps), ElementsAre("1_1", "1_2"));
}

TEST_F(StepTreeTest, WhatWasSavedAgainIsTriedAtOnce) {
  source.tells_contents = true;
  const auto steps = make({"1_1"});
  steps->refresh();
  source.open_error = Error(ErrorKind::kBadInput, "broken");
  EXPECT_THROW(open(*steps, "1_1"), Error);
  source.open_error.reset();
  EXPECT_THROW(open(*steps, "1_1"), Error);
  source.version = "saved again";
  steps->refresh();
  EXPECT_NO_THROW(open(*steps, "1_1"));
}

TEST_F(StepTreeTest, TellsWhetherThereIsMoreToList) {
  const auto steps = make({"1_1"});
  EXPECT_FALSE(steps->refresh());
  source.has_more = true;
  EXPECT_TRUE(steps->refresh());
  source.list_error = Error(ErrorKind::kIo, "unreachable");
  EXPECT_FALSE(steps->refresh());
}

TEST_F(StepTreeTest, AFailureIsToldOnceAndTriedAgainLater) {
  const auto steps = make({"1_1", "1_2"});
  source.open_error = Error(ErrorKind::kBadInput, "broken");
  for (int i = 0; i < 3; ++i) EXPECT_THROW(open(*steps, "1_1"), Error);
  EXPECT_EQ(source.opened.size(), 1U);
  EXPECT_THAT(source.reports, ElementsAre("1_1: broken"));
  source.now = source.now.load() + StepTree::kRetryAfter;
  EXPECT_THROW(open(*steps, "1_1"), Error);
  EXPECT_EQ(source.opened.size(), 2U);
  EXPECT_EQ(source.reports.size(), 1U) << "the same problem";
  EXPECT_THAT(shown(*steps), ElementsAre("1_1", "1_2"));

  source.open_error.reset();
  open(*steps, "1_2");  // other steps are not concerned
  source.now = source.now.load() + StepTree::kRetryAfter;
  open(*steps, "1_1");
  EXPECT_NE(number(*steps, {"steps", "1_1", "rank_0", "a"}), 0U);
}

TEST_F(StepTreeTest, AListThatFailsChangesNothing) {
  const auto steps = make({"1_1"});
  source.list_error = Error(ErrorKind::kIo, "unreachable");
  steps->refresh();
  steps->refresh();
  EXPECT_THAT(shown(*steps), ElementsAre("1_1"));
  EXPECT_THAT(source.reports, ElementsAre(": unreachable"));
  source.list_error.reset();
  steps->refresh();
  source.list_error = Error(ErrorKind::kIo, "unreachable");
  steps->refresh();
  EXPECT_EQ(source.reports.size(), 2U) << "it had been well in between";
  EXPECT_THROW(StepTree(source.callbacks()), Error);
}

TEST_F(StepTreeTest, AStepThatVanishesWhileItIsOpenedIsMissing) {
  const auto steps = make({"1_1", "1_2"});
  source.while_opening = [&] {
    source.names = {"1_2"};
    steps->refresh();  // no lock is held: this would not return
  };
  const InodeNumber directory = number(*steps, {"steps", "1_1"});
  EXPECT_THROW(steps->open_directory(directory), Error);
  EXPECT_THROW(steps->open_directory(directory), Error);
  EXPECT_THROW(steps->open_directory(kRootInode), Error);
  EXPECT_TRUE(source.reports.empty());
}

Names numbered(std::size_t count) {
  Names names;
  for (std::size_t i = 0; i < count; ++i) names.push_back("1_" + std::to_string(10 + i));
  return names;
}

TEST_F(StepTreeTest, FoldsTheStepsThatWereUsedLongestAgo) {
  const Names names = numbered(StepTree::kMostIdle + 2);
  const auto steps = make(names);
  std::vector<std::weak_ptr<const VirtualFile>> files;
  for (const std::string& name : names) {
    source.now = source.now.load() + 1s;
    open(*steps, name);
    files.push_back(source.last_file);
  }
  const auto is_open = [&](std::size_t i) {
    return !resolve(*steps->current(), {"steps", names[i]})->pending;
  };
  EXPECT_FALSE(is_open(0));
  EXPECT_FALSE(is_open(1));
  EXPECT_TRUE(files[0].expired()) << "its sources are closed";
  for (std::size_t i = 2; i < names.size(); ++i) EXPECT_TRUE(is_open(i));
  EXPECT_THAT(shown(*steps), testing::SizeIs(names.size()));
}

TEST_F(StepTreeTest, AFoldedStepComesBackUnderTheSameNumbers) {
  const Names names = numbered(StepTree::kMostIdle + 1);
  const auto steps = make(names);
  open(*steps, names[0]);
  const InodeNumber directory = number(*steps, {"steps", names[0]});
  const InodeNumber file = number(*steps, {"steps", names[0], "rank_0", "a"});
  EXPECT_FALSE(steps->can_reopen(file)) << "it is open";
  for (std::size_t i = 1; i < names.size(); ++i) {
    source.now = source.now.load() + 1s;
    open(*steps, names[i]);
  }
  EXPECT_EQ(steps->current()->find(file), nullptr);
  EXPECT_FALSE(steps->file_opened(file)) << "its node is not there";
  EXPECT_TRUE(steps->can_reopen(file));
  EXPECT_EQ(steps->current()->find(directory)->mtime_ns, 42) << "that of the files, as before";
  steps->refresh();
  EXPECT_TRUE(resolve(*steps->current(), {"steps", names[0]})->pending) << "nothing needs it";
  steps->open_directory(file);
  EXPECT_EQ(number(*steps, {"steps", names[0]}), directory);
  EXPECT_EQ(number(*steps, {"steps", names[0], "rank_0", "a"}), file);
}

TEST_F(StepTreeTest, AFoldedStepThatHasChangedIsAnotherOne) {
  const Names names = numbered(StepTree::kMostIdle + 1);
  const auto steps = make(names);
  for (const std::string& name : names) {
    source.now = source.now.load() + 1s;
    open(*steps, name);
  }
  const InodeNumber directory = number(*steps, {"steps", names[0]});
  source.version = "written again";
  EXPECT_THROW(open(*steps, names[0]), Error);
  EXPECT_NE(number(*steps, {"steps", names[0]}), directory);
  EXPECT_FALSE(steps->can_reopen(directory));
  open(*steps, names[0]);
}

TEST_F(StepTreeTest, FoldsNoStepWithAnOpenFile) {
  const Names names = numbered(StepTree::kMostIdle + 3);
  const auto steps = make(names);
  open(*steps, names[0]);
  const InodeNumber file = number(*steps, {"steps", names[0], "rank_0", "a"});
  ASSERT_TRUE(steps->file_opened(file));
  for (std::size_t i = 1; i < names.size(); ++i) {
    source.now = source.now.load() + StepTree::kIdleFor;
    open(*steps, names[i]);
  }
  source.now = source.now.load() + StepTree::kIdleFor;
  steps->refresh();
  EXPECT_NE(steps->current()->find(file), nullptr);
  steps->closed(steps->tree_of(file));
  steps->refresh();
  EXPECT_NE(steps->current()->find(file), nullptr) << "it has just been used";
  source.now = source.now.load() + StepTree::kIdleFor;
  steps->refresh();
  EXPECT_EQ(steps->current()->find(file), nullptr);
}

// A job that saves every minute and keeps the last 20: a week of it.
TEST_F(StepTreeTest, HoldsAFewOfTenThousandSteps) {
  const auto steps = make({"1_100000"});
  std::vector<std::weak_ptr<const VirtualFile>> files;
  std::size_t most = 0;
  for (int step = 1; step <= 10'000; ++step) {
    source.now = source.now.load() + 60s;
    source.names.push_back("1_" + std::to_string(100'000 + step));
    if (source.names.size() > 20) source.names.erase(source.names.begin());
    steps->refresh();
    open(*steps, source.names.back());
    files.push_back(source.last_file);
    std::erase_if(files, [](const auto& file) { return file.expired(); });
    most = std::max(most, files.size());
  }
  EXPECT_LE(most, StepTree::kMostIdle);
  EXPECT_THAT(shown(*steps), testing::SizeIs(20));
}

TEST_F(StepTreeTest, MayBeUsedByManyThreads) {
  const auto steps = make({"1_1", "1_2"});
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const auto tree = steps->current();
        for (const InodeNumber step : resolve(*tree, {"steps"})->children) {
          try {
            if (tree->find(step)->name == "1_1") steps->open_directory(step);
          } catch (const Error&) {
            // It has vanished.
          }
        }
        const InodeNumber file = number(*steps, {"steps", "1_1", "rank_0", "a"});
        if (file != 0 && steps->file_opened(file)) {
          EXPECT_NE(steps->current()->find(file), nullptr);
          steps->closed(steps->tree_of(file));
        }
      }
    });
  }
  for (int i = 0; i < 300; ++i) {
    source.names = i % 2 == 0 ? Names{"1_2"} : Names{"1_1", "1_2"};
    steps->refresh();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace reshardfs
