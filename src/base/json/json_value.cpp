// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_value.h"

#include <algorithm>
#include <limits>

#include "reshardfs/error.h"

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

[[noreturn]] void exceeded(const std::string& what) {
  throw Error(ErrorKind::kBadInput, "has " + what + ", which is the limit");
}

/// Takes one value with all that is in it, without a call for each level.
class ValueTaker {
 public:
  ValueTaker(JsonReader& reader, const JsonLimits& limits, JsonNodes& out)
      : reader_(reader), limits_(limits), out_(out) {}

  void take() {
    take_value(JsonNode{});
    while (!open_.empty()) {
      JsonNode& around = out_.nodes[open_.back()];
      if (!reader_.next()) {
        around.end = node_count();
        open_.pop_back();
      } else if (around.kind == JsonKind::kObject) {
        take_member(around);
      } else {
        ++around.size;
        take_value(JsonNode{});
      }
    }
  }

 private:
  std::uint32_t node_count() const { return static_cast<std::uint32_t>(out_.nodes.size()); }

  void take_member(JsonNode& object) {
    const std::string_view key = reader_.key();
    object.end = node_count();  // for now
    if (limits_.keys && JsonValue(out_, open_.back()).find(key)) {
      throw Error(ErrorKind::kBadInput,
                  "its key '" + printable(std::string(key)) + "' appears twice");
    }
    if (limits_.keys && object.size == *limits_.keys) {
      exceeded("an object of more than " + std::to_string(*limits_.keys) + " keys");
    }
    ++object.size;
    JsonNode node;
    node.key_at = add_text(key);
    node.key_size = static_cast<std::uint32_t>(key.size());
    const auto& unneeded = limits_.unneeded;
    // Kept all the same, so that it is noticed when it comes again.
    if (std::find(unneeded.begin(), unneeded.end(), key) != unneeded.end()) return add(node);
    take_value(node);
  }

  void take_value(JsonNode node) {
    node.kind = reader_.kind();
    switch (node.kind) {
      case JsonKind::kNull:
        break;
      case JsonKind::kBoolean:
      case JsonKind::kInteger:
        node.integer = reader_.integer();
        break;
      case JsonKind::kOtherNumber:
      case JsonKind::kText:
        node.text_at = add_text(reader_.text());
        node.size = static_cast<std::uint32_t>(reader_.text().size());
        break;
      case JsonKind::kList:
      case JsonKind::kObject:
        if (open_.size() == limits_.depth) {
          throw Error(ErrorKind::kBadInput, "is nested too deeply");
        }
        reader_.enter();
        open_.push_back(node_count());
        break;
    }
    add(node);
  }

  void add(JsonNode node) {
    if (out_.nodes.size() == limits_.values) {
      exceeded("more than " + std::to_string(limits_.values) + " values");
    }
    node.end = node_count() + 1;
    out_.nodes.push_back(node);
  }

  std::uint32_t add_text(std::string_view text) {
    if (text.size() > limits_.text_bytes - out_.text.size()) {
      exceeded("texts of more than " + std::to_string(limits_.text_bytes) + " bytes");
    }
    const auto at = static_cast<std::uint32_t>(out_.text.size());
    out_.text += text;
    return at;
  }

  JsonReader& reader_;
  const JsonLimits& limits_;
  JsonNodes& out_;
  std::vector<std::uint32_t> open_;  ///< positions of the lists and objects that have no end yet
};

}  // namespace

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  std::optional<JsonValue> found;
  for (const JsonValue value : *this) {
    if (value.key() == key) found = value;
  }
  return found;
}

JsonValue JsonValue::operator[](std::string_view key) const {
  static const JsonNodes kNone{.nodes = {{}}, .text = {}};
  return find(key).value_or(JsonValue(kNone, 0));
}

std::uint64_t JsonValue::count() const {
  const auto value = unsigned_integer();
  return value ? *value : 0;
}

std::optional<std::uint64_t> JsonValue::unsigned_integer() const {
  if (const auto value = integer()) {
    return *value < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(*value));
  }
  if (kind() != JsonKind::kOtherNumber) return std::nullopt;
  return parse_number<std::uint64_t>(text_bytes());
}

bool JsonValue::is_same(const JsonValue& other) const {
  const std::size_t count = node().end - at_;
  if (other.node().end - other.at_ != count) return false;
  // The order of the nodes and their sizes tell the lists and objects that they are in.
  for (std::size_t i = 0; i < count; ++i) {
    const JsonValue a(*nodes_, at_ + i);
    const JsonValue b(*other.nodes_, other.at_ + i);
    if (a.kind() != b.kind() || a.node().size != b.node().size ||
        a.node().integer != b.node().integer || a.text_bytes() != b.text_bytes() ||
        (i > 0 && a.key() != b.key())) {
      return false;
    }
  }
  return true;
}

bool is_same_json(const std::optional<JsonValue>& a, const std::optional<JsonValue>& b) {
  if (!a || !b) return (!a || a->is_null()) && (!b || b->is_null());
  return a->is_same(*b);
}

void read_json_value(JsonReader& reader, const JsonLimits& limits, JsonNodes& out) {
  out.clear();
  ValueTaker(reader, limits, out).take();
}

std::optional<JsonDocument> JsonDocument::parse(std::string_view text, std::size_t max_depth) {
  JsonDocument document;
  try {
    JsonReader reader(text, {.max_depth = max_depth});
    // Not more than a few times the text, which is in memory as it is.
    constexpr std::size_t kAll = std::numeric_limits<std::uint32_t>::max();
    read_json_value(reader, {.values = kAll, .text_bytes = kAll}, document.nodes_);
    reader.finish();
  } catch (const Error&) {
    return std::nullopt;
  }
  return document;
}

}  // namespace reshardfs
