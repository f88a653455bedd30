// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "format/name_limit.h"
#include "format/safetensors/safetensors.h"

namespace reshardfs::safetensors {
namespace {

/// Of what should be the name of a type.
constexpr std::size_t kShownColumns = 40;

/// What each tensor has, in the order in which it is written.
enum class Field : std::uint8_t { kDType, kShape, kOffsets };
constexpr std::array<std::string_view, 3> kFieldNames{"dtype", "shape", "data_offsets"};

/// Takes the parser's events. Where it stands decides what may come, so that nesting is bounded.
class HeaderParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t number) override { unexpected(std::to_string(number)); }
  bool number_unsigned(number_unsigned_t number) override;
  bool number_float(number_float_t, const string_t& text) override {
    unexpected("the number " + printable(text));
  }
  bool string(string_t& text) override;
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool start_object(std::size_t) override;
  bool key(string_t& text) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    // The position counts the bytes up to and with the one that is wrong.
    throw Error(ErrorKind::kBadInput, "its header is not valid JSON")
        .at_offset(kLengthBytes + position - 1);
  }

  ParsedHeader finish() &&;

 private:
  enum class Place : std::uint8_t { kOutside, kTop, kMetadata, kTensor, kShape, kOffsets };

  ParsedTensor& tensor() { return header_.tensors.back(); }
  std::string field_name() const {
    return std::string(kFieldNames.at(static_cast<std::size_t>(field_)));
  }
  void begin_metadata();
  void begin_tensor(std::string name);
  void begin_field(const std::string& name);
  void require_all_fields();
  void count_entry();
  void refuse_twice() const;
  /// A value that must not stand here.
  [[noreturn]] void unexpected(const std::string& found) const;
  std::string expected() const;
  [[noreturn]] static void fail(const std::string& message);
  /// Names the last tensor.
  [[noreturn]] void fail_tensor(const std::string& message) const;

  ParsedHeader header_;
  Place place_ = Place::kOutside;
  std::size_t entries_ = 0;
  bool has_metadata_ = false;
  bool at_metadata_ = false;  ///< in kTop: the last key was __metadata__
  std::string metadata_key_;
  // Of the last tensor:
  Field field_ = Field::kDType;
  std::array<bool, kFieldNames.size()> has_field_{};
  std::size_t offset_count_ = 0;
};

void HeaderParser::fail(const std::string& message) {
  throw Error(ErrorKind::kBadInput, message);
}

void HeaderParser::fail_tensor(const std::string& message) const {
  throw Error(ErrorKind::kBadInput, message).for_parameter(header_.tensors.back().name);
}

std::string HeaderParser::expected() const {
  switch (place_) {
    case Place::kMetadata:
      return "a text";
    case Place::kShape:
      return "non-negative integers";
    case Place::kOffsets:
      return "two non-negative integers";
    case Place::kTensor:
      return field_ == Field::kDType ? "a text" : "a list of integers";
    default:
      return "an object";
  }
}

void HeaderParser::unexpected(const std::string& found) const {
  const std::string mismatch = found + ", expected " + expected();
  if (place_ == Place::kMetadata) {
    fail("the metadata's key '" + printable(metadata_key_) + "' is " + mismatch);
  }
  if (place_ == Place::kTop && at_metadata_) {
    fail("'" + std::string(kMetadataKey) + "' is " + mismatch);
  }
  if (place_ == Place::kTop) fail_tensor("is " + mismatch);
  if (place_ == Place::kTensor) fail_tensor("its " + field_name() + " is " + mismatch);
  fail_tensor("its " + field_name() + " has " + mismatch);
}

void HeaderParser::count_entry() {
  if (++entries_ > kMaxEntries) {
    fail("its header has more than " + std::to_string(kMaxEntries) +
         " entries, which is the limit");
  }
}

bool HeaderParser::start_object(std::size_t) {
  if (place_ == Place::kOutside) {
    place_ = Place::kTop;
  } else if (place_ == Place::kTop) {
    place_ = at_metadata_ ? Place::kMetadata : Place::kTensor;
  } else {
    unexpected("an object");
  }
  return true;
}

bool HeaderParser::key(string_t& text) {
  if (place_ == Place::kMetadata) {
    count_entry();
    metadata_key_ = std::move(text);
  } else if (place_ == Place::kTensor) {
    begin_field(text);
  } else if (text == kMetadataKey) {
    begin_metadata();
  } else {
    begin_tensor(std::move(text));
  }
  return true;
}

void HeaderParser::begin_metadata() {
  at_metadata_ = true;
  if (has_metadata_) fail("'" + std::string(kMetadataKey) + "' appears twice in its header");
  has_metadata_ = true;
}

