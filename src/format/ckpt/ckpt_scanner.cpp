// SPDX-License-Identifier: Apache-2.0
#include "format/ckpt/ckpt_scanner.h"

#include <algorithm>
#include <limits>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "base/text/utf8.h"
#include "format/encrypted/encrypted.h"
#include "format/name_limit.h"

namespace reshardfs::ckpt {
namespace {

constexpr std::uint64_t kMaxTypeBytes = 64;

// Field numbers of proto/checkpoint.proto.
constexpr std::uint32_t kValue = 1;
constexpr std::uint32_t kTag = 1;
constexpr std::uint32_t kTensor = 2;
constexpr std::uint32_t kMapTensor = 3;
constexpr std::uint32_t kMapPart = 1;
constexpr std::uint32_t kDims = 1;
constexpr std::uint32_t kType = 2;
constexpr std::uint32_t kContent = 3;
/// A key's first byte has the wire type and so many values of the field's number.
constexpr std::uint32_t kNumbersInAByte = 16;

Error bad_at(std::uint64_t offset, const std::string& message) {
  return Error(ErrorKind::kBadInput, message).at_offset(offset);
}

}  // namespace

Error bad_map(std::uint64_t parts) {
  return Error(ErrorKind::kBadInput, "a map parameter has " +
                                         counted(static_cast<std::size_t>(parts), "tensor") +
                                         ", expected 3 (keys, values, status)");
}

RecordScanner::RecordScanner(const ByteSource& source, std::uint64_t max_records)
    : cursor_(source), max_records_(max_records) {
  if (source.size() == 0) throw Error(ErrorKind::kBadInput, "is not a checkpoint: it is empty");
  refuse_encrypted();
}

// No record begins with the bytes that encrypted files begin with.
void RecordScanner::refuse_encrypted() {
  if (cursor_.file_size() < kCipherMagicBytes) return;
  const std::string head = cursor_.read_bytes(kCipherMagicBytes);
  cursor_.move_to(0);
  if (!encryption_of(std::as_bytes(std::span(head)))) return;
  throw Error(ErrorKind::kUnsupported, "is encrypted").hint("give its key with --dec-key-file");
}

std::optional<Record> RecordScanner::next() {
  while (cursor_.position() < cursor_.file_size()) {
    if (find_trailer()) return std::nullopt;
    const std::uint64_t offset = cursor_.position();
    std::optional<Record> record;
    try {
      const WireField field = cursor_.read_field(cursor_.file_size());
      if (field.type == WireType::kBytes && field.number == kValue) {
        record = read_record(field, offset);
      } else if (field.type == WireType::kBytes) {
        const std::uint64_t end = cursor_.payload_end(field, cursor_.file_size());
        refuse_stray(field, offset, end);
        cursor_.move_to(end);
      }
    } catch (const Error& error) {
      const bool recognised = record_count_ > 0 || !error.parameter().empty();
      if (recognised || error.kind() != ErrorKind::kBadInput) throw;
      throw Error(ErrorKind::kBadInput, "is not a MindSpore checkpoint: at offset " +
                                            std::to_string(cursor_.field_offset()) + ", " +
                                            error.message())
          .hint("copy it again if it is one; --src-pattern selects the files of a checkpoint");
    }
    if (record) return record;
  }
  return std::nullopt;
}

// Only a place where a record could begin is looked at: content that ends in the trailer's letters
// lies inside a record. The letters cannot begin a record (they would be a group), so this never
// takes a record away either.
bool RecordScanner::find_trailer() {
  if (cursor_.file_size() - cursor_.position() != kTrailerBytes) return false;
  const std::uint64_t here = cursor_.position();
  at_trailer_ = cursor_.read_bytes(kTrailerMark.size()) == kTrailerMark;
  cursor_.move_to(here);
  return at_trailer_;
}

Record RecordScanner::read_record(const WireField& field, std::uint64_t offset) {
  if (record_count_ == max_records_) {
    throw bad_at(offset, "more than " + std::to_string(max_records_) + " records");
  }
  // A record that is cut off is read as far as it goes, because then the message can say which
  // parameter it is.
  const std::uint64_t begin = cursor_.position();
  const bool whole = field.value <= cursor_.file_size() - begin;
  const std::uint64_t end = whole ? begin + field.value : cursor_.file_size();
  Record record;
  record.offset = offset;
  dim_count_ = 0;
  try {
    read_value(record, end);
    record.dims.assign(dims_.begin(), dims_.begin() + static_cast<std::ptrdiff_t>(dim_count_));
    if (!whole) {
      throw bad_at(offset, "the record states " + std::to_string(field.value) +
                               " bytes, but only " + std::to_string(end - begin) +
                               " are left in the file")
          .hint("the file is damaged or not complete");
    }
    if (record.name.empty()) throw bad_at(offset, "a record has no name");
  } catch (Error& error) {
    error.for_parameter(record.name);
    throw;
  }
  ++record_count_;
  return record;
}

/// Reads what may be no such thing. @return nothing if it is not.
template <typename Read>
std::optional<Record> RecordScanner::try_to(Read&& read) {
  const std::uint64_t here = cursor_.position();
  std::optional<Record> record = Record{};
  dim_count_ = 0;
  try {
    read(*record);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput) throw;
    record.reset();
  }
  cursor_.move_to(here);
  return record;
}

