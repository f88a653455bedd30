// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/handover_state.h"

#include <unistd.h>

#include <initializer_list>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/version.h"
#include "daemon/handover/memory_record.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using Json = nlohmann::json;

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
  state.trees[1].inputs = {
      {.path = "/s/\xff", .bytes = "{}\xff", .mtime_ns = -7, .stamp = {1, 2, -3}}};
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
  EXPECT_TRUE(again.trees[0].inputs.empty());
  ASSERT_EQ(again.trees[1].inputs.size(), 1U);
  const SavedInput& input = again.trees[1].inputs.front();
  EXPECT_EQ(input.path, "/s/\xff");
  EXPECT_EQ(input.bytes, "{}\xff");
  EXPECT_EQ(input.mtime_ns, -7);
  EXPECT_EQ(input.stamp.device, 1U);
  EXPECT_EQ(input.stamp.inode, 2U);
  EXPECT_EQ(input.stamp.ctime_ns, -3);
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

Json binary(const std::string& bytes) {
  return Json::binary({bytes.begin(), bytes.end()});
}

Json versioned() {
  return {{"version", handover_versions().newest},
          {"read-by", handover_versions().oldest},
          {"program", kVersion}};
}

std::string to_bytes(const Json& json) {
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

// Processes of other versions read it, and write it by nlohmann's library.
TEST(HandoverState, HasTheBytesThatItAlwaysHad) {
  HandoverState state;
  state.mountpoint = "/m\xff";
  state.mount =
      MountEntry{.id = -1, .device = "0:42", .mountpoint = "/m", .type = "t", .source = ""};
  state.negotiation = {std::string("in\0it", 5), "reply"};
  state.trees = {{.version = 3, .subject = std::string(300, 's'), .words = {"mount", "\xff"}}};
  state.is_new = true;
  state.processes = 70'000;
  state.record.mounted_at = 1'700'000'000;
  state.record.crash_times_ms = {-5, 6};
  state.record.requests.taken = 9;
  Json json = versioned();
  json["mountpoint"] = binary("/m\xff");
  json["mount"] = {{"id", -1},
                   {"device", "0:42"},
                   {"mountpoint", binary("/m")},
                   {"type", "t"},
                   {"source", binary("")}};
  json["init"] = binary(state.negotiation.request);
  json["init-reply"] = binary("reply");
  json["subject"] = binary(state.trees[0].subject);
  json["is-new"] = true;
  json["trees"] = {{{"version", 3},
                    {"subject", binary(state.trees[0].subject)},
                    {"words", {binary("mount"), binary("\xff")}},
                    {"source", binary("")},
                    {"step", binary("")},
                    {"series", binary("")},
                    {"inputs", Json::array()}}};
  json["processes"] = 70'000;
  json["record"] = {{"upgrades", 0},
                    {"crashes", 0},
                    {"mounted-at", 1'700'000'000},
                    {"last-at", 0},
                    {"reloads", 0},
                    {"crash-times-ms", {-5, 6}},
                    {"replaced", 0},
                    {"requests",
                     {{"taken", 9},
                      {"to-replace", 0},
                      {"attempted", 0},
                      {"answered", 0},
                      {"granted", 0},
                      {"replaced", 0}}}};
  EXPECT_EQ(encode(state), to_bytes(json));
  // What older programs do not write.
  json.erase("trees");
  json.erase("is-new");
  json.erase("mount");
  json["record"].erase("requests");
  json["record"].erase("replaced");
  json["more"] = {1.5, nullptr, {{"a", "b"}}};
  const HandoverState old = decode_state(to_bytes(json));
  ASSERT_EQ(old.trees.size(), 1U);
  EXPECT_EQ(old.trees[0].subject, state.trees[0].subject);
  EXPECT_FALSE(old.is_new);
  EXPECT_FALSE(old.mount);
  EXPECT_EQ(old.record.requests.taken, 0U);

  json = versioned();
  json["names"] = {{1, ~std::uint64_t{0}, true, binary("a")}, {2, 3, false, binary("\xff")}};
  const std::vector<KnownName> names{{1, ~std::uint64_t{0}, true, "a"}, {2, 3, false, "\xff"}};
  EXPECT_EQ(encode(names), to_bytes(json));
  EXPECT_EQ(encode(decode_names(to_bytes(json))), to_bytes(json));
  json = versioned();
  json["texts"] = {{{"handle", 7}, {"bytes", binary("a")}}};
  json["listings"] = Json::array();
  OpenState open;
  open.texts = {{7, "a"}};
  EXPECT_EQ(encode(open), to_bytes(json));
}

TEST(HandoverState, OfAnotherVersionIsRefused) {
  Json json = versioned();
  json["read-by"] = handover_versions().newest + 1;
  json["program"] = "99";
  test::expect_error(ErrorKind::kUnsupported, {"reshardfs 99", "unmount"},
                     [&] { decode_names(to_bytes(json)); });
  json.erase("program");
  test::expect_error(ErrorKind::kUnsupported, {"lacks something", "program"},
                     [&] { decode_names(to_bytes(json)); });
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
