// SPDX-License-Identifier: Apache-2.0
/// What processes of a mount tell each other: whole, or an error.
#include "daemon/handover/handover.h"

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/handover/handover_state.h"
#include "failing_allocations.h"
#include "vfs/saved_steps.h"

namespace reshardfs::no_memory {
namespace {

/// Encodes a state, reads what that gave, and encodes what was read.
template <typename State, typename Decode>
void comes_back_or_fails(const State& state, Decode&& decode) {
  const std::string expected = encode(state);
  EXPECT_EQ(encode(decode(expected)), expected);
  std::string got;
  with_each_failing(
      Threads::kThisOne,
      [&] {
        got.clear();
        const std::string bytes = encode(state);
        got = encode(decode(bytes));
      },
      [&] { EXPECT_TRUE(got.empty() || got == expected); });
}

TEST(HandedOver, StateComesBackOrFails) {
  HandoverState state;
  state.mountpoint = "/a mount point that no short string has";
  state.mount = MountEntry{.id = 17,
                           .device = "0:42",
                           .mountpoint = state.mountpoint,
                           .type = "fuse.reshardfs",
                           .source = "/a source that no short string has"};
  state.negotiation = {std::string(100, '\0'), std::string(80, '\1')};
  state.trees = {{.version = 1, .subject = std::string(300, '{'), .words = {"mount", "--step"}},
                 {.version = 2, .subject = std::string(400, '{'), .words = {"mount"}}};
  state.record.crash_times_ms = {5, 6};
  comes_back_or_fails(state, [](const std::string& bytes) { return decode_state(bytes); });
}

TEST(HandedOver, NamesComeBackOrFail) {
  const std::vector<KnownName> names{{1, 2, true, "rank_0"},
                                     {2, 3, false, "a name that no short string has.ckpt"}};
  comes_back_or_fails(names, [](const std::string& bytes) { return decode_names(bytes); });
}

TEST(HandedOver, OpenTextsComeBackOrFail) {
  OpenState state;
  state.texts = {{7, std::string(100, 'a')}, {9, ""}};
  state.listings = {{8, std::string(100, 'b')}};
  comes_back_or_fails(state, [](const std::string& bytes) { return decode_open_state(bytes); });
}

TEST(HandedOver, StepsComeBackOrFail) {
  SavedSteps steps;
  steps.steps = {{1, "9_50", true, std::string(64, 'a')}, {2, "9_60", false, ""}};
  steps.used = {3, 4};
  steps.newest = "9_50";
  steps.changed_ns = -5;
  comes_back_or_fails(steps, [](const std::string& bytes) { return decode_steps(bytes); });
}

TEST(HandedOver, MessagesComeOrFail) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const HandoverSocket one{Descriptor(ends[0])};
  const HandoverSocket other{Descriptor(ends[1])};
  HandoverMessage message;
  message.step = HandoverStep::kFailed;
  message.versions = {1, 2};
  message.text = "a reason that no short string has, to be told to the other process";
  const auto is_whole = [&message](const std::optional<HandoverMessage>& got) {
    return got && got->step == message.step && got->versions.newest == 2 &&
           got->text == message.text;
  };
  constexpr std::chrono::milliseconds kAtOnce{0};
  std::optional<HandoverMessage> got;
  bool is_sent = false;
  with_each_failing(
      Threads::kThisOne,
      [&] {
        got.reset();
        is_sent = one.send(message);
        got = other.receive(kAtOnce);
      },
      [&] {
        if (got) {
          EXPECT_TRUE(is_sent && is_whole(got));
        }
        // What came while there was no memory may be lost, and what is said then is not.
        while (other.receive(kAtOnce)) continue;
        EXPECT_TRUE(one.send(message));
        EXPECT_TRUE(is_whole(other.receive(kAtOnce)));
      });
}

}  // namespace
}  // namespace reshardfs::no_memory
