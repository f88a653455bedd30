// SPDX-License-Identifier: Apache-2.0
#include "format/json/json_members.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <rapidjson/reader.h>

#include "reshardfs/error.h"

#include "base/text/utf8.h"

namespace reshardfs {

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  for (const JsonValue value : *this) {
    if (value.key() == key) return value;
  }
  return std::nullopt;
}

namespace {

[[noreturn]] void refuse_json(std::uint64_t offset) {
  throw Error(ErrorKind::kBadInput, "is not valid JSON").at_offset(offset);
}

/// The bytes of a source, a block at a time, as the parser's kind of stream. Behind the last one it
/// reads zeros.
class ByteStream {
 public:
  using Ch = char;

  explicit ByteStream(const ByteSource& source) : source_(source), bytes_(kBlockBytes + 1) {
    fill();
    constexpr std::string_view kMark = "\xef\xbb\xbf";  // that other readers pass over, too
    if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(kMark)) {
      at_ += kMark.size();
    }
  }

  // NOLINTBEGIN(readability-identifier-naming): the parser's names
  char Peek() const { return *at_; }
  char Take() {
    const char byte = *at_;
    if (at_ != end_ && ++at_ == end_) fill();
    return byte;
  }
  std::size_t Tell() const {
    return static_cast<std::size_t>(next_) - static_cast<std::size_t>(end_ - at_);
  }
  /// For parsers that write where they read, which this one does not.
  char* PutBegin() { return nullptr; }
  void Put(char /*byte*/) {}
  void Flush() {}
  std::size_t PutEnd(char* /*begin*/) { return 0; }
  // NOLINTEND(readability-identifier-naming)

  bool at_end() const { return at_ == end_; }
  /// What is to come counts anew for the length of a token.
  void begin_token() { token_ = next_; }

 private:
  static constexpr std::size_t kBlockBytes = 256 << 10;

  void fill() {
    if (next_ > token_ && next_ - token_ > kMaxJsonTokenBytes) {
      throw Error(ErrorKind::kBadInput, "has more than " + std::to_string(kMaxJsonTokenBytes) +
                                            " bytes without a value, which is the limit")
          .at_offset(token_);
    }
    const std::uint64_t left = source_.size() - next_;
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, kBlockBytes));
    if (size > 0) source_.read_at(next_, std::as_writable_bytes(std::span(bytes_).first(size)));
    next_ += size;
    bytes_[size] = '\0';
    at_ = bytes_.data();
    end_ = at_ + size;
  }

  const ByteSource& source_;
  std::vector<char> bytes_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::uint64_t next_ = 0;   ///< where the source goes on
  std::uint64_t token_ = 0;  ///< of the block that the last token ended in, the end
};

/// What the parser calls. Depth 1 is inside the file's object, depth 2 inside one of the objects,
/// and there a member's value is kept.
class MemberReader {
 public:
  MemberReader(ByteStream& stream, std::span<const std::string_view> objects,
               std::span<const std::string_view> unneeded, const TakeMember& take)
      : stream_(stream),
        objects_(objects),
        unneeded_(unneeded),
        take_(take),
        found_(objects.size(), false) {}