void HeaderParser::begin_tensor(std::string name) {
  at_metadata_ = false;
  if (name.empty()) fail("a tensor has an empty name");
  if (name.size() > kMaxParameterName) {
    fail("a name of " + std::to_string(name.size()) + " bytes; the limit is " +
         std::to_string(kMaxParameterName));
  }
  count_entry();
  header_.tensors.emplace_back().name = std::move(name);
  has_field_ = {};
  offset_count_ = 0;
}

void HeaderParser::begin_field(const std::string& name) {
  const auto* found = std::find(kFieldNames.begin(), kFieldNames.end(), name);
  if (found == kFieldNames.end()) {
    fail_tensor("has the unknown key '" + printable(name) +
                "', expected dtype, shape and data_offsets");
  }
  const auto position = static_cast<std::size_t>(found - kFieldNames.begin());
  if (has_field_.at(position)) fail_tensor("its key '" + name + "' appears twice");
  has_field_.at(position) = true;
  field_ = static_cast<Field>(position);
}

bool HeaderParser::string(string_t& text) {
  if (place_ == Place::kMetadata) {
    if (!header_.metadata.emplace(metadata_key_, std::move(text)).second) {
      fail("the metadata's key '" + printable(metadata_key_) + "' appears twice");
    }
    return true;
  }
  if (place_ != Place::kTensor || field_ != Field::kDType) unexpected("a text");
  if (const std::optional<DType> dtype = dtype_from_safetensors(text)) {
    tensor().dtype = *dtype;
    return true;
  }
  // The other tensors can be shown all the same.
  tensor().is_known = false;
  header_.unknown_types.emplace(tensor().name, shortened(printable(text), kShownColumns));
  return true;
}

bool HeaderParser::number_unsigned(number_unsigned_t number) {
  if (place_ == Place::kShape) {
    if (number > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      fail_tensor("dimension " + std::to_string(number) + " exceeds 63 bits");
    }
    if (tensor().shape.size() == kMaxDims) {
      fail_tensor("has more than " + std::to_string(kMaxDims) + " dimensions, which is the limit");
    }
    tensor().shape.push_back(static_cast<std::int64_t>(number));
  } else if (place_ == Place::kOffsets) {
    if (++offset_count_ > 2) fail_tensor("its data_offsets has more than two numbers");
    (offset_count_ == 1 ? tensor().begin : tensor().end) = number;
  } else {
    unexpected("the number " + std::to_string(number));
  }
  return true;
}

bool HeaderParser::start_array(std::size_t) {
  if (place_ != Place::kTensor || field_ == Field::kDType) unexpected("a list");
  place_ = field_ == Field::kShape ? Place::kShape : Place::kOffsets;
  return true;
}

bool HeaderParser::end_array() {
  if (place_ == Place::kOffsets && offset_count_ != 2) {
    fail_tensor("its data_offsets has " + std::to_string(offset_count_) + " numbers, expected two");
  }
  place_ = Place::kTensor;
  return true;
}

bool HeaderParser::end_object() {
  if (place_ == Place::kTensor) require_all_fields();
  place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
  return true;
}

void HeaderParser::require_all_fields() {
  const auto* missing = std::find(has_field_.begin(), has_field_.end(), false);
  if (missing == has_field_.end()) return;
  const auto position = static_cast<std::size_t>(missing - has_field_.begin());
  fail_tensor("its key '" + std::string(kFieldNames.at(position)) + "' is missing");
}

void HeaderParser::refuse_twice() const {
  const std::vector<ParsedTensor>& tensors = header_.tensors;
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name < tensors[b].name; });
  const auto twice = std::adjacent_find(
      order.begin(), order.end(),
      [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name == tensors[b].name; });
  if (twice == order.end()) return;
  throw Error(ErrorKind::kBadInput, "appears twice in the file's header")
      .for_parameter(tensors[*twice].name);
}

ParsedHeader HeaderParser::finish() && {
  refuse_twice();
  return std::move(header_);
}

}  // namespace

ParsedHeader parse_header(const std::string& text) {
  if (text.empty() || text.front() != '{') {
    throw Error(ErrorKind::kBadInput, "is not a safetensors file: its header does not begin with {")
        .at_offset(kLengthBytes);
  }
  // The parser takes a NUL for the end, and any white space for padding.
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos) {
    throw Error(ErrorKind::kBadInput, "its header holds a NUL byte").at_offset(kLengthBytes + nul);
  }
  if (const std::size_t last = text.find_last_not_of(' '); text[last] != '}') {
    throw Error(ErrorKind::kBadInput, "its header does not end with } and spaces")
        .at_offset(kLengthBytes + last);
  }
  HeaderParser parser;
  nlohmann::json::sax_parse(text, &parser);
  return std::move(parser).finish();
}

}  // namespace reshardfs::safetensors
