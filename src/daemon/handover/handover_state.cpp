// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/handover_state.h"

#include <algorithm>
#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_reader.h"
#include "base/json/json_writer.h"
#include "base/text/numbers.h"
#include "base/text/utf8.h"
#include "base/version.h"

namespace reshardfs {
namespace {

// --- bytes as texts ------------------------------------------------------------------------------

constexpr char kEscape = '%';

/// Whether it stands for itself in JSON and here. On aarch64, no char is negative.
bool is_plain(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x80 && !is_control_byte(c) && c != kEscape;
}

/// "%XX" for each byte that is no UTF-8, each control character and the percent sign, so that JSON
/// has nearly all of the rest as it is.
std::string escaped(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    auto length = static_cast<std::size_t>(std::find_if_not(bytes.begin(), bytes.end(), is_plain) -
                                           bytes.begin());
    const bool is_ascii = static_cast<unsigned char>(bytes.front()) < 0x80;
    if (!is_ascii) length = utf8_length(bytes, 0);
    text.append(bytes, 0, length);
    if (length == 0) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      text.append({kEscape, kDigits[byte >> 4U], kDigits[byte & 0xfU]});
      length = 1;
    }
    bytes.remove_prefix(length);
  }
  return text;
}

/// @return nothing: it was not escaped so.
std::optional<std::string> unescaped(std::string_view text) {
  constexpr std::size_t kEscapedBytes = 3;
  std::string bytes;
  bytes.reserve(text.size());
  for (;;) {
    const std::size_t plain = std::min(text.find(kEscape), text.size());
    bytes.append(text, 0, plain);
    text.remove_prefix(plain);
    if (text.empty()) return bytes;
    const auto byte = parse_number<unsigned char>(text.substr(1, kEscapedBytes - 1), 16);
    if (!byte || text.size() < kEscapedBytes) return std::nullopt;
    bytes += static_cast<char>(*byte);
    text.remove_prefix(kEscapedBytes);
  }
}

// --- what a state has ----------------------------------------------------------------------------

/// Of that type, to be written or to be read.
template <typename Given, typename Value>
concept Of = std::same_as<std::remove_const_t<Given>, Value>;

void members(auto& member, Of<MountEntry> auto& mount) {
  member("id", mount.id);
  member("device", mount.device);
  member("mountpoint", mount.mountpoint);
  member("type", mount.type);
  member("source", mount.source);
}

void members(auto& member, Of<Negotiation> auto& negotiation) {
  member("request", negotiation.request);
  member("reply", negotiation.reply);
}

void members(auto& member, Of<FileStamp> auto& stamp) {
  member("device", stamp.device);
  member("inode", stamp.inode);
  member("ctime", stamp.ctime_ns);
}

void members(auto& member, Of<SavedInput> auto& file) {
  member("path", file.path);
  member("bytes", file.bytes);
  member("mtime", file.mtime_ns);
  member("stamp", file.stamp);
}

void members(auto& member, Of<MountedTree> auto& tree) {
  member("version", tree.version);
  member("subject", tree.subject);
  member("words", tree.words);
  member("source", tree.source);
  member("step", tree.step);
  member("series", tree.series);
  member("inputs", tree.inputs);
}

void members(auto& member, Of<ReloadRequests> auto& requests) {
  member("taken", requests.taken);
  member("to-replace", requests.to_replace);
  member("attempted", requests.attempted);
  member("answered", requests.answered);
  member("granted", requests.granted);
  member("replaced", requests.replaced);
}

void members(auto& member, Of<MountRecord> auto& record) {
  member("upgrades", record.upgrades);
  member("crashes", record.crashes);
  member("mounted-at", record.mounted_at);
  member("last-at", record.last_at);
  member("reloads", record.reloads);
  member("crash-times-ms", record.crash_times_ms);
  member("replaced", record.replaced);
  member("requests", record.requests);
}

void members(auto& member, Of<HandoverState> auto& state) {
  member("mountpoint", state.mountpoint);
  member("mount", state.mount);
  member("init", state.negotiation);
  member("trees", state.trees);
  member("is-new", state.is_new);
  member("processes", state.processes);
  member("record", state.record);
}

/// There may be very many, so that they have no keys.
void members(auto& member, Of<KnownName> auto& name) {
  member({}, name.directory);
  member({}, name.inode);
  member({}, name.is_directory);
  member({}, name.name);
}

void members(auto& member, Of<std::vector<KnownName>> auto& names) {
  member("names", names);
}

void members(auto& member, Of<HeldText> auto& text) {
  member({}, text.handle);
  member({}, text.bytes);
}

void members(auto& member, Of<OpenState> auto& state) {
  member("texts", state.texts);
  member("listings", state.listings);
}

/// Whether its members are a list, without keys.
template <typename Value>
constexpr bool kIsList = Of<Value, KnownName> || Of<Value, HeldText>;

// --- writing -------------------------------------------------------------------------------------

class StateWriter {
 public:
  template <typename Value>
  void operator()(std::string_view key, const Value& value) {
    if (!key.empty()) json_.key(key);
    put(value);
  }

