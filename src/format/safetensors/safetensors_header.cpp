// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_reader.h"
#include "base/text/name_order.h"
#include "base/text/text.h"
#include "format/name_limit.h"
#include "format/safetensors/safetensors.h"

namespace reshardfs::safetensors {
namespace {

/// The columns that messages show of a wrong type name.
constexpr std::size_t kShownColumns = 40;

/// What each tensor has, in the order in which it is written.
enum class Field : std::uint8_t { kDType, kShape, kOffsets };
constexpr std::array<std::string_view, 3> kFieldNames{"dtype", "shape", "data_offsets"};

[[noreturn]] void fail_header(const std::string& message) {
  throw Error(ErrorKind::kBadInput, message);
}

/// Reads the header's one object. What may stand where is known everywhere, so that nothing is
/// passed over.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text)
      : reader_(text, {.subject = "its header ", .offset = kLengthBytes}), bytes_(text.size()) {}

  ParsedHeader read();
  /// @param first_alone whether it counts only where it stands before all tensors.
  std::optional<std::map<std::string, std::string>> read_metadata_alone(bool first_alone);

 private:
  void read_metadata();
  void read_tensor();
  void read_field(ParsedTensor& tensor, std::size_t field);
  void read_dtype(ParsedTensor& tensor);
  void read_shape(ParsedTensor& tensor);
  void read_offsets(ParsedTensor& tensor);
  /// A number in a list of a tensor's.
  std::uint64_t number(const ParsedTensor& tensor, const char* field, const char* expected);
  void count_entry();
  void refuse_twice() const;
  /// Describes the text found in the place of what is expected.
  std::string found();
  [[noreturn]] static void fail_tensor(const ParsedTensor& tensor, const std::string& message) {
    throw Error(ErrorKind::kBadInput, message).for_parameter(std::string(tensor.name));
  }

  JsonReader reader_;
  ParsedHeader header_;
  ShapeKinds shapes_{};
  Shape shape_{};  ///< the one that is read
  std::size_t bytes_;
  std::size_t entries_ = 0;
  bool has_metadata_ = false;
};

std::string HeaderReader::found() {
  const JsonKind kind = reader_.kind();
  const bool is_negative = kind == JsonKind::kInteger && reader_.integer() < 0;
  if (is_negative) return std::string(reader_.text());
  if (kind == JsonKind::kInteger || kind == JsonKind::kOtherNumber) {
    return "the number " + printable(std::string(reader_.text()));
  }
  return name_of(kind);
}

void HeaderReader::count_entry() {
  if (++entries_ > kMaxEntries) {
    fail_header("its header has more than " + std::to_string(kMaxEntries) +
                " entries, which is the limit");
  }
}

void HeaderReader::read_metadata() {
  const std::string name(kMetadataKey);
  if (has_metadata_) fail_header("'" + name + "' appears twice in its header");
  has_metadata_ = true;
  if (reader_.kind() != JsonKind::kObject)
    fail_header("'" + name + "' is " + found() + ", expected an object");
  reader_.enter();
  while (reader_.next()) {
    count_entry();
    std::string key(reader_.key());
    const std::string shown = "the metadata's key '" + printable(key) + "' ";
    if (reader_.kind() != JsonKind::kText)
      fail_header(shown + "is " + found() + ", expected a text");
    if (!header_.metadata.emplace(std::move(key), reader_.text()).second) {
      fail_header(shown + "appears twice");
    }
  }
}

void HeaderReader::read_tensor() {
  std::string_view name = reader_.key_as_read();
  if (name.empty()) fail_header("a tensor has an empty name");
  if (name.size() > kMaxParameterName) {
    fail_header("a name of " + std::to_string(name.size()) + " bytes; the limit is " +
                std::to_string(kMaxParameterName));
  }
  count_entry();
  if (!reader_.is_in_place(name)) name = header_.unescaped.emplace_back(name);
  ParsedTensor& tensor = header_.tensors.emplace_back();
  tensor.name = name;
  if (reader_.kind() != JsonKind::kObject)
    fail_tensor(tensor, "is " + found() + ", expected an object");
  std::array<bool, kFieldNames.size()> has_field{};
  reader_.enter();
  while (reader_.next()) {
    const auto* known = std::find(kFieldNames.begin(), kFieldNames.end(), reader_.key());
    if (known == kFieldNames.end()) {
      fail_tensor(tensor, "has the unknown key '" + printable(std::string(reader_.key())) +
                              "', expected dtype, shape and data_offsets");
    }
    const auto field = static_cast<std::size_t>(known - kFieldNames.begin());
    if (has_field.at(field))
      fail_tensor(tensor, "its key '" + std::string(*known) + "' appears twice");
    has_field.at(field) = true;
    read_field(tensor, field);
  }
  const auto* missing = std::find(has_field.begin(), has_field.end(), false);
  if (missing == has_field.end()) return;
  const auto field = static_cast<std::size_t>(missing - has_field.begin());
  fail_tensor(tensor, "its key '" + std::string(kFieldNames.at(field)) + "' is missing");
}

void HeaderReader::read_field(ParsedTensor& tensor, std::size_t field) {
  const bool is_dtype = static_cast<Field>(field) == Field::kDType;
  if (reader_.kind() != (is_dtype ? JsonKind::kText : JsonKind::kList)) {
    fail_tensor(tensor, "its " + std::string(kFieldNames.at(field)) + " is " + found() +
                            ", expected " + (is_dtype ? "a text" : "a list of integers"));
  }
  if (is_dtype) return read_dtype(tensor);
  reader_.enter();
  if (static_cast<Field>(field) == Field::kShape) return read_shape(tensor);
  read_offsets(tensor);
}

void HeaderReader::read_dtype(ParsedTensor& tensor) {
  const std::string_view text = reader_.text();
  if (const std::optional<DType> dtype = dtype_from_safetensors(text)) {
    tensor.dtype = *dtype;
    return;
  }
  // The other tensors can be shown all the same.
  tensor.is_known = false;
  header_.unknown_types.emplace(tensor.name,
                                shortened(printable(std::string(text)), kShownColumns));
}

std::uint64_t HeaderReader::number(const ParsedTensor& tensor, const char* field,
                                   const char* expected) {
  if (const auto number = reader_.unsigned_integer()) return *number;
  fail_tensor(tensor, "its " + std::string(field) + " has " + found() + ", expected " + expected);
}

void HeaderReader::read_shape(ParsedTensor& tensor) {
  shape_.clear();
  while (reader_.next()) {
    const std::uint64_t size = number(tensor, "shape", "non-negative integers");
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail_tensor(tensor, "dimension " + std::to_string(size) + " exceeds 63 bits");
    }
    if (shape_.size() == kMaxDims) {
      fail_tensor(tensor,
                  "has more than " + std::to_string(kMaxDims) + " dimensions, which is the limit");
    }
    shape_.push_back(static_cast<std::int64_t>(size));
  }
  tensor.shape = shapes_.keep(shape_);
}

