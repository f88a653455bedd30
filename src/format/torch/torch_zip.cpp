// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_zip.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <zlib.h>

#include "reshardfs/error.h"

#include "format/torch/torch_crc.h"
#include "format/torch/zip_format.h"

namespace reshardfs {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kLocalMark = "PK\x03\x04"sv;
constexpr std::string_view kCentralMark = "PK\x01\x02"sv;
constexpr std::string_view kEndMark = "PK\x05\x06"sv;
constexpr std::string_view kWideEndMark = "PK\x06\x06"sv;
constexpr std::string_view kLocatorMark = "PK\x06\x07"sv;
constexpr std::uint64_t kCentralBytes = 46;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kLocatorBytes = 20;
constexpr unsigned kEncrypted = 1;
constexpr std::uint64_t kWideField = 1;

/// What one item of a usual length needs: both ends in one request.
constexpr std::uint64_t kEndsBytes = 4096;
/// About 200,000 entries.
constexpr std::uint64_t kMostDirectoryBytes = 32ULL << 20U;
constexpr std::uint64_t kMostByteOrder = 16;
/// Before the header of safetensors.
constexpr std::size_t kHeaderLengthBytes = 8;

std::uint64_t number_at(std::string_view bytes, std::uint64_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    const auto byte = static_cast<unsigned char>(bytes.at(static_cast<std::size_t>(at) + i));
    value |= static_cast<std::uint64_t>(byte) << (8 * i);
  }
  return value;
}

/// The numbers of the zip64 field, in their order; nothing if there is none, or it is cut off.
std::optional<std::string_view> wide_field(std::string_view extra) {
  while (extra.size() >= 4) {
    const std::uint64_t id = number_at(extra, 0, 2);
    const auto size = static_cast<std::size_t>(number_at(extra, 2, 2));
    extra.remove_prefix(4);
    if (size > extra.size()) return std::nullopt;
    if (id == kWideField) return extra.substr(0, size);
    extra.remove_prefix(size);
  }
  return std::nullopt;
}

/// What a release of torch.distributed.checkpoint writes as an option and cannot read itself
/// (SerializationFormat.SAFETENSORS of FileSystemWriter): its table has the place of each tensor as
/// that of the whole file, but the length of its elements.
bool is_safetensors(const ByteSource& source, std::uint64_t begin) {
  if (source.size() - begin <= kHeaderLengthBytes) return false;
  std::string bytes(kHeaderLengthBytes + 1, '\0');
  source.read_at(begin, std::as_writable_bytes(std::span(bytes)));
  return bytes.back() == '{' &&
         number_at(bytes, 0, kHeaderLengthBytes) <= source.size() - begin - kHeaderLengthBytes;
}

}  // namespace

TorchZip::TorchZip(const ByteSource& source, const ByteRange& place)
    : source_(source), place_(place) {
  if (place.end() > source.size()) {
    throw Error(ErrorKind::kBadInput, "should have an archive of " +
                                          std::to_string(place.length()) + " bytes here, but has " +
                                          std::to_string(source.size()) + " bytes in all")
        .in_file(source.name())
        .at_offset(place.offset());
  }
  if (place.length() < kZipLocalBytes + kEndBytes) refuse_start("it is too short");
  const auto ends = static_cast<std::size_t>(std::min(kEndsBytes, place.length()));
  head_.resize(ends);
  tail_.resize(ends);
  const std::array parts{
      ReadRequest{place.offset(), std::as_writable_bytes(std::span(head_))},
      ReadRequest{place.end() - ends, std::as_writable_bytes(std::span(tail_))},
  };
  source.read_many(parts);
  if (!head_.starts_with(kLocalMark)) refuse_start("it does not begin as a ZIP archive");
  const Directory directory = find_directory();
  read_directory(directory);
  set_limits(directory.offset);
  if (entries_.find("version"sv) == entries_.end()) {
    refuse("it has no entry 'version', as torch.save writes it", directory.offset);
  }
  read_byte_order();
}

void TorchZip::refuse(const std::string& what, std::uint64_t offset) const {
  throw Error(ErrorKind::kBadInput, "is not an archive of torch.save here: " + what)
      .in_file(source_.name())
      .at_offset(place_.offset() + offset);
}

void TorchZip::refuse_start(const std::string& what) const {
  if (!is_safetensors(source_, place_.offset())) refuse(what, 0);
  throw Error(ErrorKind::kUnsupported,
              "is safetensors here, not an archive of torch.save: PyTorch cannot load this either")
      .in_file(source_.name())
      .at_offset(place_.offset())
      .hint("save without serialization_format, or with HuggingFaceStorageWriter");
}

