// SPDX-License-Identifier: Apache-2.0
#include "format/json_members.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

using Json = nlohmann::json;

/// The bytes of a source, a block at a time; the end is a default-made one.
class ByteStream {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  struct Block {
    const ByteSource* source;
    std::vector<char> bytes;
    std::uint64_t next = 0;  ///< where the source goes on
    std::size_t at = 0;
  };

  ByteStream() = default;
  explicit ByteStream(Block& block) : block_(&block) { fill(); }

  char operator*() const { return block_->bytes[block_->at]; }
  ByteStream& operator++() {
    if (++block_->at == block_->bytes.size()) fill();
    return *this;
  }
  bool operator==(const ByteStream& other) const { return block_ == other.block_; }
  bool operator!=(const ByteStream& other) const { return block_ != other.block_; }

 private:
  void fill() {
    constexpr std::uint64_t kBlockBytes = 256 << 10;
    Block& block = *block_;
    const std::uint64_t left = block.source->size() - block.next;
    block.bytes.resize(static_cast<std::size_t>(std::min(left, kBlockBytes)));
    block.at = 0;
    if (block.bytes.empty()) {
      block_ = nullptr;
      return;
    }
    block.source->read_at(block.next, std::as_writable_bytes(std::span(block.bytes)));
    block.next += block.bytes.size();
  }

  Block* block_ = nullptr;
};

/// Depth 1 is inside the file's object, depth 2 inside one of the objects, and there a member's
/// value is built.
class MemberParser : public nlohmann::json_sax<Json> {
 public:
  MemberParser(std::span<const std::string_view> objects,
               std::span<const std::string_view> unneeded, const TakeMember& take)
      : objects_(objects), unneeded_(unneeded), take_(take), found_(objects.size(), false) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool truth) override { return value(truth); }
  bool number_integer(number_integer_t number) override { return value(number); }
  bool number_unsigned(number_unsigned_t number) override { return value(number); }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool string(string_t& text) override { return value(std::move(text)); }
  bool binary(binary_t&) override { return value(nullptr); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& text) override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error(ErrorKind::kBadInput, "is no JSON").at_offset(position - 1);
  }

  void require_all() const {
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      if (found_[i]) continue;
      throw Error(ErrorKind::kBadInput, "its " + std::string(objects_[i]) + " is missing");
    }
  }

 private:
  bool value(Json json);
  bool open(Json container);
  bool close();
  bool is_passed_over() const noexcept { return passing_ || object_.empty(); }
  void put(Json json);
  void begin_object(const std::string& name);
  void count() {
    if (++values_ <= kMaxMemberValues) return;
    throw Error(ErrorKind::kBadInput,
                "has more than " + std::to_string(kMaxMemberValues) + " values, which is the limit")
        .for_parameter(member_);
  }

  const std::span<const std::string_view> objects_;
  const std::span<const std::string_view> unneeded_;
  const TakeMember& take_;
  std::vector<bool> found_;
  std::size_t depth_ = 0;
  std::string_view object_;  ///< which of them this is in, or is about to be; empty: in none
  bool passing_ = false;     ///< the next value, or all up to the end of depth passing_from_
  std::size_t passing_from_ = 0;
  std::string member_;
  std::size_t values_ = 0;         ///< of the member
  std::vector<Json> building_;     ///< the containers that are open, the innermost last
  std::vector<std::string> keys_;  ///< where each of these goes in the one around it
  std::string key_;
};

bool MemberParser::key(string_t& text) {
  if (depth_ == 1) {
    begin_object(text);
  } else if (!is_passed_over()) {
    if (depth_ == 2) {
      member_ = std::move(text);
      values_ = 0;
    } else {
      if (building_.back().contains(text)) {
        throw Error(ErrorKind::kBadInput, "its key '" + printable(text) + "' stands twice")
            .for_parameter(member_);
      }
      passing_ = std::find(unneeded_.begin(), unneeded_.end(), text) != unneeded_.end();
      passing_from_ = depth_;
      key_ = std::move(text);
      // Kept, so that it is noticed when it comes again.
      if (passing_) building_.back()[key_] = nullptr;
    }
  }
  return true;
}

void MemberParser::begin_object(const std::string& name) {
  const auto known = std::find(objects_.begin(), objects_.end(), name);
  object_ = known == objects_.end() ? std::string_view() : *known;
  if (object_.empty()) return;
  const auto number = static_cast<std::size_t>(known - objects_.begin());
  if (found_[number]) throw Error(ErrorKind::kBadInput, "its " + name + " stands twice");
  found_[number] = true;
}

bool MemberParser::value(Json json) {
  if (depth_ == 0) throw Error(ErrorKind::kBadInput, "holds no JSON object");
  if (passing_) {
    if (depth_ == passing_from_) passing_ = false;
  } else if (!object_.empty()) {
    if (depth_ == 1) {
      throw Error(ErrorKind::kBadInput, "its " + std::string(object_) + " is no object");
    }
    count();
    put(std::move(json));
  }
  return true;
}

void MemberParser::put(Json json) {
  if (building_.empty()) {
    take_(object_, std::move(member_), json);
  } else if (building_.back().is_array()) {
    building_.back().push_back(std::move(json));
  } else {
    building_.back()[key_] = std::move(json);
  }
}

bool MemberParser::open(Json container) {
  if (depth_ == 0 && !container.is_object()) {
    throw Error(ErrorKind::kBadInput, "holds no JSON object");
  }
  if (depth_ == 1 && !object_.empty() && !container.is_object()) {
    throw Error(ErrorKind::kBadInput, "its " + std::string(object_) + " is no object");
  }
  if (depth_ >= 2 && !is_passed_over()) {
    constexpr std::size_t kMaxDepth = 16;
    if (depth_ == kMaxDepth) {
      throw Error(ErrorKind::kBadInput, "is nested too deeply").for_parameter(member_);
    }
    count();
    building_.push_back(std::move(container));
    keys_.push_back(std::move(key_));
  }
  ++depth_;
  return true;
}

bool MemberParser::close() {
  --depth_;
  if (passing_) {
    if (depth_ == passing_from_) passing_ = false;
  } else if (depth_ >= 2 && !object_.empty()) {
    Json done = std::move(building_.back());
    building_.pop_back();
    key_ = std::move(keys_.back());
    keys_.pop_back();
    put(std::move(done));
  }
  return true;
}

}  // namespace

void read_json_members(const ByteSource& source, std::span<const std::string_view> objects,
                       std::span<const std::string_view> unneeded, const TakeMember& take) {
  MemberParser parser(objects, unneeded, take);
  ByteStream::Block block{&source, {}, 0, 0};
  Json::sax_parse(ByteStream(block), ByteStream(), &parser);
  parser.require_all();
}

}  // namespace reshardfs