  /// What every state begins with: its version, and the oldest that reads it.
  template <typename State>
  std::string whole(const State& state) {
    const HandoverVersions versions = handover_versions();
    json_.open_object();
    (*this)("version", versions.newest);
    (*this)("read-by", versions.oldest);
    (*this)("program", std::string_view(kVersion));
    members(*this, state);
    json_.close_object();
    return json_.take();
  }

 private:
  void put(bool value) { json_.boolean(value); }
  void put(std::string_view bytes) { json_.text(escaped(bytes)); }
  void put(const std::string& bytes) { put(std::string_view(bytes)); }
  void put(const std::filesystem::path& path) { put(std::string_view(path.native())); }
  template <std::integral Number>
  void put(Number number) {
    json_.number(number);
  }
  template <typename Value>
  void put(const std::optional<Value>& value) {
    value ? put(*value) : json_.null();
  }
  template <typename Value>
  void put(const std::vector<Value>& values) {
    json_.open_list();
    for (const Value& value : values) put(value);
    json_.close_list();
  }
  template <typename Value>
  requires std::is_class_v<Value>
  void put(const Value& value) {
    kIsList<Value> ? json_.open_list() : json_.open_object();
    members(*this, value);
    kIsList<Value> ? json_.close_list() : json_.close_object();
  }

  JsonWriter json_;
};

// --- reading -------------------------------------------------------------------------------------

Error refusal(const std::string& why) {
  return Error(ErrorKind::kUnsupported, why).hint("unmount, and mount with this program");
}

class StateReader {
 public:
  explicit StateReader(std::string_view text) : json_(text) {}

  /// The next member of that name. @throws Error kUnsupported
  template <typename Value>
  void operator()(std::string_view key, Value& out) {
    if (!key.empty()) key_ = key;
    do {
      if (!json_.next()) refuse();
    } while (!key.empty() && json_.key() != key);
    take(out);
  }

  /// @throws Error kUnsupported, kBadInput
  template <typename State>
  void whole(State& out) {
    unsigned version = 0;
    unsigned read_by = 0;
    json_.require(JsonKind::kObject);
    json_.enter();
    (*this)("version", version);
    (*this)("read-by", read_by);
    (*this)("program", program_);
    const HandoverVersions own = handover_versions();
    if (version < own.oldest || read_by > own.newest) {
      throw refusal("reshardfs " + printable(program_) + " hands mounts over in version " +
                    std::to_string(version) + ", and this program, " + kVersion +
                    ", takes them in version " + std::to_string(own.newest));
    }
    members(*this, out);
    leave();
    json_.finish();
  }

  /// Version of the program that wrote it.
  const std::string& program() const noexcept { return program_; }

 private:
  [[noreturn]] void refuse() const {
    throw refusal("the record of the mount's other process is incomplete: no valid " +
                  std::string(key_));
  }
  void expect(JsonKind kind) {
    if (json_.kind() != kind) refuse();
  }
  void leave() {
    while (json_.next()) {
    }
  }

  void take(bool& out) {
    expect(JsonKind::kBoolean);
    out = json_.integer() != 0;
  }
  void take(std::string& out) {
    expect(JsonKind::kText);
    auto bytes = unescaped(json_.text());
    if (!bytes) refuse();
    out = std::move(*bytes);
  }
  void take(std::filesystem::path& out) {
    std::string text;
    take(text);
    out = std::move(text);
  }
  template <std::unsigned_integral Number>
  void take(Number& out) {
    const auto number = json_.unsigned_integer();
    if (!number || !std::in_range<Number>(*number)) refuse();
    out = static_cast<Number>(*number);
  }
  void take(std::int64_t& out) {
    expect(JsonKind::kInteger);
    out = json_.integer();
  }
  template <typename Value>
  void take(std::optional<Value>& out) {
    if (json_.kind() != JsonKind::kNull) take(out.emplace());
  }
  template <typename Value>
  void take(std::vector<Value>& out) {
    expect(JsonKind::kList);
    json_.enter();
    while (json_.next()) take(out.emplace_back());
  }
  template <typename Value>
  requires std::is_class_v<Value>
  void take(Value& out) {
    expect(kIsList<Value> ? JsonKind::kList : JsonKind::kObject);
    json_.enter();
    members(*this, out);
    leave();
  }

  JsonReader json_;
  std::string program_;
  std::string_view key_;  ///< of the member that was asked for last
};

/// @throws Error kUnsupported
template <typename State>
State decoded(const std::string& text) {
  try {
    State state;
    StateReader reader(text);
    reader.whole(state);
    if constexpr (std::same_as<State, HandoverState>) state.program = reader.program();
    return state;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput) throw;
    throw refusal("the record of the mount's other process is not readable");
  }
}

}  // namespace

std::string encode(const HandoverState& state) {
  return StateWriter().whole(state);
}

HandoverState decode_state(const std::string& text) {
  auto state = decoded<HandoverState>(text);
  if (state.trees.empty()) {
    throw refusal("the record of the mount's other process is incomplete: no tree");
  }
  return state;
}

std::string encode(const std::vector<KnownName>& names) {
  return StateWriter().whole(names);
}

std::vector<KnownName> decode_names(const std::string& text) {
  return decoded<std::vector<KnownName>>(text);
}

std::string encode(const OpenState& state) {
  return StateWriter().whole(state);
}

OpenState decode_open_state(const std::string& text) {
  return decoded<OpenState>(text);
}

}  // namespace reshardfs
