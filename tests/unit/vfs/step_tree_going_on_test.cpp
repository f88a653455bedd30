// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/vfs/step_tree_fixture.h"
#include "vfs/step_tree.h"

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_vfs::Names;

/// A StepTree that another one goes on with.
class StepTreeGoingOn : public testing_vfs::StepTreeTest {
 protected:
  std::unique_ptr<StepTree> begin(Names names) {
    auto steps = make(std::move(names));
    keep(*steps);
    return steps;
  }
  void keep(StepTree& steps) {
    steps.save_through([this](const std::string& text) { saved = text; });
  }
  std::unique_ptr<StepTree> go_on(bool after_crash = false) {
    source.opened.clear();
    return std::make_unique<StepTree>(source.callbacks(),
                                      StepTree::GoingOn{saved, count(), after_crash});
  }
  TreeSource::CountOpenings count() {
    return [this](std::uint64_t tree) { return openings[tree]; };
  }
  /// As the table of openings does.
  InodeNumber open_file(StepTree& steps, const std::string& step) {
    open(steps, step);
    const InodeNumber file = number(steps, {"steps", step, "rank_0", "a"});
    EXPECT_TRUE(steps.file_opened(file));
    ++openings[steps.tree_of(file)];
    return file;
  }

  std::string saved;
  std::map<std::uint64_t, std::uint64_t> openings;
};

TEST_F(StepTreeGoingOn, ShowsTheSameUnderTheSameNumbers) {
  const auto before = begin({"1", "22", "333"});
  open(*before, "22");
  const auto after = go_on();
  EXPECT_THAT(source.opened, ElementsAre("22"));
  for (const char* step : {"1", "22", "333"}) {
    EXPECT_EQ(number(*after, {"steps", step}), number(*before, {"steps", step})) << step;
  }
  EXPECT_EQ(number(*after, {"steps", "22", "rank_0", "a"}),
            number(*before, {"steps", "22", "rank_0", "a"}));
  EXPECT_EQ(latest(*after), "steps/333");
}

TEST_F(StepTreeGoingOn, AfterACrashOpensOnlyWhatIsInUse) {
  const auto before = begin({"1", "22"});
  const InodeNumber file = open_file(*before, "1");
  open(*before, "22");
  const auto after = go_on(/*after_crash=*/true);
  EXPECT_THAT(source.opened, ElementsAre("1"));
  EXPECT_NE(after->current()->find(file), nullptr);
  // And the others soon.
  after->refresh();
  EXPECT_THAT(source.opened, ElementsAre("1", "22"));
  EXPECT_EQ(number(*after, {"steps", "22", "rank_0", "a"}),
            number(*before, {"steps", "22", "rank_0", "a"}));
}

TEST_F(StepTreeGoingOn, AVanishedStepLivesUntilItsLastFileIsClosed) {
  const auto before = begin({"1", "22"});
  const InodeNumber file = open_file(*before, "1");
  source.names = {"22"};
  before->refresh();
  const auto after = go_on();
  EXPECT_THAT(shown(*after), ElementsAre("22"));
  ASSERT_NE(after->current()->find(file), nullptr);
  after->closed(after->tree_of(file));
  EXPECT_EQ(after->current()->find(file), nullptr);
}

TEST_F(StepTreeGoingOn, AStepThatComesBackNeverHasItsOldNumber) {
  const auto before = begin({"1", "22"});
  const InodeNumber first = number(*before, {"steps", "1"});
  source.names = {"22"};
  before->refresh();
  const auto after = go_on();
  source.names = {"1", "22"};
  after->refresh();
  EXPECT_NE(number(*after, {"steps", "1"}), 0U);
  EXPECT_NE(number(*after, {"steps", "1"}), first);
}

