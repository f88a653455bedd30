// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/json/json_number.h"
#include "base/text/numbers.h"
#include "base/text/utf8.h"

namespace reshardfs {
namespace {

constexpr std::string_view kMark = "\xef\xbb\xbf";
/// The number of steps of a path that messages show.
constexpr std::size_t kShownSteps = 8;

/// Whether a byte may stand in a text as it is, and does not end it.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t byte = 0x20; byte < plain.size(); ++byte) {
    plain.at(byte) = byte != '"' && byte != '\\';
  }
  return plain;
}();

bool is_container(JsonKind kind) noexcept {
  return kind == JsonKind::kList || kind == JsonKind::kObject;
}

bool is_space(int byte) noexcept {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

bool is_of_number(char c) noexcept {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/// ".shape"; "['model.embed.weight']" for what is not one word.
std::string step_of(std::string_view key, bool is_first) {
  const bool is_word = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  if (!is_word) return "['" + printable(std::string(key)) + "']";
  return (is_first ? "" : ".") + printable(std::string(key));
}

}  // namespace

const char* name_of(JsonKind kind) noexcept {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBoolean:
      return "a boolean";
    case JsonKind::kInteger:
    case JsonKind::kOtherNumber:
      return "a number";
    case JsonKind::kText:
      return "a text";
    case JsonKind::kList:
      return "a list";
    case JsonKind::kObject:
      break;
  }
  return "an object";
}

JsonReader::JsonReader(std::string_view text, const JsonOptions& options)
    : subject_(options.subject),
      has_offset_(options.offset.has_value()),
      origin_(options.offset.value_or(0)),
      max_depth_(options.max_depth),
      at_(text.data()),
      end_(text.data() + text.size()),
      bytes_(text.size()),
      token_end_(origin_) {
  skip_mark();
}

JsonReader::JsonReader(JsonInput& input, const JsonOptions& options)
    : input_(&input),
      subject_(options.subject),
      has_offset_(options.offset.has_value()),
      origin_(options.offset.value_or(0)),
      max_depth_(options.max_depth),
      token_end_(origin_) {
  skip_mark();
}

std::uint64_t JsonReader::offset() const noexcept {
  return origin_ + bytes_ - static_cast<std::uint64_t>(end_ - at_);
}

void JsonReader::fail(const std::string& what, std::uint64_t offset) const {
  Error error(ErrorKind::kBadInput, std::string(subject_) + what);
  if (has_offset_) error.at_offset(offset);
  throw error;
}

void JsonReader::refuse_at(std::uint64_t offset) const {
  const std::string where = path();
  fail("is not valid JSON" + (where.empty() ? std::string() : " at " + where), offset);
}

std::string JsonReader::path() const {
  std::string way;
  for (std::size_t i = 0; i < open_.size() && open_[i].count > 0; ++i) {
    if (i == kShownSteps) return way + "...";
    const Frame& frame = open_[i];
    if (frame.is_object) {
      const std::size_t end = i + 1 < open_.size() ? open_[i + 1].key_at : keys_.size();
      way += step_of(std::string_view(keys_).substr(frame.key_at, end - frame.key_at), i == 0);
    } else {
      way += '[' + std::to_string(frame.count - 1) + ']';
    }
  }
  return way;
}

void JsonReader::require(JsonKind expected) {
  if (kind() == expected) return;
  const std::string where = path();
  throw Error(ErrorKind::kBadInput, (where.empty() ? std::string() : where + " ") + "is " +
                                        name_of(kind_) + ", expected " + name_of(expected));
}

bool JsonReader::fill() {
  if (input_ == nullptr) return false;
  if (origin_ + bytes_ - token_end_ > kMaxJsonTokenBytes) {
    fail("has more than " + std::to_string(kMaxJsonTokenBytes) +
             " bytes without a value, which is the limit",
         token_end_);
  }
  const std::string_view bytes = input_->next_bytes();
  at_ = bytes.data();
  end_ = at_ + bytes.size();
  bytes_ += bytes.size();
  return !bytes.empty();
}

