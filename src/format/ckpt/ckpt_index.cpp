// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/text/text.h"
#include "format/ckpt/ckpt.h"
#include "format/ckpt/ckpt_scanner.h"

namespace reshardfs::ckpt {
namespace {

Error bad_record(const std::string& message) {
  return Error(ErrorKind::kBadInput, message);
}

/// Nothing: of a type that is not known.
std::optional<DType> dtype_of(const Record& record) {
  if (record.is_map && record.map_parts.size() == kMapParts) return DType::kMap;
  if (record.is_map) throw bad_map(record.map_parts.size());
  if (!record.type) throw bad_record("the record has no tensor_type");
  return dtype_from_mindspore(*record.type);
}

/// Dims [0] were written for scalars until 2023, and stand for a parameter without elements too:
/// the content tells them apart.
Shape take_shape(Record& record, DType dtype) {
  if (dtype == DType::kMap) return {};
  const bool only_zero = record.dims.size() == 1 && record.dims.front() == 0;
  if (dtype == DType::kString) {
    if (!only_zero) throw bad_record("a str has dims " + to_string(record.dims) + ", expected [0]");
    return {};
  }
  if (only_zero && record.content->length() > 0) return {};
  return std::move(record.dims);
}

/// Turns records into entries: joins the records of a parameter that was written in several, and
/// checks that each has exactly the content that its dims ask for.
class IndexBuilder {
 public:
  void add(Record record);
  FileIndex finish(const NameOrders* known, bool trailer) &&;

 private:
  bool grows(const Record& record);
  void require_grown() const;
  void refuse(const Record& record, std::string why);
  void require_refused_apart() const;
  void begin_entry(Record& record, DType dtype, Shape shape);
  void require_same_tensor(DType dtype, const Shape& shape) const;
  void add_content(const Record& record);
  void require_complete() const;
  Error wrong_content() const;

  std::vector<TensorEntry> entries_;
  ShapeKinds shapes_;
  std::vector<RefusedTensor> refused_;
  bool is_refused_ = false;  ///< the last record
  /// Of a map that is written in growing records, the last one so far; no name: there is none.
  Record growing_{};
  std::vector<std::uint64_t> offsets_;  ///< of each entry's first record
  // Of the last entry:
  std::uint64_t found_bytes_ = 0;
  bool complete_ = true;
};

void IndexBuilder::add(Record record) {
  try {
    if (grows(record)) return;
    const std::optional<DType> known = dtype_of(record);
    if (!record.content) throw bad_record("the record has no tensor_content");
    if (!known) {
      constexpr std::size_t kShownColumns = 40;
      return refuse(record, "its element type '" +
                                shortened(printable(*record.type), kShownColumns) +
                                "' is not known");
    }
    is_refused_ = false;
    const DType dtype = *known;
    Shape shape = take_shape(record, dtype);
    if (!complete_ && entries_.back().name == record.name) {
      require_same_tensor(dtype, shape);
    } else {
      require_complete();
      begin_entry(record, dtype, std::move(shape));
    }
    add_content(record);
  } catch (Error& error) {
    // begin_entry() takes the name.
    error.for_parameter(record.name.empty() ? entries_.back().name : record.name)
        .at_offset(record.offset);
    throw;
  }
}

/// MindSpore 2.0 writes a map three times: its keys; keys and values; keys, values and status. The
/// last one counts, but names its types in a way that no later version reads.
/// @return whether the record belongs to such a map.
bool IndexBuilder::grows(const Record& record) {
  const std::vector<std::uint64_t>& parts = record.map_parts;
  const std::vector<std::uint64_t>& before = growing_.map_parts;
  const bool goes_on = record.is_map && record.name == growing_.name &&
                       parts.size() == before.size() + 1 &&
                       std::equal(before.begin(), before.end(), parts.begin());
  if (!goes_on) require_grown();
  const bool begins = !goes_on && record.is_map && parts.size() == 1;
  if (!goes_on && !begins) return false;
  if (parts.size() < kMapParts) {
    growing_ = record;
  } else {
    growing_ = {};
    refuse(record, "MindSpore 2.0 wrote it, as a map in three growing records");
  }
  return true;
}

void IndexBuilder::require_grown() const {
  if (growing_.name.empty()) return;
  throw bad_map(growing_.map_parts.size()).for_parameter(growing_.name).at_offset(growing_.offset);
}

/// The other tensors can be shown all the same.
void IndexBuilder::refuse(const Record& record, std::string why) {
  require_complete();
  // One that is written in several records.
  if (std::exchange(is_refused_, true) && refused_.back().name == record.name) return;
  refused_.push_back({record.name, std::move(why)});
}

/// A name that stands twice must not hide behind a type.
void IndexBuilder::require_refused_apart() const {
  std::set<std::string_view> names;
  for (const RefusedTensor& tensor : refused_) {
    if (names.insert(tensor.name).second) continue;
    throw bad_record("appears twice in the file").for_parameter(tensor.name);
  }
  if (names.empty()) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!names.contains(entries_[i].name)) continue;
    throw bad_record("appears twice in the file")
        .for_parameter(entries_[i].name)
        .at_offset(offsets_[i]);
  }
}

