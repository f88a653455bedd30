// SPDX-License-Identifier: Apache-2.0
/// The safetensors format, reading: 8 bytes of header length (little endian), a JSON header, then
/// the tensors' bytes one after the other without holes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "format/file_index.h"
#include "format/input_format.h"
#include "storage/byte_source.h"

namespace reshardfs::safetensors {

/// Bytes of the number that begins a file.
inline constexpr std::uint64_t kLengthBytes = 8;
/// The format allows no longer header, those 8 bytes not counted.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
/// The one key of a header that is no tensor.
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// Finds all tensors without reading their bytes, in the order of their bytes in the file (tensors
/// without elements: in the header's order where they stand at the same place). An I8 tensor is an
/// Int4 one if the metadata says so: MindSpore writes its name there with the value "Int4".
/// Where the file has parts of tensors, its entries are pieces: see part_offsets().
/// Costs the header, which is read once and not kept.
/// @throws Error kBadInput with file and (where known) parameter for anything that is not a whole,
///         consistent file; kUnsupported for element types that reshardfs does not know; what the
///         source throws.
/// @param known where an index with the same names may be found; may be nullptr.
FileIndex read_index(const ByteSource& source, const NameOrders* known = nullptr);

/// Whether the file has no tensor, not even one without elements: what a rank saves that has no
/// part of anything. read_index() refuses it, because no model is like that.
/// @throws Error as read_index() does.
bool holds_nothing(const ByteSource& source);

/// The texts of `__metadata__`, empty if there is none. Reads as much of the header as leads to
/// them: of most files, its first 64 KiB.
/// @throws Error as read_index() does.
std::map<std::string, std::string> read_metadata(const ByteSource& source);

/// Compares the file with the CRC-32 that MindSpore puts in the metadata as `crc_num`: over the
/// names in sorted order, each with its tensor's bytes after it. Reads in blocks of bounded size.
/// kBad also if `crc_num` is not a number of 32 bits.
/// @throws Error as read_index() does.
CrcCheck check_crc(const ByteSource& source);

}  // namespace reshardfs::safetensors
