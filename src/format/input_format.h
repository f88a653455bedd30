// SPDX-License-Identifier: Apache-2.0
/// The formats in which a checkpoint file can be read. To add one: a function that makes a
/// FileIndex, and a line in input_format.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "reshardfs/error.h"

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

/// Files of torch.save, whose values a reader of its own finds: see TorchArchive. They are not
/// among input_formats(), because their names do not tell ranks.
const InputFormat& torch_format();
/// Whether a file's name has an extension that torch.save is used with: ".pt", ".pth", ".bin".
bool has_torch_name(const std::filesystem::path& path);

/// For explained(), which is the way to call it. @throws Error always.
[[noreturn]] void explain(const Error& error, const InputFormat& format, const ByteSource& source);

/// Calls read(), and says what the file is if it is something else altogether.
/// @throws Error what read() throws, or in its place an error that says so.
template <typename Read>
auto explained(const InputFormat& format, const ByteSource& source, Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    explain(error, format, source);
  }
}

/// The format's read_index(), which says so where the file is something else altogether.
FileIndex read_index(const InputFormat& format, const ByteSource& source,
                     const NameOrders* known = nullptr);

}  // namespace reshardfs
