// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/handover_state.h"

#include <concepts>
#include <map>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/version.h"
#include "daemon/handover/cbor.h"

namespace reshardfs {
namespace {

// --- writing -------------------------------------------------------------------------------------

using Members = std::map<std::string_view, std::string>;

/// Every state begins with its version, and with the oldest that reads it.
Members versioned() {
  const HandoverVersions versions = handover_versions();
  return {{"version", cbor_number(versions.newest)},
          {"read-by", cbor_number(versions.oldest)},
          {"program", cbor_text(kVersion)}};
}

template <typename Values, typename Write>
std::string list_of(const Values& values, Write&& write) {
  std::string bytes = cbor_list(values.size());
  for (const auto& value : values) bytes += write(value);
  return bytes;
}

std::string cbor_of(const MountEntry& mount) {
  return cbor_map({{"id", cbor_number(mount.id)},
                   {"device", cbor_text(mount.device)},
                   {"mountpoint", cbor_bytes(mount.mountpoint)},
                   {"type", cbor_text(mount.type)},
                   {"source", cbor_bytes(mount.source)}});
}

std::string cbor_of(const std::vector<HeldText>& held) {
  return list_of(held, [](const HeldText& text) {
    return cbor_map({{"handle", cbor_number(text.handle)}, {"bytes", cbor_bytes(text.bytes)}});
  });
}

std::string cbor_of(const SavedInput& file) {
  return cbor_map({{"path", cbor_bytes(file.path.native())},
                   {"bytes", cbor_bytes(file.bytes)},
                   {"mtime", cbor_signed(file.mtime_ns)},
                   {"ctime", cbor_signed(file.stamp.ctime_ns)},
                   {"device", cbor_number(file.stamp.device)},
                   {"inode", cbor_number(file.stamp.inode)}});
}

std::string cbor_of(const MountedTree& tree) {
  return cbor_map(
      {{"version", cbor_number(tree.version)},
       {"subject", cbor_bytes(tree.subject)},
       {"words", list_of(tree.words, cbor_bytes)},
       {"source", cbor_bytes(tree.source)},
       {"step", cbor_bytes(tree.step)},
       {"series", cbor_bytes(tree.series)},
       {"inputs", list_of(tree.inputs, [](const SavedInput& file) { return cbor_of(file); })}});
}

std::string cbor_of(const ReloadRequests& requests) {
  return cbor_map({{"taken", cbor_number(requests.taken)},
                   {"to-replace", cbor_number(requests.to_replace)},
                   {"attempted", cbor_number(requests.attempted)},
                   {"answered", cbor_number(requests.answered)},
                   {"granted", cbor_number(requests.granted)},
                   {"replaced", cbor_number(requests.replaced)}});
}

std::string cbor_of(const MountRecord& record) {
  return cbor_map({{"upgrades", cbor_number(record.upgrades)},
                   {"crashes", cbor_number(record.crashes)},
                   {"mounted-at", cbor_number(record.mounted_at)},
                   {"last-at", cbor_number(record.last_at)},
                   {"reloads", cbor_number(record.reloads)},
                   {"crash-times-ms", list_of(record.crash_times_ms, cbor_signed)},
                   {"replaced", cbor_number(record.replaced)},
                   {"requests", cbor_of(record.requests)}});
}

// --- reading -------------------------------------------------------------------------------------

[[noreturn]] void refuse(std::string_view key) {
  throw Error(
      ErrorKind::kUnsupported,
      "what the mount's other process has kept lacks something: no good " + std::string(key));
}

CborValue member_of(const CborValue& map, std::string_view key) {
  const auto found = map.find(key);
  if (!found) refuse(key);
  return *found;
}

/// @param key for the message.
template <std::integral Number>
Number number_in(const CborValue& value, std::string_view key) {
  if constexpr (std::signed_integral<Number>) {
    const auto number = value.signed_number();
    if (!number || !std::in_range<Number>(*number)) refuse(key);
    return static_cast<Number>(*number);
  } else {
    const auto number = value.unsigned_number();
    if (!number || !std::in_range<Number>(*number)) refuse(key);
    return static_cast<Number>(*number);
  }
}

bool boolean_in(const CborValue& value, std::string_view key) {
  const auto boolean = value.boolean();
  if (!boolean) refuse(key);
  return *boolean;
}

std::string text_in(const CborValue& value, std::string_view key) {
  const auto text = value.text();
  if (!text) refuse(key);
  return std::string(*text);
}

std::string bytes_in(const CborValue& value, std::string_view key) {
  const auto bytes = value.bytes();
  if (!bytes) refuse(key);
  return std::string(*bytes);
}

std::vector<CborValue> list_in(const CborValue& value, std::string_view key) {
  auto list = value.list();
  if (!list) refuse(key);
  return std::move(*list);
}

/// A list that may be missing.
std::vector<CborValue> list_if_any(const CborValue& map, std::string_view key) {
  const auto found = map.find(key);
  return found ? list_in(*found, key) : std::vector<CborValue>();
}

template <std::integral Number>
void take(const CborValue& map, std::string_view key, Number& out) {
  out = number_in<Number>(member_of(map, key), key);
}

std::string bytes_of(const CborValue& map, std::string_view key) {
  return bytes_in(member_of(map, key), key);
}

std::string text_of(const CborValue& map, std::string_view key) {
  return text_in(member_of(map, key), key);
}

/// @throws Error kUnsupported
CborValue from_bytes(const std::string& bytes) {
  const auto value = CborValue::parse(bytes);
  const HandoverVersions own = handover_versions();
  if (!value || !value->is_map()) {
    throw Error(ErrorKind::kUnsupported, "what the mount's other process has kept is not readable");
  }
  unsigned version = 0;
  unsigned read_by = 0;
  take(*value, "version", version);
  take(*value, "read-by", read_by);
  if (version < own.oldest || read_by > own.newest) {
    throw Error(ErrorKind::kUnsupported,
                "reshardfs " + text_of(*value, "program") + " hands mounts over in version " +
                    std::to_string(version) + ", and this program, " + kVersion +
                    ", takes them in version " + std::to_string(own.newest))
        .hint("unmount, and mount with this program");
  }
  return *value;
}

std::vector<HeldText> held_of(const std::vector<CborValue>& list) {
  std::vector<HeldText> held;
  for (const CborValue& value : list) {
    HeldText text;
    take(value, "handle", text.handle);
    text.bytes = bytes_of(value, "bytes");
    held.push_back(std::move(text));
  }
  return held;
}

MountEntry mount_of(const CborValue& value) {
  MountEntry mount;
  take(value, "id", mount.id);
  mount.device = text_of(value, "device");
  mount.mountpoint = bytes_of(value, "mountpoint");
  mount.type = text_of(value, "type");
  mount.source = bytes_of(value, "source");
  return mount;
}

SavedInput saved_input_of(const CborValue& value) {
  SavedInput file{.path = bytes_of(value, "path"), .bytes = bytes_of(value, "bytes")};
  take(value, "mtime", file.mtime_ns);
  take(value, "ctime", file.stamp.ctime_ns);
  take(value, "device", file.stamp.device);
  take(value, "inode", file.stamp.inode);
  return file;
}

MountedTree tree_of(const CborValue& value) {
  MountedTree tree;
  take(value, "version", tree.version);
  tree.subject = bytes_of(value, "subject");
  for (const CborValue& word : list_in(member_of(value, "words"), "words")) {
    tree.words.push_back(bytes_in(word, "words"));
  }
  tree.source = bytes_of(value, "source");
  tree.step = bytes_of(value, "step");
  if (value.find("series")) tree.series = bytes_of(value, "series");
  for (const CborValue& file : list_if_any(value, "inputs")) {
    tree.inputs.push_back(saved_input_of(file));
  }
  return tree;
}

ReloadRequests requests_of(const CborValue& value) {
  ReloadRequests requests;
  take(value, "taken", requests.taken);
  take(value, "to-replace", requests.to_replace);
  take(value, "attempted", requests.attempted);
  take(value, "answered", requests.answered);
  take(value, "granted", requests.granted);
  take(value, "replaced", requests.replaced);
  return requests;
}

MountRecord record_of(const CborValue& value) {
  MountRecord record;
  take(value, "upgrades", record.upgrades);
  take(value, "crashes", record.crashes);
  take(value, "mounted-at", record.mounted_at);
  take(value, "last-at", record.last_at);
  take(value, "reloads", record.reloads);
  if (value.find("replaced")) take(value, "replaced", record.replaced);
  for (const CborValue& time : list_in(member_of(value, "crash-times-ms"), "crash-times-ms")) {
    record.crash_times_ms.push_back(number_in<std::int64_t>(time, "crash-times-ms"));
  }
  if (const auto requests = value.find("requests")) record.requests = requests_of(*requests);
  return record;
}

}  // namespace

std::string encode(const HandoverState& state) {
  Members members = versioned();
  members["mountpoint"] = cbor_bytes(state.mountpoint);
  if (state.mount) members["mount"] = cbor_of(*state.mount);
  members["init"] = cbor_bytes(state.negotiation.request);
  members["init-reply"] = cbor_bytes(state.negotiation.reply);
  // What is shown, for programs that know of no former trees.
  members["subject"] =
      cbor_bytes(state.trees.empty() ? std::string_view() : state.trees.back().subject);
  members["is-new"] = cbor_boolean(state.is_new);
  members["trees"] = list_of(state.trees, [](const MountedTree& tree) { return cbor_of(tree); });
  members["processes"] = cbor_number(state.processes);
  members["record"] = cbor_of(state.record);
  return cbor_map(members);
}

HandoverState decode_state(const std::string& bytes) {
  const CborValue value = from_bytes(bytes);
  HandoverState state;
  state.program = text_of(value, "program");
  state.mountpoint = bytes_of(value, "mountpoint");
  if (const auto mount = value.find("mount")) state.mount = mount_of(*mount);
  state.negotiation = {bytes_of(value, "init"), bytes_of(value, "init-reply")};
  for (const CborValue& tree : list_if_any(value, "trees")) state.trees.push_back(tree_of(tree));
  if (const auto is_new = value.find("is-new")) state.is_new = boolean_in(*is_new, "is-new");
  if (state.trees.empty()) state.trees.push_back({.subject = bytes_of(value, "subject")});
  take(value, "processes", state.processes);
  state.record = record_of(member_of(value, "record"));
  return state;
}

std::string encode(const std::vector<KnownName>& names) {
  Members members = versioned();
  members["names"] = list_of(names, [](const KnownName& name) {
    return cbor_list(4) + cbor_number(name.directory) + cbor_number(name.inode) +
           cbor_boolean(name.is_directory) + cbor_bytes(name.name);
  });
  return cbor_map(members);
}

std::vector<KnownName> decode_names(const std::string& bytes) {
  const CborValue value = from_bytes(bytes);
  std::vector<KnownName> names;
  for (const CborValue& name : list_in(member_of(value, "names"), "names")) {
    const std::vector<CborValue> parts = list_in(name, "names");
    if (parts.size() < 4) refuse("names");
    names.push_back({number_in<InodeNumber>(parts[0], "names"),
                     number_in<InodeNumber>(parts[1], "names"), boolean_in(parts[2], "names"),
                     bytes_in(parts[3], "names")});
  }
  return names;
}

std::string encode(const OpenState& state) {
  Members members = versioned();
  members["texts"] = cbor_of(state.texts);
  members["listings"] = cbor_of(state.listings);
  return cbor_map(members);
}

OpenState decode_open_state(const std::string& bytes) {
  const CborValue value = from_bytes(bytes);
  OpenState state;
  state.texts = held_of(list_in(member_of(value, "texts"), "texts"));
  state.listings = held_of(list_if_any(value, "listings"));
  return state;
}

}  // namespace reshardfs