void HeaderReader::read_offsets(ParsedTensor& tensor) {
  std::size_t count = 0;
  while (reader_.next()) {
    const std::uint64_t offset = number(tensor, "data_offsets", "two non-negative integers");
    if (++count > 2) fail_tensor(tensor, "its data_offsets has more than two numbers");
    (count == 1 ? tensor.begin : tensor.end) = offset;
  }
  if (count != 2) {
    fail_tensor(tensor, "its data_offsets has " + std::to_string(count) + " numbers, expected two");
  }
}

void HeaderReader::refuse_twice() const {
  const std::vector<ParsedTensor>& tensors = header_.tensors;
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const ParsedTensor& tensor : tensors) names.push_back(tensor.name);
  if (are_distinct(names)) return;
  const std::vector<std::uint32_t> order = order_of_names(names);
  const auto twice = std::adjacent_find(
      order.begin(), order.end(),
      [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name == tensors[b].name; });
  throw Error(ErrorKind::kBadInput, "appears twice in the file's header")
      .for_parameter(std::string(tensors[*twice].name));
}

std::optional<std::map<std::string, std::string>> HeaderReader::read_metadata_alone(
    bool first_alone) {
  reader_.enter();
  while (reader_.next()) {
    if (reader_.key() == kMetadataKey) {
      read_metadata();
      if (first_alone) return std::move(header_.metadata);
    } else if (first_alone) {
      return std::nullopt;
    }
  }
  if (first_alone) return std::nullopt;
  reader_.finish();
  return std::move(header_.metadata);
}

ParsedHeader HeaderReader::read() {
  // A tensor takes more.
  constexpr std::size_t kLeastBytes = 64;
  header_.tensors.reserve(std::min(bytes_ / kLeastBytes, kMaxEntries));
  reader_.enter();
  while (reader_.next()) {
    if (reader_.key() == kMetadataKey) {
      read_metadata();
    } else {
      read_tensor();
    }
  }
  reader_.finish();
  refuse_twice();
  return std::move(header_);
}

void require_beginning(std::string_view text) {
  if (text.empty() || text.front() != '{') {
    throw Error(ErrorKind::kBadInput, "is not a safetensors file: its header does not begin with {")
        .at_offset(kLengthBytes);
  }
}

}  // namespace

std::optional<std::map<std::string, std::string>> parse_metadata(std::string_view text,
                                                                 bool is_whole) {
  if (is_whole) {
    require_beginning(text);
    // Where nothing is escaped, the key stands as it is; most files of many tensors have none.
    const bool may_have_it = text.find(kMetadataKey) != std::string_view::npos ||
                             text.find('\\') != std::string_view::npos;
    if (!may_have_it) return std::map<std::string, std::string>();
    return HeaderReader(text).read_metadata_alone(false);
  }
  try {
    return HeaderReader(text).read_metadata_alone(true);
  } catch (const Error&) {
    return std::nullopt;  // it may go on behind the end
  }
}

ParsedHeader parse_header(std::string_view text) {
  require_beginning(text);
  // JSON takes any white space for padding.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw Error(ErrorKind::kBadInput, "its header holds a NUL byte").at_offset(kLengthBytes + nul);
  }
  if (const std::size_t last = text.find_last_not_of(' '); text[last] != '}') {
    throw Error(ErrorKind::kBadInput, "its header does not end with } and spaces")
        .at_offset(kLengthBytes + last);
  }
  return HeaderReader(text).read();
}

}  // namespace reshardfs::safetensors