  // NOLINTBEGIN(readability-identifier-naming): the parser's names
  bool Null() { return value(JsonKind::kNull, 0); }
  bool Bool(bool truth) { return value(JsonKind::kBoolean, truth ? 1 : 0); }
  bool Int(int number) { return value(JsonKind::kInteger, number); }
  bool Uint(unsigned number) { return value(JsonKind::kInteger, number); }
  bool Int64(std::int64_t number) { return value(JsonKind::kInteger, number); }
  bool Uint64(std::uint64_t number) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (number > kMost) return value(JsonKind::kOtherNumber, 0);
    return value(JsonKind::kInteger, static_cast<std::int64_t>(number));
  }
  bool Double(double /*number*/) { return value(JsonKind::kOtherNumber, 0); }
  /// The parser is not asked for this one.
  bool RawNumber(const char* /*text*/, unsigned /*size*/, bool /*copy*/) { return false; }
  bool String(const char* text, unsigned size, bool copy);
  bool StartObject() { return open(JsonKind::kObject); }
  bool Key(const char* text, unsigned size, bool copy);
  bool EndObject(unsigned /*members*/) { return close(); }
  bool StartArray() { return open(JsonKind::kList); }
  bool EndArray(unsigned /*values*/) { return close(); }
  // NOLINTEND(readability-identifier-naming)

  void require_all() const {
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      if (found_[i]) continue;
      throw Error(ErrorKind::kBadInput, "its " + std::string(objects_[i]) + " is missing");
    }
  }

 private:
  [[noreturn]] void refuse_member(const std::string& what) const {
    throw Error(ErrorKind::kBadInput, what).for_parameter(member_);
  }
  /// The parser takes bytes that are no UTF-8, and half of a character that two escapes make.
  std::string_view checked(const char* text, unsigned size) const {
    const std::string_view view(text, size);
    if (!is_utf8(view)) refuse_json(stream_.Tell() - 1);
    return view;
  }
  bool is_passed_over() const noexcept { return passing_ || object_.empty(); }
  bool value(JsonKind kind, std::int64_t integer);
  bool open(JsonKind kind);
  bool close();
  void begin_object(std::string_view name);
  void begin_value(std::string_view key);
  /// Whether the value counts; if so, what may be wrong with its place is checked.
  bool takes_value();
  JsonNode& add(JsonKind kind);
  std::uint32_t add_text(std::string_view text);
  /// After each value, when all that is in it is there.
  void finish_value();

  ByteStream& stream_;
  const std::span<const std::string_view> objects_;
  const std::span<const std::string_view> unneeded_;
  const TakeMember& take_;
  std::vector<bool> found_;
  std::size_t depth_ = 0;
  std::string_view object_;  ///< which of them this is in, or is about to be; empty: in none
  bool passing_ = false;     ///< the next value, or all up to the end of depth passing_from_
  std::size_t passing_from_ = 0;
  std::string member_;
  JsonNodes nodes_;                  ///< of the member's value
  std::vector<std::uint32_t> open_;  ///< positions of the lists and objects that have no end yet
  std::uint32_t key_at_ = 0;
  std::uint32_t key_size_ = 0;
};

// NOLINTNEXTLINE(readability-identifier-naming)
bool MemberReader::Key(const char* text, unsigned size, bool /*copy*/) {
  const std::string_view key = checked(text, size);
  stream_.begin_token();
  if (depth_ == 1) {
    begin_object(key);
  } else if (!is_passed_over()) {
    if (depth_ == 2) {
      member_ = key;
      key_at_ = key_size_ = 0;
    } else {
      begin_value(key);
    }
  }
  return true;
}

void MemberReader::begin_object(std::string_view name) {
  const auto known = std::find(objects_.begin(), objects_.end(), name);
  object_ = known == objects_.end() ? std::string_view() : *known;
  if (object_.empty()) return;
  const auto number = static_cast<std::size_t>(known - objects_.begin());
  if (found_[number]) {
    throw Error(ErrorKind::kBadInput, "its " + std::string(name) + " appears twice");
  }
  found_[number] = true;
}

void MemberReader::begin_value(std::string_view key) {
  JsonNode& object = nodes_.nodes[open_.back()];
  object.end = static_cast<std::uint32_t>(nodes_.nodes.size());  // for now
  if (JsonValue(nodes_, open_.back()).find(key)) {
    refuse_member("its key '" + printable(std::string(key)) + "' appears twice");
  }
  if (++object.size > kMaxMemberKeys) {
    refuse_member("has an object of more than " + std::to_string(kMaxMemberKeys) +
                  " keys, which is the limit");
  }
  key_at_ = add_text(key);
  key_size_ = static_cast<std::uint32_t>(key.size());
  if (std::find(unneeded_.begin(), unneeded_.end(), key) == unneeded_.end()) return;
  // Kept, so that it is noticed when it comes again.
  add(JsonKind::kNull);
  passing_ = true;
  passing_from_ = depth_;
}

