// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/reload_request.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using Step = ReloadRequest::Step;

/// A mount that a process has served since it was mounted.
Served mounted() {
  Served served;
  served.process = 100;
  served.requests.emplace();
  return served;
}

Served of_old_program() {
  Served served = mounted();
  served.requests.reset();
  return served;
}

void crash(Served& mount) {
  ++mount.process;
  ++mount.processes;
  ++mount.crashes;
  mount.refusal.clear();
  if (mount.requests) mount.requests->forget_unanswered();
}

void hand_over(Served& mount, bool replace = false) {
  ++mount.process;
  ++mount.processes;
  ++mount.reloads;
  mount.refusal.clear();
  if (mount.requests) mount.requests->grant(replace);
}

void refuse(Served& mount, const std::string& why) {
  ++mount.reloads;
  mount.refusal = why;
  if (mount.requests) mount.requests->refuse();
}

void take(Served& mount, bool replace) {
  mount.requests->take(replace);
}

void attempt(Served& mount) {
  mount.requests->begin_attempt();
}

TEST(ReloadRequest, IsDoneWhenItsAttemptHasEnded) {
  Served mount = mounted();
  ReloadRequest request(false, mount);
  EXPECT_EQ(request.next(mount), Step::kWait);
  take(mount, false);
  attempt(mount);
  EXPECT_EQ(request.next(mount), Step::kWait);
  hand_over(mount);
  mount.is_replacing = true;
  EXPECT_EQ(request.next(mount), Step::kWait);
  mount.is_replacing = false;
  EXPECT_EQ(request.next(mount), Step::kDone);
}

TEST(ReloadRequest, IsRefused) {
  Served mount = mounted();
  ReloadRequest request(false, mount);
  take(mount, false);
  attempt(mount);
  refuse(mount, "a reason");
  EXPECT_EQ(request.next(mount), Step::kRefused);
}

TEST(ReloadRequest, IsMadeAgainWhereTheMountAdvisesTo) {
  Served mount = mounted();
  ReloadRequest request(false, mount);
  int asked = 0;
  for (;; ++asked) {
    take(mount, false);
    attempt(mount);
    refuse(mount, "a file was open; try again");
    if (request.next(mount) != Step::kAsk) break;
  }
  EXPECT_EQ(asked, 10);
  EXPECT_EQ(request.next(mount), Step::kRefused);
}

TEST(ReloadRequest, IsMadeAgainOfTheProcessThatGoesOn) {
  for (const bool was_taken : {false, true}) {
    for (const bool was_seen : {false, true}) {
      Served mount = mounted();
      ReloadRequest request(false, mount);
      if (was_taken) {
        take(mount, false);
        attempt(mount);
      }
      if (was_seen) {
        EXPECT_EQ(request.next(mount), Step::kWait);
      }
      crash(mount);
      EXPECT_EQ(request.next(mount), Step::kAsk);
      EXPECT_EQ(request.asked(), mount.process);
      EXPECT_EQ(request.next(mount), Step::kWait);
      take(mount, false);
      attempt(mount);
      hand_over(mount);
      EXPECT_EQ(request.next(mount), Step::kDone);
    }
  }
}

TEST(ReloadRequest, IsNotMadeUntilTheMountIsGone) {
  Served mount = mounted();
  ReloadRequest request(false, mount);
  for (int i = 0; i < 2; ++i) {
    crash(mount);
    EXPECT_EQ(request.next(mount), Step::kAsk);
  }
  crash(mount);
  EXPECT_EQ(request.next(mount), Step::kCrashes);
}

TEST(ReloadRequest, IsDoneThoughTheNextProcessHasCrashed) {
  Served mount = mounted();
  ReloadRequest request(false, mount);
  take(mount, false);
  attempt(mount);
  hand_over(mount);
  crash(mount);
  EXPECT_EQ(request.next(mount), Step::kDone);
}

TEST(ReloadRequest, IsNotAnsweredByAnAttemptThatHadBegun) {
  Served mount = mounted();
  take(mount, false);
  attempt(mount);
  ReloadRequest request(false, mount);
  take(mount, false);
  hand_over(mount);
  EXPECT_EQ(request.next(mount), Step::kWait);
  attempt(mount);
  hand_over(mount);
  EXPECT_EQ(request.next(mount), Step::kDone);
}

TEST(ReloadRequest, ThatReplacesIsNotAnsweredByOneThatDoesNot) {
  Served mount = mounted();
  ReloadRequest request(true, mount);
  take(mount, false);  // its own signal may have been lost beside this one
  EXPECT_EQ(request.next(mount), Step::kAsk);
  attempt(mount);
  hand_over(mount);
  EXPECT_EQ(request.next(mount), Step::kAsk);
  take(mount, true);
  attempt(mount);
  hand_over(mount, true);
  EXPECT_EQ(request.next(mount), Step::kDone);
}

TEST(ReloadRequest, IsDoneWhereALaterOneIsRefused) {
  Served mount = mounted();
  ReloadRequest request(false, mount);
  take(mount, false);
  attempt(mount);
  hand_over(mount);
  take(mount, true);
  attempt(mount);
  refuse(mount, "a reason of the other one");
  EXPECT_EQ(request.next(mount), Step::kDone);
}

TEST(ReloadRequest, OfAnOldProgramGoesByTheCountOfAttempts) {
  Served mount = of_old_program();
  ReloadRequest request(false, mount);
  EXPECT_EQ(request.next(mount), Step::kWait);
  crash(mount);
  EXPECT_EQ(request.next(mount), Step::kAsk);
  hand_over(mount);
  mount.requests.emplace();  // to a program that counts them
  EXPECT_EQ(request.next(mount), Step::kDone);

  mount = mounted();
  ReloadRequest back(false, mount);
  take(mount, false);
  hand_over(mount);
  mount.requests.reset();
  EXPECT_EQ(back.next(mount), Step::kDone);
}

