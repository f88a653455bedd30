// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/handover_state.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/version.h"
#include "daemon/handover/memory_record.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

Json versioned_members() {
  return {{"version", handover_versions().newest},
          {"read-by", handover_versions().oldest},
          {"program", kVersion}};
}

HandoverState state_of_a_mount() {
  HandoverState state;
  state.mountpoint = "/m";
  state.trees = {{.version = 1}};
  return state;
}

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
  EXPECT_FALSE(decode_state(encode(state_of_a_mount())).mount);
  EXPECT_EQ(again.program, kVersion);
}

/// With members in the order in which they were added, as a state has them.
std::string text_of(const Json& json) {
  return json.dump();
}

// Processes of other versions read it.
TEST(HandoverState, IsJsonWithBytesEscaped) {
  OpenState open;
  open.texts = {{~std::uint64_t{0}, "a%\xff\n\x7f\"é"}};
  Json json = versioned_members();
  json["texts"] = {{~std::uint64_t{0}, "a%25%ff%0a%7f\"é"}};
  json["listings"] = Json::array();
  EXPECT_EQ(encode(open), text_of(json));
  json.erase("listings");
  json["unknown"] = {1.5, nullptr, {{"a", "b"}}};
  json["listings"] = {{8, "%00", "what a later version adds"}};
  const OpenState again = decode_open_state(text_of(json));
  EXPECT_EQ(again.texts.at(0).handle, ~std::uint64_t{0});
  EXPECT_EQ(again.texts.at(0).bytes, open.texts[0].bytes);
  EXPECT_EQ(again.listings.at(0).bytes, std::string(1, '\0'));
}

TEST(HandoverState, KeepsEveryByte) {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  OpenState state;
  state.texts = {{7, every}, {9, ""}};
  state.listings = {{8, "€" + every + "%41"}};
  const OpenState again = decode_open_state(encode(state));
  ASSERT_EQ(again.texts.size(), 2U);
  EXPECT_EQ(again.texts[0].handle, 7U);
  EXPECT_EQ(again.texts[0].bytes, every);
  EXPECT_EQ(again.texts[1].bytes, "");
  ASSERT_EQ(again.listings.size(), 1U);
  EXPECT_EQ(again.listings[0].bytes, state.listings[0].bytes);
}

TEST(HandoverState, KeepsManyNamesAndOpenFilesInLittle) {
  constexpr std::size_t kMany = 100'000;
  std::vector<KnownName> names;
  OpenState open;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < kMany; ++i) {
    const std::string name = "checkpoint_\xff" + std::to_string(i) + ".ckpt";
    names.push_back({.directory = ~i, .inode = ~std::uint64_t{0}, .name = name});
    open.texts.push_back({i, name});
    bytes += name.size();
  }
  const std::string text = encode(names);
  EXPECT_LT(text.size(), bytes + 60 * kMany);
  const std::vector<KnownName> again = decode_names(text);
  ASSERT_EQ(again.size(), kMany);
  EXPECT_EQ(again.back().directory, names.back().directory);
  EXPECT_EQ(again.back().inode, names.back().inode);
  EXPECT_FALSE(again.back().is_directory);
  EXPECT_EQ(again.back().name, names.back().name);
  const std::string opened = encode(open);
  EXPECT_LT(opened.size(), bytes + 20 * kMany);
  EXPECT_EQ(decode_open_state(opened).texts.back().bytes, names.back().name);
}

TEST(HandoverState, OfAnotherVersionIsRefused) {
  Json json = versioned_members();
  json["read-by"] = handover_versions().newest + 1;
  json["program"] = "99";
  test::expect_error(ErrorKind::kUnsupported, {"reshardfs 99", "unmount"},
                     [&] { decode_names(text_of(json)); });
  json["version"] = handover_versions().oldest - 1;
  json["read-by"] = 0;
  test::expect_error(ErrorKind::kUnsupported, {"reshardfs 99", "unmount"},
                     [&] { decode_names(text_of(json)); });
  json.erase("program");
  test::expect_error(ErrorKind::kUnsupported, {"is incomplete", "program"},
                     [&] { decode_names(text_of(json)); });
  // What version 1 begins with, which was no JSON.
  test::expect_error(ErrorKind::kUnsupported, {"not readable", "unmount"},
                     [&] { decode_state("\xa9gis-new\xf4"); });
}

TEST(HandoverState, IsRefusedWhereAMemberIsNoGood) {
  const auto with = [](const char* key, const Json& value) {
    auto json = Json::parse(encode(state_of_a_mount()));
    json[key] = value;
    return text_of(json);
  };
  EXPECT_NO_THROW(decode_state(with("processes", 1)));
  for (const Json& value : {Json(-1), Json(1.5), Json("1"), Json(nullptr)}) {
    test::expect_error(ErrorKind::kUnsupported, {"processes"},
                       [&] { decode_state(with("processes", value)); });
  }
  for (const char* text : {"%", "a%4", "%zz", "%-1"}) {
    test::expect_error(ErrorKind::kUnsupported, {"mountpoint"},
                       [&] { decode_state(with("mountpoint", text)); });
  }
  test::expect_error(ErrorKind::kUnsupported, {"tree"},
                     [&] { decode_state(with("trees", Json::array())); });
  test::expect_error(ErrorKind::kUnsupported, {"record"},
                     [&] { decode_state(with("record", Json::array())); });
}

TEST(HandoverState, IsRefusedWhereItCannotBeRead) {
  const std::string whole = encode(state_of_a_mount());
  EXPECT_THROW(decode_state(""), Error);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(decode_state(whole.substr(0, length)), Error) << length;
  }
  EXPECT_THROW(decode_open_state(whole), Error);
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