int JsonReader::peek() {
  if (at_ == end_ && !fill()) return kEnd;
  return static_cast<unsigned char>(*at_);
}

void JsonReader::skip_mark() {
  // Nothing else begins with its first byte.
  if (peek() != static_cast<unsigned char>(kMark.front())) return;
  for (const char byte : kMark) expect(byte);
}

void JsonReader::skip_space() {
  while (is_space(peek())) ++at_;
}

void JsonReader::expect(char byte) {
  if (peek() != static_cast<unsigned char>(byte)) refuse();
  ++at_;
}

JsonKind JsonReader::kind() {
  if (state_ == State::kUnread) read_token();
  return kind_;
}

std::string_view JsonReader::text() {
  kind();
  return text_;
}

std::int64_t JsonReader::integer() {
  kind();
  return integer_;
}

std::optional<std::uint64_t> JsonReader::unsigned_integer() {
  if (kind() == JsonKind::kInteger && !text_.starts_with('-')) {
    return static_cast<std::uint64_t>(integer_);
  }
  return kind_ == JsonKind::kOtherNumber ? parse_number<std::uint64_t>(text_) : std::nullopt;
}

double JsonReader::real() {
  kind();
  double number = 0;
  // A number too small for a double is 0.
  std::from_chars(text_.data(), text_.data() + text_.size(), number);
  return number;
}

std::string_view JsonReader::key() const noexcept {
  return std::string_view(keys_).substr(open_.back().key_at);
}

void JsonReader::enter() {
  const bool is_object = kind() == JsonKind::kObject;
  if (open_.size() >= max_depth_) {
    fail("is nested too deeply", offset());
  }
  ++at_;
  end_token();
  open_.push_back({is_object, keys_.size()});
  state_ = State::kPassed;
}

bool JsonReader::next() {
  pass_over();
  return advance();
}

bool JsonReader::advance() {
  Frame& frame = open_.back();
  skip_space();
  if (peek() == (frame.is_object ? '}' : ']')) {
    ++at_;
    end_token();
    keys_.resize(frame.key_at);
    open_.pop_back();
    state_ = State::kPassed;
    return false;
  }
  if (frame.count > 0) {
    expect(',');
    skip_space();
  }
  if (frame.is_object) {
    if (peek() != '"') refuse();
    read_text();
    keys_.resize(frame.key_at);
    keys_ += text_;
    end_token();
    ++frame.count;
    skip_space();
    expect(':');
  } else {
    ++frame.count;
  }
  state_ = State::kUnread;
  return true;
}

void JsonReader::pass_over() {
  if (state_ == State::kPassed) return;
  const std::size_t depth = open_.size();
  if (is_container(kind())) enter();
  state_ = State::kPassed;
  while (open_.size() > depth) {
    if (!advance()) continue;
    if (is_container(kind())) enter();
  }
}

void JsonReader::finish() {
  pass_over();
  skip_space();
  if (peek() != kEnd) refuse();
}

void JsonReader::read_token() {
  skip_space();
  switch (peek()) {
    case '{':
      kind_ = JsonKind::kObject;
      break;
    case '[':
      kind_ = JsonKind::kList;
      break;
    case '"':
      read_text();
      kind_ = JsonKind::kText;
      break;
    case 'n':
      read_word("null");
      kind_ = JsonKind::kNull;
      break;
    case 't':
      read_word("true");
      kind_ = JsonKind::kBoolean;
      integer_ = 1;
      break;
    case 'f':
      read_word("false");
      kind_ = JsonKind::kBoolean;
      integer_ = 0;
      break;
    default:
      read_number();
      break;
  }
  end_token();
  state_ = State::kRead;
}

void JsonReader::read_word(std::string_view word) {
  for (const char byte : word) expect(byte);
}

