// SPDX-License-Identifier: Apache-2.0
#include "format/json/json_members.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "base/json/json_copy.h"
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

[[noreturn]] void refuse(const std::string& name, JsonKind found) {
  throw Error(ErrorKind::kBadInput, std::string("has ") + name_of(found) + ", expected a text")
      .for_parameter(name);
}

class TextsReader {
 public:
  explicit TextsReader(std::string json) : reader_(*keep(std::move(json))) {}

  JsonTexts read(std::string_view inner, std::string_view beside);

 private:
  const std::string* keep(std::string json) {
    texts_.json = std::make_unique<const std::string>(std::move(json));
    return texts_.json.get();
  }
  /// @param text of the reader, until it goes on.
  std::string_view kept(std::string_view text) {
    return reader_.is_in_place(text) ? text : texts_.unescaped.emplace_back(text);
  }
  /// The member that the reader has come to.
  void add(std::string_view name) {
    if (texts_.members.size() == kMaxJsonTexts) {
      throw Error(ErrorKind::kBadInput, "has more than " + std::to_string(kMaxJsonTexts) +
                                            " members, which is the limit");
    }
    texts_.members.emplace_back(name, kept(reader_.text()));
  }
  void read_inner();

  JsonTexts texts_;
  JsonReader reader_;
};

void TextsReader::read_inner() {
  if (reader_.kind() != JsonKind::kObject) {
    throw Error(ErrorKind::kBadInput, "its " + std::string(reader_.key()) + " is not an object");
  }
  texts_.members.clear();
  reader_.enter();
  while (reader_.next()) {
    const std::string_view name = kept(reader_.key_as_read());
    if (reader_.kind() != JsonKind::kText) refuse(std::string(name), reader_.kind());
    add(name);
  }
}

JsonTexts TextsReader::read(std::string_view inner, std::string_view beside) {
  if (reader_.kind() != JsonKind::kObject) {
    throw Error(ErrorKind::kBadInput,
                std::string("must be a JSON object, not ") + name_of(reader_.kind()));
  }
  // A name and a file take more.
  constexpr std::size_t kLeastBytes = 64;
  texts_.members.reserve(std::min(texts_.json->size() / kLeastBytes, kMaxJsonTexts));
  bool has_inner = false;
  /// The first member beside the inner object that is no text, and what it is.
  std::optional<std::pair<std::string, JsonKind>> wrong;
  JsonWriter kept_beside;
  kept_beside.open_object();
  reader_.enter();
  while (reader_.next()) {
    if (!inner.empty() && reader_.key() == inner) {
      if (has_inner) {
        throw Error(ErrorKind::kBadInput, "its " + std::string(inner) + " appears twice");
      }
      has_inner = true;
      read_inner();
      continue;
    }
    const std::string_view name = has_inner ? std::string_view() : kept(reader_.key_as_read());
    const bool is_beside = !beside.empty() && reader_.key() == beside;
    if (!is_beside && has_inner) continue;
    const JsonKind kind = reader_.kind();
    if (is_beside && kind == JsonKind::kObject) {
      kept_beside.key(beside);
      copy_json(reader_, kept_beside);
    }
    if (has_inner) continue;
    if (kind == JsonKind::kText) {
      add(name);
    } else if (!wrong) {
      wrong.emplace(name, kind);
    }
  }
  reader_.finish();
  kept_beside.close_object();
  texts_.beside = kept_beside.take();
  if (!has_inner && wrong) refuse(wrong->first, wrong->second);
  return std::move(texts_);
}

void refuse_names_that_stand_twice(const JsonTexts& texts) {
  std::vector<std::string_view> names;
  names.reserve(texts.members.size());
  for (const auto& [name, text] : texts.members) names.push_back(name);
  if (are_distinct(names)) return;
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  throw Error(ErrorKind::kBadInput, "appears twice").for_parameter(std::string(*twice));
}

}  // namespace

JsonTexts read_json_texts(std::string json, std::string_view inner, std::string_view beside) {
  JsonTexts texts = TextsReader(std::move(json)).read(inner, beside);
  refuse_names_that_stand_twice(texts);
  return texts;
}

}  // namespace reshardfs
