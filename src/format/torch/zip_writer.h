// SPDX-License-Identifier: Apache-2.0
/// Writing ZIP archives whose entries are stored as they are, as APPNOTE.TXT describes them. Sizes
/// stand before the contents. What needs 64 bits is in zip64 fields, and nothing else is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reshardfs {

struct ZipEntry {
  std::string name;
  std::uint64_t size = 0;
  std::uint32_t checksum = 0;
  std::uint64_t header = 0;  ///< offset of the local header in the archive
};

/// The checksum of an entry with these bytes.
/// @param before the checksum of the entry's bytes before them.
std::uint32_t zip_checksum(std::string_view content, std::uint32_t before = 0) noexcept;

/// Appends what stands before an entry's bytes.
/// @param align where these are to begin: a multiple of it, from the archive's start. torch.save
///        leaves the room for it in a field "FB" (inline_container.cc, getPadding). 0: anywhere.
void add_zip_local(std::string& out, const ZipEntry& entry, std::uint64_t align);
/// Appends the entry's record in the directory.
void add_zip_record(std::string& out, const ZipEntry& entry);
/// Appends the records of the directory's end.
/// @param directory offset of the directory in the archive.
void add_zip_end(std::string& out, std::size_t entries, std::uint64_t directory,
                 std::uint64_t directory_bytes);

}  // namespace reshardfs