/// A few digits that are followed by something else, as nearly all numbers are.
bool JsonReader::read_short_integer() noexcept {
  constexpr std::ptrdiff_t kMostDigits = 18;  // for which 64 bits have room
  const char* at = at_;
  std::int64_t number = 0;
  while (at != end_ && *at >= '0' && *at <= '9' && at - at_ < kMostDigits) {
    number = number * 10 + (*at++ - '0');
  }
  if (at == at_ || at == end_ || is_of_number(*at)) return false;
  if (*at_ == '0' && at - at_ > 1) return false;
  text_ = std::string_view(at_, static_cast<std::size_t>(at - at_));
  at_ = at;
  kind_ = JsonKind::kInteger;
  integer_ = number;
  return true;
}

void JsonReader::read_number() {
  if (read_short_integer()) return;
  const std::uint64_t begins = offset();
  const char* const begin = at_;
  at_ = std::find_if_not(at_, end_, is_of_number);
  text_ = std::string_view(begin, static_cast<std::size_t>(at_ - begin));
  if (at_ == end_ && input_ != nullptr) {
    buffer_ = text_;
    while (peek() != kEnd && is_of_number(*at_)) buffer_ += *at_++;
    text_ = buffer_;
  }
  const auto integer = parse_signed_number(text_);
  const std::string_view digits = text_.substr(text_.starts_with('-') ? 1 : 0);
  const bool is_integer = integer && (digits.size() == 1 || digits.front() != '0');
  if (!is_integer && !is_json_number(text_)) refuse_at(begins);
  kind_ = is_integer ? JsonKind::kInteger : JsonKind::kOtherNumber;
  integer_ = integer.value_or(0);
}

void JsonReader::read_text() {
  ++at_;
  buffer_.clear();
  const char* begin = at_;
  bool is_as_it_stands = true;
  unsigned bits = 0;  // of all bytes
  while (true) {
    while (at_ != end_ && kPlain[static_cast<unsigned char>(*at_)]) {
      bits |= static_cast<unsigned char>(*at_++);
    }
    if (at_ != end_ && *at_ == '"') break;
    buffer_.append(begin, at_);
    is_as_it_stands = false;
    const int byte = peek();
    if (byte == '\\') {
      ++at_;
      read_escape();
    } else if (byte == kEnd || (byte < 0x20)) {
      refuse();
    }
    begin = at_;
  }
  if (is_as_it_stands) {
    text_ = std::string_view(begin, static_cast<std::size_t>(at_ - begin));
  } else {
    buffer_.append(begin, at_);
    text_ = buffer_;
  }
  if (bits >= 0x80 && !is_utf8(text_)) refuse();
  ++at_;
}

void JsonReader::read_escape() {
  constexpr std::string_view kWritten = "\"\\/bfnrt";
  constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
  const int byte = peek();
  if (byte == kEnd) refuse();
  const std::size_t known = kWritten.find(static_cast<char>(byte));
  if (known != std::string_view::npos) {
    ++at_;
    buffer_ += kMeant[known];
    return;
  }
  if (byte != 'u') refuse();
  ++at_;
  char32_t character = read_hex();
  constexpr char32_t kHigh = 0xd800;
  constexpr char32_t kLow = 0xdc00;
  if (character >= kHigh && character < kLow) {
    expect('\\');
    expect('u');
    const char32_t low = read_hex();
    if (low < kLow || low >= kLow + 0x400) refuse();
    character = 0x10000 + ((character - kHigh) << 10U) + (low - kLow);
  }
  if (!append_utf8(buffer_, character)) refuse();
}

char32_t JsonReader::read_hex() {
  std::array<char, 4> digits{};
  for (char& digit : digits) {
    if (peek() == kEnd) refuse();
    digit = *at_++;
  }
  const auto number = parse_number<std::uint32_t>({digits.data(), digits.size()}, 16);
  if (!number) refuse();
  return *number;
}

}  // namespace reshardfs