/// Unknown fields are skipped, unless one is a record or the tensor of one: then a bit of a key is
/// wrong, and the parameter would be missing without a message. If that is the highest bit, the
/// length behind the key is taken for more of the field's number: 17, 33, ...
void RecordScanner::refuse_stray(const WireField& field, std::uint64_t offset, std::uint64_t end) {
  if (field.number % kNumbersInAByte == kValue) {
    throw bad_at(offset,
                 "field " + std::to_string(field.number) + " would be a record's but for one bit")
        .hint("the file is damaged");
  }
  // Finding out that a field is neither costs more than passing over it.
  if (++stray_count_ > max_records_) {
    throw bad_at(offset, "more than " + std::to_string(max_records_) + " unknown fields");
  }
  const auto as_value = try_to([&](Record& record) { read_value(record, end); });
  const bool is_record = as_value && !as_value->name.empty() && as_value->content;
  const auto as_tensor = try_to([&](Record& record) { read_tensor(record, end); });
  const bool is_tensor = as_tensor && as_tensor->type && as_tensor->content;
  if (!is_record && !is_tensor) return;
  throw bad_at(offset, std::string(is_record ? "a record" : "a tensor") + " appears in field " +
                           std::to_string(field.number) + ", where it is not allowed")
      .for_parameter(is_record ? as_value->name : "")
      .hint("the file is damaged");
}

// Fields of an unexpected wire type are skipped like unknown ones, as protobuf does. Repeated
// fields merge as protobuf's messages do: dims are appended, of the others the last one counts.
void RecordScanner::read_value(Record& record, std::uint64_t end) {
  while (cursor_.position() < end) {
    const WireField field = cursor_.read_field(end);
    if (field.type != WireType::kBytes) continue;
    const std::uint64_t payload_end = cursor_.payload_end(field, end);
    if (field.number == kTag) {
      record.name = read_name(field.value);
    } else if (field.number == kTensor) {
      record.is_map = false;
      read_tensor(record, payload_end);
    } else if (field.number == kMapTensor) {
      read_map(record, {cursor_.position(), field.value});
    }
    cursor_.move_to(payload_end);
  }
}

/// Keys, values and status are not looked into: a map is carried over as it is.
void RecordScanner::read_map(Record& record, const ByteRange& payload) {
  record.map_parts.clear();
  std::uint64_t parts = 0;
  while (cursor_.position() < payload.end()) {
    const WireField field = cursor_.read_field(payload.end());
    if (field.type != WireType::kBytes) continue;
    if (field.number == kMapPart && ++parts <= kMapParts) record.map_parts.push_back(field.value);
    cursor_.move_to(cursor_.payload_end(field, payload.end()));
  }
  if (parts == 0 || parts > kMapParts) {
    throw bad_map(parts).at_offset(payload.offset());
  }
  record.is_map = true;
  record.content = payload;
}

void RecordScanner::read_tensor(Record& record, std::uint64_t end) {
  while (cursor_.position() < end) {
    const WireField field = cursor_.read_field(end);
    if (field.type == WireType::kVarint && field.number == kDims) {
      add_dim(field.value);
      continue;
    }
    if (field.type != WireType::kBytes || field.number > kContent) record.has_unknown = true;
    if (field.type != WireType::kBytes) continue;
    const std::uint64_t payload_end = cursor_.payload_end(field, end);
    if (field.number == kDims) {
      read_packed_dims(payload_end);
    } else if (field.number == kType) {
      record.type = read_type(field.value);
    } else if (field.number == kContent) {
      record.content = ByteRange{cursor_.position(), field.value};
    }
    cursor_.move_to(payload_end);
  }
}

void RecordScanner::read_packed_dims(std::uint64_t end) {
  while (cursor_.position() < end) add_dim(cursor_.read_varint(end));
}

void RecordScanner::add_dim(std::uint64_t value) {
  const auto dim = static_cast<std::int64_t>(value);
  if (dim < 0 || dim > std::numeric_limits<std::int32_t>::max()) {
    throw bad_at(cursor_.field_offset(), "dimension " + std::to_string(dim) +
                                             (dim < 0 ? " is negative" : " exceeds 2147483647"));
  }
  if (dim_count_ == dims_.size()) {
    throw bad_at(cursor_.field_offset(),
                 "more than " + std::to_string(kMaxDims) + " dimensions, which is the limit");
  }
  dims_.at(dim_count_++) = dim;
}

std::string RecordScanner::read_name(std::uint64_t length) {
  if (length == 0) throw bad_at(cursor_.field_offset(), "a record has an empty name");
  if (length > kMaxParameterName) {
    throw bad_at(cursor_.field_offset(), "a name of " + std::to_string(length) +
                                             " bytes; the limit is " +
                                             std::to_string(kMaxParameterName));
  }
  std::string name = cursor_.read_bytes(length);
  if (!is_utf8(name)) {
    throw bad_at(cursor_.field_offset(), "the name '" + printable(name) + "' is not valid UTF-8");
  }
  return name;
}

std::string RecordScanner::read_type(std::uint64_t length) {
  std::string type = cursor_.read_bytes(std::min(length, kMaxTypeBytes));
  // Marked, so that a long text whose beginning is a type's name is not taken for it.
  if (length > kMaxTypeBytes) type += "...";
  return type;
}

}  // namespace reshardfs::ckpt