TEST_F(StepTreeGoingOn, AnOtherStepOfTheSameNameIsAnotherOne) {
  const auto before = begin({"1", "22"});
  open(*before, "1");
  const InodeNumber first = number(*before, {"steps", "1"});
  source.version = "other";
  const auto after = go_on();
  EXPECT_NE(number(*after, {"steps", "1"}), first);
  // After a crash that is found out when it is opened.
  const auto crashed = go_on(/*after_crash=*/true);
  EXPECT_EQ(number(*crashed, {"steps", "1"}), first);
  EXPECT_THROW(open(*crashed, "1"), Error);
  EXPECT_NE(number(*crashed, {"steps", "1"}), first);
  EXPECT_NO_THROW(open(*crashed, "1"));
}

TEST_F(StepTreeGoingOn, AStepInUseThatHasChangedIsRefused) {
  const auto before = begin({"1", "22"});
  open_file(*before, "1");
  source.version = "other";
  try {
    go_on();
    FAIL() << "it goes on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kChanged);
    EXPECT_THAT(error.what(), HasSubstr("step 1 open"));
  }
  source.reports.clear();
  const auto after = go_on(/*after_crash=*/true);
  EXPECT_THAT(source.reports, ElementsAre(HasSubstr("step 1 open")));
  EXPECT_THAT(shown(*after), ElementsAre("1", "22"));
}

TEST_F(StepTreeGoingOn, AfterACrashASourceThatFailsIsWaitedFor) {
  const auto before = begin({"1", "22"});
  const InodeNumber file = open_file(*before, "1");
  source.open_error = Error(ErrorKind::kIo, "unreachable");
  EXPECT_THROW(go_on(/*after_crash=*/true), Error);
  EXPECT_TRUE(source.reports.empty());
  source.open_error.reset();
  EXPECT_NE(go_on(/*after_crash=*/true)->current()->find(file), nullptr);
}

TEST_F(StepTreeGoingOn, LearnsWhatHasHappenedSince) {
  const auto before = begin({"1", "22"});
  const auto after = go_on();
  // The other process serves on.
  source.names = {"22", "333", "4444"};
  before->refresh();
  const InodeNumber file = open_file(*before, "333");
  after->recall(saved, count());
  EXPECT_THAT(shown(*after), ElementsAre("22", "333", "4444"));
  EXPECT_EQ(latest(*after), "steps/4444");
  EXPECT_NE(after->current()->find(file), nullptr);
  EXPECT_EQ(number(*after, {"steps", "22"}), number(*before, {"steps", "22"}));
}

TEST_F(StepTreeGoingOn, SavesEachChangeBeforeItIsSeen) {
  const auto before = begin({"1"});
  bool is_seen = false;
  before->save_through([&](const std::string& text) {
    is_seen = shown(*before).size() > 1;
    saved = text;
  });
  source.names = {"1", "22"};
  before->refresh();
  EXPECT_FALSE(is_seen);
  EXPECT_THAT(shown(*go_on()), ElementsAre("1", "22"));
}

TEST_F(StepTreeGoingOn, AListingIsOfItsGeneration) {
  const auto before = begin({"1", "22"});
  const auto listing = before->current();
  source.names = {"22", "333"};
  before->refresh();
  const auto after = go_on();
  const auto restored = after->restore_listing(before->save_listing(*listing));
  const Node* const directory = restored->lookup(kRootInode, "steps");
  ASSERT_NE(directory, nullptr);
  EXPECT_THAT(testing_vfs::child_names(*restored, *directory), ElementsAre("1", "22"));
  EXPECT_EQ(directory->children, listing->lookup(kRootInode, "steps")->children);
  EXPECT_EQ(restored->lookup(kRootInode, "latest")->link, "steps/22");
}

TEST_F(StepTreeGoingOn, WhatCannotBeReadIsRefused) {
  saved = "{";
  EXPECT_THROW(go_on(), Error);
  saved = "{}";
  EXPECT_THROW(go_on(), Error);
}

}  // namespace
}  // namespace reshardfs