TEST(ReloadRequest, ReadsTheStatus) {
  const auto served_by = [](const char* text) {
    return served_of(JsonDocument::parse(text)->value());
  };
  const Served served = served_by(
      R"({"pid": 7, "mount": {"version": "9", "upgrades": 2, "crash_restarts": 3, "reloads": 4,
          "reload_refused": null, "replacing": true,
          "reload_requests": {"taken": 5, "to_replace": 4, "answered": 3, "granted": 2,
                              "replaced": 1}}})");
  EXPECT_EQ(served.process, 7);
  EXPECT_EQ(served.version, "9");
  EXPECT_EQ(served.processes, 5U);
  EXPECT_EQ(served.crashes, 3U);
  EXPECT_EQ(served.reloads, 4U);
  EXPECT_EQ(served.refusal, "");
  EXPECT_TRUE(served.is_replacing);
  ASSERT_TRUE(served.requests);
  EXPECT_EQ(served.requests->taken, 5U);
  EXPECT_EQ(served.requests->to_replace, 4U);
  EXPECT_EQ(served.requests->answered, 3U);
  EXPECT_EQ(served.requests->granted, 2U);
  EXPECT_EQ(served.requests->replaced, 1U);
  EXPECT_FALSE(served_by(R"({"mount": {"reloads": "x"}})").requests);
  EXPECT_EQ(served_of(JsonDocument().value()).process, 0);
}

/// A mount whose signals, attempts and crashes come in any order.
class AnyOrder {
 public:
  explicit AnyOrder(unsigned seed) : random_(seed) {
    const std::size_t count = 1 + below(3);
    for (std::size_t i = 0; i < count; ++i) commands_.push_back({.replace = below(2) == 0});
  }

  void run() {
    const std::size_t events = below(60);
    for (std::size_t i = 0; i < events; ++i) any_event();
    // From here on nothing goes wrong any more.
    for (int i = 0; i < 200 && !all_have_ended(); ++i) {
      deliver();
      end_attempt(true);
      for (Command& command : commands_) look(command);
    }
    EXPECT_TRUE(all_have_ended());
  }

 private:
  struct Command {
    bool replace = false;
    std::optional<ReloadRequest> request{};
    std::size_t begun = 0;
    bool has_ended = false;
  };
  struct Attempt {
    std::size_t begun = 0;
    bool replace = false;
    bool succeeded = false;
    bool failed = false;
  };

  std::size_t below(std::size_t limit) { return random_() % limit; }

  void any_event() {
    ++now_;
    switch (below(8)) {
      case 0:
      case 1:
        return deliver();
      case 2:
        return end_attempt(true);
      case 3:
        return end_attempt(false);
      case 4:
        if (mount_.crashes < 2) crash_now();
        return;
      default:
        return look(commands_[below(commands_.size())]);
    }
  }

  /// A second signal of the same number is lost while the first one has not been delivered.
  void send(bool replace) {
    if (!signal_) signal_ = replace;
  }

  void deliver() {
    ++now_;
    if (signal_) take(mount_, *signal_);
    signal_.reset();
    begin_attempt();
  }

  void begin_attempt() {
    ReloadRequests& requests = *mount_.requests;
    if (under_way_ || !requests.is_any_waiting()) return;
    attempts_.push_back({.begun = now_, .replace = requests.is_any_to_replace_waiting()});
    requests.begin_attempt();
    under_way_ = true;
  }

  void end_attempt(bool succeeds) {
    if (!under_way_) return;
    under_way_ = false;
    Attempt& last = attempts_.back();
    (succeeds ? last.succeeded : last.failed) = true;
    if (succeeds) {
      hand_over(mount_, last.replace);
      if (below(2) == 0) signal_.reset();  // it went with the process
    } else {
      refuse(mount_, "a reason");
    }
    ++now_;
    begin_attempt();
  }

  void crash_now() {
    crash(mount_);
    signal_.reset();
    under_way_ = false;
  }

  void look(Command& command) {
    ++now_;
    if (command.has_ended) return;
    if (!command.request) {
      command.begun = now_;
      command.request.emplace(command.replace, mount_);
      return send(command.replace);
    }
    const auto since = [&](const Attempt& attempt) { return attempt.begun > command.begun; };
    switch (command.request->next(mount_)) {
      case Step::kWait:
        return;
      case Step::kAsk:
        return send(command.replace);
      case Step::kDone:
        EXPECT_TRUE(std::any_of(attempts_.begin(), attempts_.end(), [&](const Attempt& attempt) {
          return since(attempt) && attempt.succeeded && (attempt.replace || !command.replace);
        }));
        break;
      case Step::kRefused:
        EXPECT_TRUE(std::any_of(attempts_.begin(), attempts_.end(), [&](const Attempt& attempt) {
          return since(attempt) && attempt.failed;
        }));
        break;
      case Step::kCrashes:
        ADD_FAILURE() << "of 2 crashes";
    }
    command.has_ended = true;
  }

  bool all_have_ended() const {
    return std::all_of(commands_.begin(), commands_.end(),
                       [](const Command& command) { return command.has_ended; });
  }

  std::mt19937 random_;
  Served mount_ = mounted();
  std::optional<bool> signal_;
  bool under_way_ = false;
  std::size_t now_ = 0;
  std::vector<Attempt> attempts_;
  std::vector<Command> commands_;
};

TEST(ReloadRequest, IsNeverLostNorTakenForAnotherInAnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 50000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    AnyOrder(seed).run();
  }
}

}  // namespace
}  // namespace reshardfs
