// SPDX-License-Identifier: Apache-2.0
/// Archives of torch.save: ZIP files without compression, alone in a file or one behind the other
/// in one. Offsets in them count from the archive's start.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_range.h"
#include "storage/byte_source.h"

namespace reshardfs {

class TorchZip {
 public:
  /// Reads the directory, and looks at how the archive begins.
  /// @param place of the archive in the source.
  /// @throws Error kBadInput with the offset in the source if it is no archive of plain entries, as
  ///         torch.save writes them, or leaves its place; kUnsupported if it is compressed,
  ///         encrypted or big-endian.
  TorchZip(const ByteSource& source, const ByteRange& place);

  /// Where an entry's bytes are in the source; its local header is read and compared.
  /// @param name without the archive's folder: "data/0".
  /// @throws Error kBadInput if there is no such entry, or its local header contradicts.
  ByteRange entry(std::string_view name) const;
  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  /// In which all entries are.
  std::string_view folder() const noexcept {
    return std::string_view(folder_).substr(0, folder_.find('/'));
  }
  /// Begins to fetch the local headers of entries whose names begin so, from a far source.
  void foresee(std::string_view beginning) const;
  /// Calls visit(name, CRC-32) for each entry; the checksum is 0 where the writer left it out.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [name, entry] : entries_) visit(name, entry.crc);
  }
  /// The entry's bytes. @throws Error as entry(); if there are more than `most`, or CRC-32 differs.
  std::string read(std::string_view name, std::uint64_t most) const;

 private:
  struct Entry {
    std::uint64_t header = 0;  ///< offset in the archive
    std::uint64_t size = 0;
    std::uint64_t limit = 0;  ///< where the next one's header is, or the directory
    std::uint32_t crc = 0;
  };
  struct Directory {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint64_t count = 0;
    std::uint64_t end = 0;  ///< where it must end
  };

  [[noreturn]] void refuse(const std::string& what, std::uint64_t offset) const;
  [[noreturn]] void refuse_start(const std::string& what) const;
  std::string bytes_at(std::uint64_t offset, std::uint64_t length) const;
  Directory find_directory() const;
  Directory wide_directory(std::uint64_t end_record) const;
  void read_directory(const Directory& directory);
  void set_limits(std::uint64_t directory);
  void read_byte_order();

  const ByteSource& source_;
  ByteRange place_;
  std::string head_;  ///< the first bytes, and the last ones: one request for both
  std::string tail_;
  std::string folder_;  ///< with its slash
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace reshardfs
