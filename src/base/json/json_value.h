// SPDX-License-Identifier: Apache-2.0
/// A JSON value that is held in memory, in two arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_reader.h"

namespace reshardfs {

struct JsonNode {
  JsonKind kind = JsonKind::kNull;
  std::uint32_t key_at = 0;  ///< in the text; of a member of an object
  std::uint32_t key_size = 0;
  std::uint32_t text_at = 0;
  std::uint32_t size = 0;    ///< bytes of a text, values in a list, members of an object
  std::uint32_t end = 0;     ///< position of the first node behind this one's
  std::int64_t integer = 0;  ///< of a boolean: 0 or 1
};

/// The nodes of a value, each before those that are in it.
struct JsonNodes {
  std::vector<JsonNode> nodes;
  std::string text;  ///< of all keys, texts, and numbers that are no integers

  void clear() {
    nodes.clear();
    text.clear();
  }
};

/// One of the values; no longer valid when the nodes change.
class JsonValue {
 public:
  JsonValue(const JsonNodes& nodes, std::size_t at) : nodes_(&nodes), at_(at) {}

  JsonKind kind() const { return node().kind; }
  bool is_null() const { return kind() == JsonKind::kNull; }
  bool is_list() const { return kind() == JsonKind::kList; }
  bool is_object() const { return kind() == JsonKind::kObject; }
  /// Nothing: it is no integer, or exceeds 64 bits with a sign.
  std::optional<std::int64_t> integer() const {
    return kind() == JsonKind::kInteger ? std::optional(node().integer) : std::nullopt;
  }
  /// Nothing: it is no integer, is negative, or exceeds 64 bits.
  std::optional<std::uint64_t> unsigned_integer() const;
  /// 0: it is none.
  std::uint64_t count() const;
  std::optional<bool> boolean() const {
    return kind() == JsonKind::kBoolean ? std::optional(node().integer != 0) : std::nullopt;
  }
  std::optional<std::string_view> text() const {
    if (kind() != JsonKind::kText) return std::nullopt;
    return std::string_view(nodes_->text).substr(node().text_at, node().size);
  }

  /// How many values a list or an object has; of others 0.
  std::size_t size() const { return is_list() || is_object() ? node().size : 0; }
  /// In an object: the name of this member.
  std::string_view key() const {
    return std::string_view(nodes_->text).substr(node().key_at, node().key_size);
  }
  /// The member of that name, of several the last, as other readers have it; it takes time in
  /// proportion to their number.
  std::optional<JsonValue> find(std::string_view key) const;
  /// The same; null if there is none.
  JsonValue operator[](std::string_view key) const;

  /// Whether both are the same, with members in the same order. Numbers that are no integers must
  /// be written alike.
  bool is_same(const JsonValue& other) const;

  class Iterator {
   public:
    Iterator(const JsonNodes& nodes, std::size_t at) : nodes_(&nodes), at_(at) {}
    JsonValue operator*() const { return {*nodes_, at_}; }
    Iterator& operator++() {
      at_ = nodes_->nodes[at_].end;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const JsonNodes* nodes_;
    std::size_t at_;
  };
  /// The values in a list or an object, in the order of the file.
  Iterator begin() const { return {*nodes_, at_ + 1}; }
  Iterator end() const { return {*nodes_, is_list() || is_object() ? node().end : at_ + 1}; }

 private:
  /// Of a text, or of a number that is no integer.
  std::string_view text_bytes() const {
    if (kind() != JsonKind::kText && kind() != JsonKind::kOtherNumber) return {};
    return std::string_view(nodes_->text).substr(node().text_at, node().size);
  }
  const JsonNode& node() const { return nodes_->nodes[at_]; }

  const JsonNodes* nodes_;
  std::size_t at_;
};

/// The same; what is not there is as null.
bool is_same_json(const std::optional<JsonValue>& a, const std::optional<JsonValue>& b);

/// Limits of a value. They bound the memory for any file.
struct JsonLimits {
  std::size_t values = 4'000'000;
  std::size_t text_bytes = 128 << 20;
  /// Of one object. With a limit, no key may stand twice in one.
  std::optional<std::size_t> keys{};
  /// Keys of objects whose values are skipped, and become null.
  std::span<const std::string_view> unneeded{};
  std::size_t depth = kMaxJsonDepth;
};

/// Takes the value that the reader stands at, instead of what the nodes had.
/// @throws Error kBadInput: what the reader throws, or a limit is exceeded, or a key stands twice.
void read_json_value(JsonReader& reader, const JsonLimits& limits, JsonNodes& out);

/// A small JSON text. Of keys that stand twice the last counts, as with other readers.
class JsonDocument {
 public:
  /// Null.
  JsonDocument() : nodes_{.nodes = {{}}, .text = {}} {}
  /// @return nothing: the text is not valid JSON, nested too deeply, or too large for JsonNode.
  static std::optional<JsonDocument> parse(std::string_view text,
                                           std::size_t max_depth = kMaxJsonDepth);

  JsonValue value() const { return {nodes_, 0}; }

 private:
  JsonNodes nodes_;
};

}  // namespace reshardfs
