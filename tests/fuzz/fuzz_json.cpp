// SPDX-License-Identifier: Apache-2.0
// Whatever the bytes, the stream reader takes what nlohmann's library takes, says the same of it,
// and says it however the bytes come.
#include <algorithm>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "fuzz/fuzzing.h"

using namespace reshardfs;

namespace {

/// The text in pieces of so many bytes.
class Pieces final : public JsonInput {
 public:
  Pieces(std::string_view text, std::size_t bytes) : text_(text), bytes_(bytes) {}
  std::string_view next_bytes() override {
    const std::string_view piece = text_.substr(0, bytes_);
    text_.remove_prefix(piece.size());
    return piece;
  }

 private:
  std::string_view text_;
  std::size_t bytes_;
};

nlohmann::ordered_json whole_of(const JsonValue& value);

nlohmann::ordered_json list_of(const JsonValue& value) {
  auto list = nlohmann::ordered_json::array();
  for (const JsonValue item : value) list.push_back(whole_of(item));
  return list;
}

nlohmann::ordered_json object_of(const JsonValue& value) {
  auto object = nlohmann::ordered_json::object();
  for (const JsonValue item : value) object[std::string(item.key())] = whole_of(item);
  return object;
}

nlohmann::ordered_json whole_of(const JsonValue& value) {
  switch (value.kind()) {
    case JsonKind::kNull:
      return nullptr;
    case JsonKind::kBoolean:
      return *value.boolean();
    case JsonKind::kInteger:
      return *value.integer();
    case JsonKind::kOtherNumber:
      return "a number";
    case JsonKind::kText:
      return *value.text();
    case JsonKind::kList:
      return list_of(value);
    case JsonKind::kObject:
      break;
  }
  return object_of(value);
}

/// Of what both read, numbers that are no integers of 64 bits put aside.
void put_aside(nlohmann::ordered_json& json) {
  if (json.is_structured()) {
    for (auto& item : json) put_aside(item);
    return;
  }
  const bool is_large = json.is_number_unsigned() &&
                        json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  if (json.is_number_float() || is_large) json = "a number";
}

/// Calls are as deep as the text: neither reader is asked for more.
bool is_deep(std::string_view text) {
  constexpr std::ptrdiff_t kDeep = 200;
  return std::count_if(text.begin(), text.end(), [](char c) { return c == '[' || c == '{'; }) >
         kDeep;
}

bool takes_in_pieces(std::string_view text, std::size_t bytes) {
  Pieces pieces(text, bytes);
  try {
    JsonReader reader(pieces);
    reader.finish();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = JsonDocument::parse(text);
  for (const std::size_t bytes : {1U, 3U, 64U}) {
    fuzz::require(takes_in_pieces(text, bytes) == document.has_value(), "another answer in pieces");
  }
  // To nlohmann's library a byte of zero is the end.
  if (is_deep(text) || text.find('\0') != std::string_view::npos) return 0;
  auto other = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  fuzz::require(other.is_discarded() == !document.has_value(), "another answer than nlohmann's");
  if (!document) return 0;
  put_aside(other);
  fuzz::require(whole_of(document->value()) == other, "another value than nlohmann's");
  return 0;
}
