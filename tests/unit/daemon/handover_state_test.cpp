// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/handover_state.h"

#include <unistd.h>

#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "daemon/handover/memory_record.h"

namespace reshardfs {
namespace {

TEST(HandoverState, ComesBackAsItWas) {
  HandoverState state;
  state.program = "9.8";
  state.mountpoint = "/mnt/\xff not UTF-8";
  state.mount = MountEntry{.id = 17,
                           .device = "0:42",
                           .mountpoint = state.mountpoint,
                           .type = "fuse.reshardfs",
                           .source = "/data"};
  state.negotiation = {std::string("in\0it", 5), std::string("re\0ply", 6)};
  state.trees = {{.version = 1,
                  .subject = "{}",
                  .words = {"mount", "/a b", "\xff"},
                  .source = "/s",
                  .step = "9_50"},
                 {.version = 3, .subject = "{1}", .words = {}, .source = "", .step = ""}};
  state.is_new = true;
  state.processes = 3;
  state.record.upgrades = 2;
  state.record.crashes = 1;
  state.record.crash_times_ms = {5, 6};
  state.record.requests = {
      .taken = 9, .to_replace = 8, .attempted = 7, .answered = 6, .granted = 5, .replaced = 4};
  const HandoverState again = decode_state(encode(state));
  EXPECT_EQ(again.mountpoint, state.mountpoint);
  ASSERT_TRUE(again.mount);
  EXPECT_EQ(again.mount->id, 17);
  EXPECT_EQ(again.mount->device, "0:42");
  EXPECT_EQ(again.negotiation.request, state.negotiation.request);
  EXPECT_EQ(again.negotiation.reply, state.negotiation.reply);
  ASSERT_EQ(again.trees.size(), 2U);
  EXPECT_EQ(again.trees[0].version, 1U);
  EXPECT_EQ(again.trees[0].subject, "{}");
  EXPECT_EQ(again.trees[0].words, state.trees[0].words);
  EXPECT_EQ(again.trees[0].source, "/s");
  EXPECT_EQ(again.trees[0].step, "9_50");
  EXPECT_EQ(again.trees[1].version, 3U);
  EXPECT_TRUE(again.is_new);
  EXPECT_EQ(again.processes, 3U);
  EXPECT_EQ(again.record.upgrades, 2U);
  EXPECT_EQ(again.record.crash_times_ms, state.record.crash_times_ms);
  const ReloadRequests& requests = again.record.requests;
  EXPECT_EQ(requests.taken, 9U);
  EXPECT_EQ(requests.to_replace, 8U);
  EXPECT_EQ(requests.attempted, 7U);
  EXPECT_EQ(requests.answered, 6U);
  EXPECT_EQ(requests.granted, 5U);
  EXPECT_EQ(requests.replaced, 4U);
  EXPECT_FALSE(decode_state(encode(HandoverState{})).mount);
}

TEST(HandoverState, IsRefusedWhereItCannotBeRead) {
  const std::string whole = encode(HandoverState{});
  EXPECT_THROW(decode_state(""), Error);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(decode_state(whole.substr(0, length)), Error) << length;
  }
  EXPECT_THROW(decode_open_state(whole), Error);
}

TEST(HandoverState, KeepsTextsOfOpenFiles) {
  OpenState state;
  state.texts = {{7, std::string("a\0b", 3)}, {9, ""}};
  const OpenState again = decode_open_state(encode(state));
  ASSERT_EQ(again.texts.size(), 2U);
  EXPECT_EQ(again.texts[0].handle, 7U);
  EXPECT_EQ(again.texts[0].bytes, state.texts[0].bytes);
}

TEST(MemoryRecord, HoldsTheTextThatWasWrittenLast) {
  MemoryRecord record;
  EXPECT_EQ(record.read(), "");
  for (const std::size_t size : std::initializer_list<std::size_t>{3, 100000, 0, 1, 5000}) {
    const std::string text(size, static_cast<char>('a' + size % 20));
    record.write(text);
    EXPECT_EQ(record.read(), text);
    EXPECT_EQ(MemoryRecord(Descriptor(::dup(record.descriptor()))).read(), text);
  }
}

}  // namespace
}  // namespace reshardfs
