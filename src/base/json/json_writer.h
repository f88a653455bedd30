// SPDX-License-Identifier: Apache-2.0
/// JSON written event by event, so that no document is built.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "reshardfs/rank.h"

namespace reshardfs {

enum class JsonText : std::uint8_t {
  kUtf8,          ///< as it is
  kAscii,         ///< what is not ASCII becomes \uXXXX
  kReplaced,      ///< as it is, but bytes that are no UTF-8 become U+FFFD
  kAsciiReplaced  ///< both
};

/// In quotes.
/// @throws Error kUnsupported: it is not UTF-8, and nothing is to be replaced.
std::string json_quoted(std::string_view text, JsonText form = JsonText::kUtf8);
/// The same at the end of `out`, which stays as it was if this throws.
void append_json_quoted(std::string& out, std::string_view text, JsonText form = JsonText::kUtf8);
/// How many bytes that takes, without making the text where it stands as it is.
/// @throws as json_quoted().
std::size_t json_quoted_bytes(std::string_view text, JsonText form = JsonText::kUtf8);

struct JsonStyle {
  std::string_view between = ",";
  std::string_view after_key = ":";
  std::size_t indent = 0;  ///< of each level, on lines of their own; 0: all on one line
  JsonText text = JsonText::kUtf8;
};

/// What is read by programs alone, and what people look at, too.
inline constexpr JsonStyle kCompactJson{.text = JsonText::kReplaced};
inline constexpr JsonStyle kIndentedJson{
    .after_key = ": ", .indent = 2, .text = JsonText::kReplaced};

/// Writes separators and spaces. The caller must close everything that it opens, and write a key
/// before each value in an object.
class JsonWriter {
 public:
  /// @param level of indent at which the first value stands.
  explicit JsonWriter(const JsonStyle& style = {}, std::size_t level = 0)
      : style_(style), level_(level) {}

  void open_object() { open('{'); }
  void close_object() { close('}'); }
  void open_list() { open('['); }
  void close_list() { close(']'); }
  /// @throws as json_quoted().
  void key(std::string_view name);
  void text(std::string_view value) { put_quoted(value); }
  template <std::integral Number>
  void number(Number value) {
    put(std::to_string(value));
  }
  void number(Rank rank) { number(rank.number()); }
  /// As short as reads back as the same; what is not finite is null.
  void real(double value);
  void boolean(bool value) { put(value ? "true" : "false"); }
  void null() { put("null"); }
  /// A value that is JSON already.
  void written(std::string_view value) { put(value); }
  template <typename Numbers>
  void numbers(const Numbers& list) {
    open_list();
    for (const auto value : list) number(value);
    close_list();
  }

  template <typename Texts>
  void texts(const Texts& list) {
    open_list();
    for (const auto& value : list) text(value);
    close_list();
  }

  // Members of an object.
  void open_object(std::string_view name) {
    key(name);
    open_object();
  }
  void open_list(std::string_view name) {
    key(name);
    open_list();
  }
  /// A list that has an object for each item.
  template <typename Items, typename WriteMembers>
  void objects(std::string_view name, const Items& items, const WriteMembers& write_members) {
    open_list(name);
    for (const auto& item : items) {
      open_object();
      write_members(item);
      close_object();
    }
    close_list();
  }
  void member(std::string_view name, std::string_view value) {
    key(name);
    text(value);
  }
  template <typename Texts>
  void texts(std::string_view name, const Texts& list) {
    key(name);
    texts(list);
  }
  template <typename Numbers>
  void numbers(std::string_view name, const Numbers& list) {
    key(name);
    numbers(list);
  }
  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void member(std::string_view name, Number value) {
    key(name);
    if constexpr (std::same_as<Number, bool>) {
      boolean(value);
    } else if constexpr (std::floating_point<Number>) {
      real(value);
    } else {
      number(value);
    }
  }
  void member(std::string_view name, Rank rank) { member(name, rank.number()); }
  template <typename Value>
  void member_or_null(std::string_view name, const std::optional<Value>& value) {
    value ? member(name, *value) : null_member(name);
  }
  /// Null if it is empty.
  void member_or_null(std::string_view name, std::string_view value) {
    value.empty() ? null_member(name) : member(name, value);
  }
  void null_member(std::string_view name) {
    key(name);
    null();
  }
  void written_member(std::string_view name, std::string_view value) {
    key(name);
    written(value);
  }

  std::string take() { return std::move(text_); }

  /// Drops the text so far, for which bytes() alone is wanted.
  void forget() {
    forgotten_ += text_.size();
    text_.clear();
  }
  /// Of all that was written.
  std::uint64_t bytes() const noexcept { return forgotten_ + text_.size(); }

 private:
  void open(char bracket);
  void close(char bracket);
  void put(std::string_view value);
  void put_quoted(std::string_view text);
  /// Before a key, and a value that has none.
  void separate();
  void new_line();

  JsonStyle style_;
  std::size_t level_;
  std::string text_;
  std::uint64_t forgotten_ = 0;  ///< bytes
  bool is_first_ = true;
  bool has_key_ = false;
};

}  // namespace reshardfs
