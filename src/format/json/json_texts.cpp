// SPDX-License-Identifier: Apache-2.0
#include "format/json/json_texts.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

/// Depth 1 is inside the file's object, depth 2 inside the inner one or inside what is passed over.
class TextParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TextParser(std::string_view inner) : inner_(inner) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary data"); }
  bool string(string_t& text) override;
  bool start_object(std::size_t) override;
  bool key(string_t& text) override;
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override;
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error(ErrorKind::kBadInput, "is not valid JSON").at_offset(position - 1);
  }

  Texts finish() &&;

 private:
  /// Where a member stands whose value may count.
  bool at_member() const noexcept { return depth_ == (in_inner_ ? 2 : 1); }
  /// A value that is no text.
  bool other(const char* type);
  bool close() {
    --depth_;
    if (depth_ == 1) in_inner_ = false;
    return true;
  }
  [[noreturn]] static void refuse(const std::string& name, const char* type) {
    throw Error(ErrorKind::kBadInput, std::string("has ") + type + ", expected a text")
        .for_parameter(name);
  }

  std::string_view inner_;
  std::size_t depth_ = 0;
  bool in_inner_ = false;
  bool has_inner_ = false;
  std::string name_;
  Texts texts_;
  /// The first member beside the inner object that is no text, and what it is.
  std::optional<std::pair<std::string, const char*>> wrong_;
};

bool TextParser::other(const char* type) {
  if (depth_ == 0) {
    throw Error(ErrorKind::kBadInput, std::string("must be a JSON object, not ") + type);
  }
  if (!at_member()) return true;
  if (in_inner_) refuse(name_, type);
  if (!inner_.empty() && name_ == inner_) {
    throw Error(ErrorKind::kBadInput, "its " + name_ + " is not an object");
  }
  if (!wrong_) wrong_.emplace(name_, type);
  return true;
}

bool TextParser::string(string_t& text) {
  const bool names_inner = depth_ == 1 && !inner_.empty() && name_ == inner_;
  if (!at_member() || names_inner) return other("a text");
  if (has_inner_ && !in_inner_) return true;
  if (texts_.size() == kMaxJsonTexts) {
    throw Error(ErrorKind::kBadInput,
                "has more than " + std::to_string(kMaxJsonTexts) + " members, which is the limit");
  }
  texts_.emplace_back(std::move(name_), std::move(text));
  return true;
}

bool TextParser::start_object(std::size_t) {
  if (depth_ == 1 && !inner_.empty() && name_ == inner_) {
    if (has_inner_) throw Error(ErrorKind::kBadInput, "its " + name_ + " appears twice");
    has_inner_ = true;
    in_inner_ = true;
    texts_.clear();
  } else if (depth_ > 0) {
    other("an object");
  }
  ++depth_;
  return true;
}

bool TextParser::start_array(std::size_t) {
  other("a list");
  ++depth_;
  return true;
}

bool TextParser::key(string_t& text) {
  if (at_member()) name_ = std::move(text);
  return true;
}

Texts TextParser::finish() && {
  if (!has_inner_ && wrong_) refuse(wrong_->first, wrong_->second);
  std::vector<const std::string*> names;
  names.reserve(texts_.size());
  for (const auto& [name, text] : texts_) names.push_back(&name);
  std::sort(names.begin(), names.end(), [](const auto* a, const auto* b) { return *a < *b; });
  const auto twice = std::adjacent_find(names.begin(), names.end(),
                                        [](const auto* a, const auto* b) { return *a == *b; });
  if (twice != names.end()) {
    throw Error(ErrorKind::kBadInput, "appears twice").for_parameter(**twice);
  }
  return std::move(texts_);
}

}  // namespace

Texts read_json_texts(const std::string& json, std::string_view inner) {
  TextParser parser(inner);
  nlohmann::json::sax_parse(json, &parser);
  return std::move(parser).finish();
}

}  // namespace reshardfs
