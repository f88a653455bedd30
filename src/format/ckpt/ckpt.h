// SPDX-License-Identifier: Apache-2.0
/// MindSpore's .ckpt format: a sequence of serialized `Checkpoint` messages of one value each
/// (proto/checkpoint.proto), optionally followed by a 17-byte CRC trailer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/file_index.h"
#include "format/input_format.h"
#include "storage/byte_source.h"

namespace reshardfs::ckpt {

/// A parameter larger than this is written as several records (bytes of content in each).
inline constexpr std::uint64_t kRecordContentLimit = 512ULL << 20;
/// "crc_num" and a 10-byte big-endian number.
inline constexpr std::uint64_t kTrailerBytes = 17;
inline constexpr std::uint64_t kTrailerNumberBytes = 10;

/// Finds all parameters without reading their contents: a few small reads for each record,
/// independent of the file's size.
/// @throws Error kBadInput with file, byte offset and (where known) parameter for anything that
///         is not a whole, consistent checkpoint; kUnsupported for element types
///         that reshardfs does not know; what the source throws.
/// @param known where an index with the same names may be found; may be nullptr.
FileIndex read_index(const ByteSource& source, const NameOrders* known = nullptr);

/// The CRC-32 a trailer states, or nothing if there is no trailer. A trailer is one only if the
/// bytes before it are whole records.
std::optional<std::uint32_t> read_trailer(const ByteSource& source);

/// Reads the whole file once, in blocks of bounded size.
CrcCheck check_crc(const ByteSource& source);

/// A running CRC-32 as trailers have it.
class CrcSum {
 public:
  void add(std::span<const std::byte> bytes) noexcept;
  std::uint32_t value() const noexcept { return value_; }

 private:
  std::uint32_t value_ = 0;
};

/// The trailer for a file with this CRC-32.
std::string trailer(std::uint32_t crc);

/// The bytes before a record's content: everything of `Checkpoint{value{tag, tensor{dims,
/// tensor_type, tensor_content}}}` up to and with the content's length. The record is these bytes
/// followed by `content_bytes` bytes of content. Of a map, `maptensor` in place of `tensor`, and
/// the content is the serialized map.
/// @param shape the whole parameter's, also in each record of a parameter written in several.
std::string record_header(const std::string& name, DType dtype, const Shape& shape,
                          std::uint64_t content_bytes);
/// The length of record_header() without building it.
std::uint64_t record_header_bytes(const std::string& name, DType dtype, const Shape& shape,
                                  std::uint64_t content_bytes);

}  // namespace reshardfs::ckpt
