// SPDX-License-Identifier: Apache-2.0
#include "format/json/json_members.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "base/json/json_reader.h"
#include "base/text/name_order.h"

namespace reshardfs {
namespace {

/// The bytes of a source, a block at a time.
class SourceInput final : public JsonInput {
 public:
  explicit SourceInput(const ByteSource& source) : source_(source), block_(kBlockBytes) {}

  std::string_view next_bytes() override {
    const std::uint64_t left = source_.size() - at_;
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, block_.size()));
    if (size > 0) source_.read_at(at_, std::as_writable_bytes(std::span(block_).first(size)));
    at_ += size;
    return {block_.data(), size};
  }

 private:
  static constexpr std::size_t kBlockBytes = 256 << 10;

  const ByteSource& source_;
  std::vector<char> block_;
  std::uint64_t at_ = 0;
};

/// The value that the reader stands at: a member.
void read_member(JsonReader& reader, const std::string& name, const JsonLimits& limits,
                 JsonNodes& out) {
  try {
    read_json_value(reader, limits, out);
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kBadInput) error.for_parameter(name);
    throw;
  }
}

}  // namespace

void read_json_members(const ByteSource& source, std::span<const std::string_view> objects,
                       std::span<const std::string_view> unneeded, const TakeMember& take) {
  const JsonLimits limits{kMaxMemberValues, kMaxMemberTextBytes, kMaxMemberKeys, unneeded};
  SourceInput input(source);
  JsonReader reader(input, {.max_depth = kMaxMemberDepth});
  if (reader.kind() != JsonKind::kObject) {
    throw Error(ErrorKind::kBadInput, "holds no JSON object");
  }
  JsonNodes value;
  std::vector<bool> found(objects.size(), false);
  reader.enter();
  while (reader.next()) {
    const auto known = std::find(objects.begin(), objects.end(), reader.key());
    if (known == objects.end()) continue;
    const auto number = static_cast<std::size_t>(known - objects.begin());
    const std::string object(*known);
    if (found[number]) throw Error(ErrorKind::kBadInput, "its " + object + " appears twice");
    found[number] = true;
    if (reader.kind() != JsonKind::kObject) {
      throw Error(ErrorKind::kBadInput, "its " + object + " is not an object");
    }
    reader.enter();
    while (reader.next()) {
      const std::string name(reader.key());
      read_member(reader, name, limits, value);
      take(*known, name, JsonValue(value, 0));
    }
  }
  reader.finish();
  const auto missing = std::find(found.begin(), found.end(), false);
  if (missing == found.end()) return;
  throw Error(ErrorKind::kBadInput,
              "its " + std::string(objects[static_cast<std::size_t>(missing - found.begin())]) +
                  " is missing");
}

namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

[[noreturn]] void refuse(const std::string& name, JsonKind found) {
  throw Error(ErrorKind::kBadInput, std::string("has ") + name_of(found) + ", expected a text")
      .for_parameter(name);
}

void add(JsonReader& reader, std::string name, Texts& texts) {
  if (texts.size() == kMaxJsonTexts) {
    throw Error(ErrorKind::kBadInput,
                "has more than " + std::to_string(kMaxJsonTexts) + " members, which is the limit");
  }
  texts.emplace_back(std::move(name), reader.text());
}

Texts read_inner(JsonReader& reader) {
  if (reader.kind() != JsonKind::kObject) {
    throw Error(ErrorKind::kBadInput, "its " + std::string(reader.key()) + " is not an object");
  }
  Texts texts;
  reader.enter();
  while (reader.next()) {
    std::string name(reader.key());
    if (reader.kind() != JsonKind::kText) refuse(name, reader.kind());
    add(reader, std::move(name), texts);
  }
  return texts;
}

Texts read_object(JsonReader& reader, std::string_view inner) {
  Texts texts;
  bool has_inner = false;
  /// The first member beside the inner object that is no text, and what it is.
  std::optional<std::pair<std::string, JsonKind>> wrong;
  reader.enter();
  while (reader.next()) {
    if (!inner.empty() && reader.key() == inner) {
      if (has_inner) {
        throw Error(ErrorKind::kBadInput, "its " + std::string(inner) + " appears twice");
      }
      has_inner = true;
      texts = read_inner(reader);
    } else if (!has_inner) {
      std::string name(reader.key());
      if (reader.kind() == JsonKind::kText) {
        add(reader, std::move(name), texts);
      } else if (!wrong) {
        wrong.emplace(std::move(name), reader.kind());
      }
    }
  }
  reader.finish();
  if (!has_inner && wrong) refuse(wrong->first, wrong->second);
  return texts;
}

void refuse_names_that_stand_twice(const Texts& texts) {
  std::vector<std::string_view> names;
  names.reserve(texts.size());
  for (const auto& [name, text] : texts) names.emplace_back(name);
  if (are_distinct(names)) return;
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  throw Error(ErrorKind::kBadInput, "appears twice").for_parameter(std::string(*twice));
}

}  // namespace

Texts read_json_texts(const std::string& json, std::string_view inner) {
  JsonReader reader(json);
  if (reader.kind() != JsonKind::kObject) {
    throw Error(ErrorKind::kBadInput,
                std::string("must be a JSON object, not ") + name_of(reader.kind()));
  }
  Texts texts = read_object(reader, inner);
  refuse_names_that_stand_twice(texts);
  return texts;
}

}  // namespace reshardfs
