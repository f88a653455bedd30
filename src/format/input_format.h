// SPDX-License-Identifier: Apache-2.0
/// The formats in which a checkpoint file can be read. To add one: a function that makes a
/// FileIndex, and a line in input_format.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "format/file_index.h"
#include "storage/byte_source.h"

namespace reshardfs {

class NameOrders;

enum class CrcCheck : std::uint8_t { kGood, kBad, kNoTrailer };

struct InputFormat {
  std::string_view name;
  /// Of the files' names, with its dot.
  std::string_view extension;
  /// Whether MindSpore encrypts files of this format (see encrypted.h).
  bool may_be_encrypted;
  /// Finds all parameters without reading their contents.
  /// @param known where an index with the same names may be found; may be nullptr.
  /// @throws Error kBadInput with file, byte offset and (where known) parameter for anything that
  ///         is not a whole, consistent file; kUnsupported; what the source throws.
  FileIndex (*read_index)(const ByteSource& source, const NameOrders* known);
  /// Compares the file with the checksum that it states, reading it once in bounded blocks.
  CrcCheck (*check_crc)(const ByteSource& source);
};

/// All formats; the first one is assumed for files whose names do not show it.
std::span<const InputFormat> input_formats();

/// The format of a file, by its name's extension.
const InputFormat& input_format_of(const std::filesystem::path& path);

/// The format's read_index(), which says so where the file is something else altogether.
FileIndex read_index(const InputFormat& format, const ByteSource& source,
                     const NameOrders* known = nullptr);

}  // namespace reshardfs