void IndexBuilder::begin_entry(Record& record, DType dtype, Shape shape) {
  TensorEntry entry;
  entry.dtype = dtype;
  entry.content_bytes = is_array(dtype)
                            ? static_cast<std::uint64_t>(mul_or_throw(
                                  element_count(shape), element_size(dtype), "the content's size"))
                            : record.content->length();
  entry.shape = shapes_.keep(shape);
  offsets_.push_back(record.offset);
  entry.name = std::move(record.name);
  record.name.clear();
  entries_.push_back(std::move(entry));
  found_bytes_ = 0;
}

void IndexBuilder::require_same_tensor(DType dtype, const Shape& shape) const {
  const TensorEntry& entry = entries_.back();
  if (entry.shape == shape && entry.dtype == dtype) return;
  throw bad_record("its records differ: first " + std::string(mindspore_name(entry.dtype)) + " " +
                   to_string(entry.shape) + ", here " + std::string(mindspore_name(dtype)) + " " +
                   to_string(shape));
}

void IndexBuilder::add_content(const Record& record) {
  TensorEntry& entry = entries_.back();
  const std::uint64_t length = record.content->length();
  if (entry.dtype == DType::kString && (length == 0 || length % 4 != 0)) {
    throw bad_record("a str has " + std::to_string(length) +
                     " bytes of content, expected a positive multiple of 4");
  }
  // Empty parts would let a small file ask for many extents.
  if (length == 0 && entry.content_bytes > 0) throw wrong_content();
  if (length > 0) entry.extents.push_back(*record.content);
  found_bytes_ = add_or_throw(found_bytes_, length, "the content's size");

  const std::uint64_t expected = entry.content_bytes;
  // content_bytes fits 63 bits, so that twice of it fits 64. Writers that old know no more fields
  // than we do: a field that looks unknown is a dimension with a damaged key.
  const bool may_be_float32 = entry.dtype == DType::kBFloat16 && !record.has_unknown;
  if (may_be_float32 && expected > 0 && found_bytes_ == 2 * expected) {
    entry.encoding = ContentEncoding::kFloat32AsBFloat16;
    complete_ = true;
  } else if (found_bytes_ == expected) {
    complete_ = true;
  } else if (found_bytes_ < expected || (may_be_float32 && found_bytes_ < 2 * expected)) {
    complete_ = false;
  } else {
    throw wrong_content();
  }
}

void IndexBuilder::require_complete() const {
  if (complete_) return;
  const TensorEntry& entry = entries_.back();
  throw wrong_content().for_parameter(entry.name).at_offset(offsets_.back());
}

/// A name that stands twice is refused when all names are known; what is wrong with a repeated
/// record's content follows from that, and is not worth telling.
Error IndexBuilder::wrong_content() const {
  const TensorEntry& entry = entries_.back();
  for (std::size_t i = 0; i + 1 < entries_.size(); ++i) {
    if (entries_[i].name == entry.name) {
      return bad_record("appears twice in the file: the first record is at offset " +
                        std::to_string(offsets_[i]))
          .at_offset(offsets_.back());
    }
  }
  return bad_record("its content has " + std::to_string(found_bytes_) + " bytes, but " +
                    std::string(mindspore_name(entry.dtype)) + " " + to_string(entry.shape) +
                    " needs " + std::to_string(entry.content_bytes))
      .hint("the file is damaged or not complete: copy it again");
}

FileIndex IndexBuilder::finish(const NameOrders* known, bool trailer) && {
  require_complete();
  require_grown();
  if (entries_.empty() && refused_.empty()) {
    throw bad_record("is not a MindSpore checkpoint: it holds no parameter");
  }
  require_refused_apart();
  // An index lives as long as a mount, and a vector that has grown may be half empty.
  if (entries_.capacity() - entries_.size() > entries_.size() / 8) entries_.shrink_to_fit();
  return FileIndex(std::move(entries_), {known, offsets_, trailer ? kTrailerNumberBytes : 0}, {},
                   std::move(refused_));
}

FileIndex scan(const ByteSource& source, const NameOrders* known) {
  RecordScanner scanner(source);
  IndexBuilder builder;
  while (std::optional<Record> record = scanner.next()) builder.add(std::move(*record));
  return std::move(builder).finish(known, scanner.at_trailer());
}

}  // namespace

FileIndex read_index(const ByteSource& source, const NameOrders* known) {
  try {
    FileIndex index = scan(source, known);
    source.check_unchanged();
    return index;
  } catch (Error& error) {
    // A file that looks damaged may still be being written.
    if (error.kind() == ErrorKind::kBadInput) source.check_unchanged();
    error.in_file(source.name());
    throw;
  }
}

}  // namespace reshardfs::ckpt
