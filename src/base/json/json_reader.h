// SPDX-License-Identifier: Apache-2.0
/// Reads JSON as a stream. Values are read on request, others are skipped, and only the path to the
/// present position is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

namespace reshardfs {

/// As many lists and objects may be inside each other, if nothing else is said.
inline constexpr std::size_t kMaxJsonDepth = 1000;
/// About as long as a text or a number of a JsonInput may be, or the space between two.
inline constexpr std::size_t kMaxJsonTokenBytes = 16 << 20;

enum class JsonKind : std::uint8_t {
  kNull,
  kBoolean,
  kInteger,      ///< without fraction and exponent, and of 64 bits with a sign
  kOtherNumber,  ///< not too large for a double
  kText,
  kList,
  kObject
};

/// "null", "a boolean", "a number", "a text", "a list", "an object": for messages.
const char* name_of(JsonKind kind) noexcept;

/// A text that is not in memory as a whole.
class JsonInput {
 public:
  virtual ~JsonInput() = default;
  /// What comes next, until the next call; empty: no more comes.
  virtual std::string_view next_bytes() = 0;
};

struct JsonOptions {
  /// What messages begin with: "its header ".
  std::string_view subject{};
  /// Where in its file the text begins; nothing: messages have no offset.
  std::optional<std::uint64_t> offset = 0;
  std::size_t max_depth = kMaxJsonDepth;
};

/// Reads one JSON text (RFC 8259) of UTF-8, with a byte order mark or without. Keys that stand
/// twice are no mistake here, as it keeps none of them.
///
///   JsonReader reader(text);
///   reader.require(JsonKind::kObject);
///   reader.enter();
///   while (reader.next()) {
///     if (reader.key() == "size") size = reader.integer();
///   }
///   reader.finish();
///
/// Every member throws Error kBadInput, without a file, where the text goes on as no JSON does ("is
/// not valid JSON at layers[3].shape", with the offset), is nested too deeply, or has a token that
/// is too long; and what the input throws. Then nothing more can be read.
class JsonReader {
 public:
  /// @param text must outlive the reader, as the options' subject must.
  explicit JsonReader(std::string_view text, const JsonOptions& options = {});
  explicit JsonReader(JsonInput& input, const JsonOptions& options = {});
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  /// Of the value that the reader stands at: at first, the whole text.
  JsonKind kind();
  /// Of a text what it says, of a number how it is written; until the reader goes on.
  std::string_view text();
  /// Of an integer, and of a boolean: 0 or 1.
  std::int64_t integer();
  /// Of a number without sign, fraction and exponent that 64 bits have room for; else nothing.
  std::optional<std::uint64_t> unsigned_integer();
  /// Of a number.
  double real();

  /// Into the list or the object that the reader stands at: before its first value.
  void enter();
  /// To the next value of the list or object that was entered last.
  /// @return false: there is none; the reader has left it then.
  bool next();
  /// Of the value that next() has led to, in an object; until the reader goes on.
  std::string_view key() const noexcept;
  /// The same, but only directly after next(): see is_in_place().
  std::string_view key_as_read() const noexcept { return text_; }
  /// Whether what text() or key_as_read() has given stands so in the text that the reader was made
  /// of: then it stays as long as that does.
  bool is_in_place(std::string_view text) const noexcept {
    return input_ == nullptr && text.data() != buffer_.data();
  }
  /// Behind the text, which nothing but space may follow.
  void finish();

  /// The way to the value, "layers[3].shape"; empty: it is the whole text.
  std::string path() const;
  /// Of the value's end, or of where it stands if it has not been asked for.
  std::uint64_t offset() const noexcept;
  /// Refuses the value: "layers[3].shape is a text, expected a list".
  /// @throws Error kBadInput
  void require(JsonKind expected);

 private:
  /// A list or an object that was entered.
  struct Frame {
    bool is_object = false;
    std::size_t key_at = 0;  ///< in keys_: that of the value that the reader stands at or is in
    std::size_t count = 0;   ///< of the values up to and with that one
  };
  enum class State : std::uint8_t { kUnread, kRead, kPassed };

  [[noreturn]] void fail(const std::string& what, std::uint64_t offset) const;
  [[noreturn]] void refuse_at(std::uint64_t offset) const;
  [[noreturn]] void refuse() const { refuse_at(offset()); }
  static constexpr int kEnd = -1;
  /// The next byte; kEnd: there is none.
  int peek();
  bool fill();
  void skip_mark();
  void skip_space();
  void expect(char byte);
  void end_token() noexcept { token_end_ = offset(); }

  /// As next(), of a value that has been passed over.
  bool advance();
  void pass_over();
  void read_token();
  void read_word(std::string_view word);
  void read_number();
  bool read_short_integer() noexcept;
  void read_text();
  void read_escape();
  char32_t read_hex();

  JsonInput* input_ = nullptr;
  std::string_view subject_;
  bool has_offset_;
  std::uint64_t origin_;
  std::size_t max_depth_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::uint64_t bytes_ = 0;  ///< of the text, up to end_
  std::uint64_t token_end_;  ///< where the last one ended

  State state_ = State::kUnread;
  JsonKind kind_ = JsonKind::kNull;
  std::int64_t integer_ = 0;
  std::string_view text_;
  std::string buffer_;  ///< of a text that does not stand in the input as it is
  std::vector<Frame> open_;
  std::string keys_;  ///< of all objects that are open
};

}  // namespace reshardfs