bool MemberReader::takes_value() {
  if (depth_ == 0) throw Error(ErrorKind::kBadInput, "holds no JSON object");
  stream_.begin_token();
  if (is_passed_over()) {
    if (depth_ == passing_from_) passing_ = false;
    return false;
  }
  if (depth_ == 1) {
    throw Error(ErrorKind::kBadInput, "its " + std::string(object_) + " is not an object");
  }
  return true;
}

JsonNode& MemberReader::add(JsonKind kind) {
  if (nodes_.nodes.size() == kMaxMemberValues) {
    refuse_member("has more than " + std::to_string(kMaxMemberValues) +
                  " values, which is the limit");
  }
  JsonNode& node = nodes_.nodes.emplace_back();
  node.kind = kind;
  node.key_at = key_at_;
  node.key_size = key_size_;
  node.end = static_cast<std::uint32_t>(nodes_.nodes.size());
  return node;
}

std::uint32_t MemberReader::add_text(std::string_view text) {
  if (text.size() > kMaxMemberTextBytes - nodes_.text.size()) {
    refuse_member("has texts of more than " + std::to_string(kMaxMemberTextBytes) +
                  " bytes, which is the limit");
  }
  const auto at = static_cast<std::uint32_t>(nodes_.text.size());
  nodes_.text += text;
  return at;
}

void MemberReader::finish_value() {
  if (!open_.empty()) {
    JsonNode& around = nodes_.nodes[open_.back()];
    if (around.kind == JsonKind::kList) {
      key_at_ = key_size_ = 0;
      ++around.size;
    }
    return;
  }
  take_(object_, member_, JsonValue(nodes_, 0));
  nodes_.clear();
}

bool MemberReader::value(JsonKind kind, std::int64_t integer) {
  if (!takes_value()) return true;
  add(kind).integer = integer;
  finish_value();
  return true;
}

// NOLINTNEXTLINE(readability-identifier-naming)
bool MemberReader::String(const char* text, unsigned size, bool /*copy*/) {
  const std::string_view view = checked(text, size);
  if (!takes_value()) return true;
  const std::uint32_t at = add_text(view);
  JsonNode& node = add(JsonKind::kText);
  node.text_at = at;
  node.size = static_cast<std::uint32_t>(size);
  finish_value();
  return true;
}

bool MemberReader::open(JsonKind kind) {
  if (depth_ == 0 && kind != JsonKind::kObject) {
    throw Error(ErrorKind::kBadInput, "holds no JSON object");
  }
  if (depth_ == 1 && !object_.empty() && kind != JsonKind::kObject) {
    throw Error(ErrorKind::kBadInput, "its " + std::string(object_) + " is not an object");
  }
  if (depth_ == kMaxJsonDepth) {
    Error error(ErrorKind::kBadInput, "is nested too deeply");
    throw object_.empty() ? error : error.for_parameter(member_);
  }
  stream_.begin_token();
  if (depth_ >= 2 && !is_passed_over()) {
    open_.push_back(static_cast<std::uint32_t>(nodes_.nodes.size()));
    add(kind);
    key_at_ = key_size_ = 0;
  }
  ++depth_;
  return true;
}

bool MemberReader::close() {
  --depth_;
  stream_.begin_token();
  if (passing_) {
    if (depth_ == passing_from_) passing_ = false;
  } else if (depth_ >= 2 && !object_.empty()) {
    nodes_.nodes[open_.back()].end = static_cast<std::uint32_t>(nodes_.nodes.size());
    open_.pop_back();
    finish_value();
  }
  return true;
}

}  // namespace

void read_json_members(const ByteSource& source, std::span<const std::string_view> objects,
                       std::span<const std::string_view> unneeded, const TakeMember& take) {
  ByteStream stream(source);
  MemberReader reader(stream, objects, unneeded, take);
  const rapidjson::ParseResult result =
      rapidjson::Reader().Parse<rapidjson::kParseNoFlags>(stream, reader);
  if (result.IsError()) refuse_json(result.Offset());
  // A byte of zero looks to the parser like the end.
  if (!stream.at_end()) refuse_json(stream.Tell());
  reader.require_all();
}

}  // namespace reshardfs
