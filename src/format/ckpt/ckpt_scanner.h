// SPDX-License-Identifier: Apache-2.0
/// The records of a .ckpt file one after the other, as they are: their wire format and their limits
/// are checked, what they mean is not (ckpt_index.cpp does).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/shape.h"

#include "format/ckpt/ckpt.h"
#include "format/ckpt/wire_cursor.h"

namespace reshardfs::ckpt {

/// More than any model has; a hostile file of tiny records must not fill the memory.
inline constexpr std::uint64_t kMaxRecords = 2'000'000;
inline constexpr std::size_t kMaxDims = 16;
/// Keys, values and status.
inline constexpr std::size_t kMapParts = 3;
/// A trailer begins with this.
inline constexpr std::string_view kTrailerMark = "crc_num";

/// A refusal of a map that has another number of tensors. Without offset and parameter.
Error bad_map(std::uint64_t parts);

/// One `value` field. What is missing in the file is missing here.
struct Record {
  std::uint64_t offset = 0;                ///< of its first byte in the file
  std::string name;                        ///< never empty, valid UTF-8
  bool is_map = false;                     ///< holds a `maptensor`, and `content` is all of it
  std::vector<std::uint64_t> map_parts{};  ///< bytes of the map's tensors: 1 to 3
  Shape dims;                              ///< each 0 ... 2^31-1
  std::optional<std::string> type;
  std::optional<ByteRange> content;
  bool has_unknown = false;  ///< its tensor has unknown fields
};

class RecordScanner {
 public:
  explicit RecordScanner(const ByteSource& source, std::uint64_t max_records = kMaxRecords);

  /// The next record, or nothing at the end of the file or of all that stands before the trailer.
  /// @throws Error kBadInput with offset and, where known, parameter.
  std::optional<Record> next();

  /// After next() has returned nothing: whether a trailer ends the file.
  bool at_trailer() const noexcept { return at_trailer_; }

 private:
  void refuse_encrypted();
  bool find_trailer();
  Record read_record(const WireField& field, std::uint64_t offset);
  void refuse_stray(const WireField& field, std::uint64_t offset, std::uint64_t end);
  template <typename Read>
  std::optional<Record> try_to(Read&& read);
  void read_value(Record& record, std::uint64_t end);
  void read_map(Record& record, const ByteRange& payload);
  void read_tensor(Record& record, std::uint64_t end);
  void read_packed_dims(std::uint64_t end);
  void add_dim(std::uint64_t value);
  std::string read_name(std::uint64_t length);
  std::string read_type(std::uint64_t length);

  WireCursor cursor_;
  std::uint64_t max_records_;
  /// The dimensions of the record that is being read, so that its Shape is allocated once.
  std::array<std::int64_t, kMaxDims> dims_{};
  std::size_t dim_count_ = 0;
  std::uint64_t record_count_ = 0;
  std::uint64_t stray_count_ = 0;
  bool at_trailer_ = false;
};

}  // namespace reshardfs::ckpt