/// @throws Error if they are not all in the archive.
std::string TorchZip::bytes_at(std::uint64_t offset, std::uint64_t length) const {
  const std::uint64_t size = place_.length();
  if (offset > size || length > size - offset) {
    refuse("it refers to bytes behind its end", std::min(offset, size));
  }
  if (offset + length <= head_.size()) {
    return head_.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
  }
  const std::uint64_t tail = size - tail_.size();
  if (offset >= tail) {
    return tail_.substr(static_cast<std::size_t>(offset - tail), static_cast<std::size_t>(length));
  }
  std::string bytes(static_cast<std::size_t>(length), '\0');
  source_.read_at(place_.offset() + offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

TorchZip::Directory TorchZip::find_directory() const {
  const std::uint64_t at = place_.length() - kEndBytes;
  const std::string end = bytes_at(at, kEndBytes);
  if (!end.starts_with(kEndMark)) {
    refuse(
        "it begins as a ZIP archive and does not end as one: "
        "cut off, not yet written, or followed by other bytes",
        at);
  }
  if (number_at(end, 20, 2) != 0) refuse("its end record has a comment", at);
  Directory directory{number_at(end, 16, 4), number_at(end, 12, 4), number_at(end, 10, 2), at};
  const bool is_wide =
      at >= kLocatorBytes + kZipWideEndBytes && bytes_at(at - kLocatorBytes, 4) == kLocatorMark;
  if (is_wide) {
    const Directory wide = wide_directory(at);
    const auto agrees = [](std::uint64_t plain, std::uint64_t marker, std::uint64_t real) {
      return plain == marker || plain == real;
    };
    if (!agrees(directory.offset, kZipWide, wide.offset) ||
        !agrees(directory.size, kZipWide, wide.size) ||
        !agrees(directory.count, kZipWideCount, wide.count)) {
      refuse("its two end records contradict each other", at);
    }
    directory = wide;
  }
  const std::uint64_t size = place_.length();
  if (directory.offset > size || directory.size > size - directory.offset ||
      directory.offset + directory.size != directory.end) {
    refuse("its directory should end at " + std::to_string(directory.end) + ", but has " +
               std::to_string(directory.size) + " bytes from " + std::to_string(directory.offset) +
               " on",
           at);
  }
  if (directory.size > kMostDirectoryBytes) {
    refuse("its directory has " + std::to_string(directory.size) + " bytes", at);
  }
  return directory;
}

TorchZip::Directory TorchZip::wide_directory(std::uint64_t end_record) const {
  const std::uint64_t locator_at = end_record - kLocatorBytes;
  const std::string locator = bytes_at(locator_at, kLocatorBytes);
  const std::uint64_t at = number_at(locator, 8, 8);
  if (at > locator_at || locator_at - at != kZipWideEndBytes) {
    refuse("its zip64 end record is not where its locator is", locator_at);
  }
  const std::string end = bytes_at(at, kZipWideEndBytes);
  if (!end.starts_with(kWideEndMark)) refuse("it has no zip64 end record", at);
  return {number_at(end, 48, 8), number_at(end, 40, 8), number_at(end, 32, 8), at};
}

void TorchZip::read_directory(const Directory& directory) {
  const std::string bytes = bytes_at(directory.offset, directory.size);
  const std::string_view all = bytes;
  std::uint64_t at = 0;
  std::uint64_t count = 0;
  std::optional<Error> packed;
  for (; at < all.size(); ++count) {
    const std::uint64_t record = directory.offset + at;
    if (all.size() - at < kCentralBytes || all.substr(at, 4) != kCentralMark) {
      refuse("a record of its directory is damaged", record);
    }
    const std::uint64_t name_bytes = number_at(all, at + 28, 2);
    const std::uint64_t extra_bytes = number_at(all, at + 30, 2);
    const std::uint64_t comment_bytes = number_at(all, at + 32, 2);
    if (all.size() - at - kCentralBytes < name_bytes + extra_bytes + comment_bytes) {
      refuse("a record of its directory is cut off", record);
    }
    const std::string name(all.substr(at + kCentralBytes, name_bytes));
    const std::string_view extra = all.substr(at + kCentralBytes + name_bytes, extra_bytes);
    if ((number_at(all, at + 8, 2) & kEncrypted) != 0 || number_at(all, at + 10, 2) != 0) {
      if (!packed) {
        packed = Error(ErrorKind::kUnsupported, "the archive's entry '" + printable(name) +
                                                    "' is compressed or encrypted, and cannot be "
                                                    "read in place");
        packed->in_file(source_.name()).at_offset(place_.offset() + record);
      }
    }
    Entry entry{number_at(all, at + 42, 4), number_at(all, at + 24, 4), 0,
                static_cast<std::uint32_t>(number_at(all, at + 16, 4))};
    std::uint64_t packed_size = number_at(all, at + 20, 4);
    if (entry.header == kZipWide || entry.size == kZipWide || packed_size == kZipWide) {
      std::string_view wide = wide_field(extra).value_or(""sv);
      for (std::uint64_t* const value : {&entry.size, &packed_size, &entry.header}) {
        if (*value != kZipWide) continue;
        if (wide.size() < 8) refuse("a zip64 field is missing or cut off", record);
        *value = number_at(wide, 0, 8);
        wide.remove_prefix(8);
      }
    }
    if (packed_size != entry.size && !packed) refuse("an entry has two sizes", record);
    entry.size = packed_size;
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos || slash + 1 == name.size()) {
      refuse("the entry '" + printable(name) + "' is in no folder", record);
    }
    if (entries_.empty()) folder_ = name.substr(0, slash + 1);
    if (!name.starts_with(folder_)) refuse("its entries are in two folders", record);
    if (!entries_.emplace(name.substr(folder_.size()), entry).second) {
      refuse("the entry '" + printable(name) + "' is there twice", record);
    }
    at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  }
  if (has("constants.pkl")) {
    throw Error(ErrorKind::kUnsupported, "is a program of TorchScript")
        .in_file(source_.name())
        .hint("load it with torch.jit.load(), and save its state_dict() with torch.save()");
  }
  if (packed) throw Error(*packed);
  if (count != directory.count) {
    refuse("its directory has " + std::to_string(count) + " entries, should have " +
               std::to_string(directory.count),
           directory.offset);
  }
}

/// Entries must not share bytes.
void TorchZip::set_limits(std::uint64_t directory) {
  std::vector<Entry*> order;
  order.reserve(entries_.size());
  for (auto& [name, entry] : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return a->header < b->header; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    Entry& entry = *order[i];
    entry.limit = i + 1 < order.size() ? order[i + 1]->header : directory;
    if (entry.header > entry.limit || entry.limit - entry.header < kZipLocalBytes ||
        entry.size > entry.limit - entry.header - kZipLocalBytes) {
      refuse("an entry reaches into the next or out of the archive",
             std::min(entry.header, directory));
    }
  }
}

ByteRange TorchZip::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    refuse("it has no entry '" + printable(std::string(name)) + "'", 0);
  }
  const Entry& entry = found->second;
  const std::string full = folder_ + found->first;
  const std::string header = bytes_at(entry.header, kZipLocalBytes);
  if (!header.starts_with(kLocalMark)) refuse("an entry has no header", entry.header);
  const std::uint64_t name_bytes = number_at(header, 26, 2);
  const std::uint64_t begin = kZipLocalBytes + name_bytes + number_at(header, 28, 2);
  const std::uint64_t space = entry.limit - entry.header;
  if (begin > space || entry.size > space - begin) {
    refuse("an entry reaches into the next or out of the archive", entry.header);
  }
  if (number_at(header, 8, 2) != 0 || (number_at(header, 6, 2) & kEncrypted) != 0 ||
      bytes_at(entry.header + kZipLocalBytes, name_bytes) != full) {
    refuse("the header of '" + printable(full) + "' contradicts the directory", entry.header);
  }
  return {place_.offset() + entry.header + begin, entry.size};
}

