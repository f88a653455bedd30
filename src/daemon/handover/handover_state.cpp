// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/handover_state.h"

#include <exception>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/version.h"

namespace reshardfs {
namespace {

using PlainJson = nlohmann::json;

/// Bytes that need not be a text.
PlainJson binary(const std::string& bytes) {
  return PlainJson::binary({bytes.begin(), bytes.end()});
}

std::string bytes_in(const PlainJson& json) {
  const auto& bytes = json.get_binary();
  return {bytes.begin(), bytes.end()};
}

std::string bytes_of(const PlainJson& json, const char* key) {
  return bytes_in(json.at(key));
}

std::string to_bytes(const PlainJson& json) {
  std::string bytes;
  PlainJson::to_cbor(json, bytes);
  return bytes;
}

/// Every state begins with its version, and with the oldest that reads it.
PlainJson versioned() {
  const HandoverVersions versions = handover_versions();
  return {{"version", versions.newest}, {"read-by", versions.oldest}, {"program", kVersion}};
}

/// @throws Error kUnsupported
PlainJson from_bytes(const std::string& bytes) {
  PlainJson json = PlainJson::from_cbor(bytes, /*strict=*/true, /*allow_exceptions=*/false);
  const HandoverVersions own = handover_versions();
  if (!json.is_object()) {
    throw Error(ErrorKind::kUnsupported, "what the mount's other process has kept is not readable");
  }
  const auto version = json.at("version").get<unsigned>();
  const auto read_by = json.at("read-by").get<unsigned>();
  if (version < own.oldest || read_by > own.newest) {
    throw Error(ErrorKind::kUnsupported, "reshardfs " + json.at("program").get<std::string>() +
                                             " hands mounts over in version " +
                                             std::to_string(version) + ", and this program, " +
                                             kVersion + ", takes them in version " +
                                             std::to_string(own.newest))
        .hint("unmount, and mount with this program");
  }
  return json;
}

template <typename Read>
auto reading(const std::string& bytes, Read&& read) {
  try {
    return read(from_bytes(bytes));
  } catch (const PlainJson::exception& error) {
    throw Error(
        ErrorKind::kUnsupported,
        std::string("what the mount's other process has kept lacks something: ") + error.what());
  }
}

PlainJson json_of(const MountEntry& mount) {
  return {{"id", mount.id},
          {"device", mount.device},
          {"mountpoint", binary(mount.mountpoint)},
          {"type", mount.type},
          {"source", binary(mount.source)}};
}

PlainJson json_of(const std::vector<HeldText>& held) {
  PlainJson json = PlainJson::array();
  for (const HeldText& text : held) {
    json.push_back({{"handle", text.handle}, {"bytes", binary(text.bytes)}});
  }
  return json;
}

std::vector<HeldText> held_of(const PlainJson& json) {
  std::vector<HeldText> held;
  for (const PlainJson& text : json) held.push_back({text.at("handle"), bytes_of(text, "bytes")});
  return held;
}

MountEntry mount_of(const PlainJson& json) {
  MountEntry mount;
  mount.id = json.at("id");
  mount.device = json.at("device");
  mount.mountpoint = bytes_of(json, "mountpoint");
  mount.type = json.at("type");
  mount.source = bytes_of(json, "source");
  return mount;
}

PlainJson json_of(const MountedTree& tree) {
  PlainJson words = PlainJson::array();
  for (const std::string& word : tree.words) words.push_back(binary(word));
  return {{"version", tree.version},
          {"subject", binary(tree.subject)},
          {"words", words},
          {"source", binary(tree.source)},
          {"step", binary(tree.step)},
          {"series", binary(tree.series)}};
}

MountedTree tree_of(const PlainJson& json) {
  MountedTree tree;
  tree.version = json.at("version");
  tree.subject = bytes_of(json, "subject");
  for (const PlainJson& word : json.at("words")) tree.words.push_back(bytes_in(word));
  tree.source = bytes_of(json, "source");
  tree.step = bytes_of(json, "step");
  if (json.contains("series")) tree.series = bytes_of(json, "series");
  return tree;
}

PlainJson json_of(const ReloadRequests& requests) {
  return {{"taken", requests.taken},         {"to-replace", requests.to_replace},
          {"attempted", requests.attempted}, {"answered", requests.answered},
          {"granted", requests.granted},     {"replaced", requests.replaced}};
}

ReloadRequests requests_of(const PlainJson& json) {
  return {json.at("taken"),    json.at("to-replace"), json.at("attempted"),
          json.at("answered"), json.at("granted"),    json.at("replaced")};
}

PlainJson json_of(const MountRecord& record) {
  return {{"upgrades", record.upgrades},     {"crashes", record.crashes},
          {"mounted-at", record.mounted_at}, {"last-at", record.last_at},
          {"reloads", record.reloads},       {"crash-times-ms", record.crash_times_ms},
          {"replaced", record.replaced},     {"requests", json_of(record.requests)}};
}

MountRecord record_of(const PlainJson& json) {
  MountRecord record;
  record.upgrades = json.at("upgrades");
  record.crashes = json.at("crashes");
  record.mounted_at = json.at("mounted-at");
  record.last_at = json.at("last-at");
  record.reloads = json.at("reloads");
  record.replaced = json.value("replaced", std::uint64_t{0});
  record.crash_times_ms = json.at("crash-times-ms").get<std::vector<std::int64_t>>();
  if (json.contains("requests")) record.requests = requests_of(json.at("requests"));
  return record;
}

}  // namespace

std::string encode(const HandoverState& state) {
  PlainJson json = versioned();
  json["mountpoint"] = binary(state.mountpoint);
  if (state.mount) json["mount"] = json_of(*state.mount);
  json["init"] = binary(state.negotiation.request);
  json["init-reply"] = binary(state.negotiation.reply);
  // What is shown, for programs that know of no former trees.
  json["subject"] = binary(state.trees.empty() ? std::string() : state.trees.back().subject);
  json["is-new"] = state.is_new;
  json["trees"] = PlainJson::array();
  for (const MountedTree& tree : state.trees) json["trees"].push_back(json_of(tree));
  json["processes"] = state.processes;
  json["record"] = json_of(state.record);
  return to_bytes(json);
}

HandoverState decode_state(const std::string& bytes) {
  return reading(bytes, [](const PlainJson& json) {
    HandoverState state;
    state.program = json.at("program");
    state.mountpoint = bytes_of(json, "mountpoint");
    if (json.contains("mount")) state.mount = mount_of(json.at("mount"));
    state.negotiation = {bytes_of(json, "init"), bytes_of(json, "init-reply")};
    for (const PlainJson& tree : json.value("trees", PlainJson::array())) {
      state.trees.push_back(tree_of(tree));
    }
    state.is_new = json.value("is-new", false);
    if (state.trees.empty()) state.trees.push_back({.subject = bytes_of(json, "subject")});
    state.processes = json.at("processes");
    state.record = record_of(json.at("record"));
    return state;
  });
}

std::string encode(const std::vector<KnownName>& names) {
  PlainJson json = versioned();
  json["names"] = PlainJson::array();
  for (const KnownName& name : names) {
    json["names"].push_back({name.directory, name.inode, name.is_directory, binary(name.name)});
  }
  return to_bytes(json);
}

std::vector<KnownName> decode_names(const std::string& bytes) {
  return reading(bytes, [](const PlainJson& json) {
    std::vector<KnownName> names;
    for (const PlainJson& name : json.at("names")) {
      names.push_back({name.at(0), name.at(1), name.at(2), bytes_in(name.at(3))});
    }
    return names;
  });
}

std::string encode(const OpenState& state) {
  PlainJson json = versioned();
  json["texts"] = json_of(state.texts);
  json["listings"] = json_of(state.listings);
  return to_bytes(json);
}

OpenState decode_open_state(const std::string& bytes) {
  return reading(bytes, [](const PlainJson& json) {
    OpenState state;
    state.texts = held_of(json.at("texts"));
    state.listings = held_of(json.value("listings", PlainJson::array()));
    return state;
  });
}

}  // namespace reshardfs