void TorchZip::foresee(std::string_view beginning) const {
  if (!source_.is_far()) return;
  std::vector<ByteRange> headers;
  for (auto entry = entries_.lower_bound(beginning);
       entry != entries_.end() && entry->first.starts_with(beginning); ++entry) {
    const std::uint64_t bytes = kZipLocalBytes + folder_.size() + entry->first.size();
    headers.emplace_back(place_.offset() + entry->second.header, bytes);
  }
  source_.foresee(headers, Foresight::kApart);
}

std::string TorchZip::read(std::string_view name, std::uint64_t most) const {
  const ByteRange place = entry(name);
  if (place.length() > most) {
    refuse("its entry '" + printable(std::string(name)) + "' has " +
               std::to_string(place.length()) + " bytes",
           place.offset() - place_.offset());
  }
  std::string bytes = bytes_at(place.offset() - place_.offset(), place.length());
  const std::uint32_t stated = entries_.find(name)->second.crc;
  if (stated == 0 ||
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) == stated) {
    return bytes;
  }
  throw crc_mismatch(source_, std::string(name)).at_offset(place.offset());
}

void TorchZip::read_byte_order() {
  if (entries_.find("byteorder"sv) == entries_.end()) return;
  const std::string order = read("byteorder", kMostByteOrder);
  if (order == "little") return;
  throw Error(ErrorKind::kUnsupported,
              "the archive's byte order is '" + printable(order) + "', should be 'little'")
      .in_file(source_.name())
      .at_offset(place_.offset())
      .hint("save it again on a little-endian machine");
}

}  // namespace reshardfs
