// SPDX-License-Identifier: Apache-2.0
#include "format/torch/zip_writer.h"

#include <algorithm>

#include <zlib.h>

#include "format/torch/zip_format.h"

namespace reshardfs {
namespace {

using namespace std::string_view_literals;

// As in APPNOTE.TXT of the ZIP format.
constexpr std::uint64_t kPlainVersion = 20;
constexpr std::uint64_t kWideVersion = 45;
constexpr std::uint64_t kNamesAreUtf8 = 0x0800;
constexpr std::uint64_t kFirstOfJanuary1980 = 0x0021;
constexpr std::uint64_t kFieldHeadBytes = 4;
constexpr std::uint64_t kWideFieldId = 1;
constexpr std::size_t kNumberBytes = 8;

void add(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

bool has_wide_size(const ZipEntry& entry) noexcept {
  return entry.size >= kZipWide;
}

/// What local headers and the directory have in common, from the version on to the name's length.
void add_common(std::string& out, const ZipEntry& entry, std::uint64_t version) {
  const std::uint64_t size = std::min(entry.size, kZipWide);
  add(out, version, 2);
  add(out, kNamesAreUtf8, 2);
  add(out, 0, 2);  // stored
  add(out, 0, 2);  // midnight
  add(out, kFirstOfJanuary1980, 2);
  add(out, entry.checksum, 4);
  add(out, size, 4);
  add(out, size, 4);
  add(out, entry.name.size(), 2);
}

/// The zip64 field with these numbers; empty if there are none.
std::string wide_field(std::initializer_list<std::uint64_t> numbers) {
  std::string field;
  if (numbers.size() == 0) return field;
  add(field, kWideFieldId, 2);
  add(field, numbers.size() * kNumberBytes, 2);
  for (const std::uint64_t number : numbers) add(field, number, kNumberBytes);
  return field;
}

std::string local_field(const ZipEntry& entry) {
  return has_wide_size(entry) ? wide_field({entry.size, entry.size}) : std::string();
}

std::string record_field(const ZipEntry& entry) {
  const bool is_far = entry.header >= kZipWide;
  if (!has_wide_size(entry)) return is_far ? wide_field({entry.header}) : std::string();
  return is_far ? wide_field({entry.size, entry.size, entry.header}) : local_field(entry);
}

/// What follows it begins at a multiple of `align`.
std::string padding_field(std::uint64_t begin, std::uint64_t align) {
  const std::uint64_t behind = begin + kFieldHeadBytes;
  const std::uint64_t room = (align - behind % align) % align;
  std::string field = "FB";
  add(field, room, 2);
  field.append(static_cast<std::size_t>(room), 'Z');
  return field;
}

/// The zip64 end record and its locator.
void add_wide_end(std::string& out, std::size_t entries, std::uint64_t directory,
                  std::uint64_t directory_bytes) {
  const std::uint64_t end = directory + directory_bytes;
  out += "PK\x06\x06"sv;
  add(out, kZipWideEndBytes - 12, 8);
  add(out, kWideVersion, 2);
  add(out, kWideVersion, 2);
  add(out, 0, 4);
  add(out, 0, 4);
  add(out, entries, 8);
  add(out, entries, 8);
  add(out, directory_bytes, 8);
  add(out, directory, 8);
  out += "PK\x06\x07"sv;
  add(out, 0, 4);
  add(out, end, 8);
  add(out, 1, 4);
}

}  // namespace

std::uint32_t zip_checksum(std::string_view content, std::uint32_t before) noexcept {
  return static_cast<std::uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

void add_zip_local(std::string& out, const ZipEntry& entry, std::uint64_t align) {
  std::string extra = local_field(entry);
  if (align > 0) {
    extra += padding_field(entry.header + kZipLocalBytes + entry.name.size() + extra.size(), align);
  }
  out += "PK\x03\x04"sv;
  add_common(out, entry, has_wide_size(entry) ? kWideVersion : kPlainVersion);
  add(out, extra.size(), 2);
  out += entry.name;
  out += extra;
}

void add_zip_record(std::string& out, const ZipEntry& entry) {
  const std::string extra = record_field(entry);
  const std::uint64_t version = extra.empty() ? kPlainVersion : kWideVersion;
  out += "PK\x01\x02"sv;
  add(out, version, 2);  // made by
  add_common(out, entry, version);
  add(out, extra.size(), 2);
  add(out, 0, 2);  // comment
  add(out, 0, 2);  // disk
  add(out, 0, 2);  // attributes
  add(out, 0, 4);
  add(out, std::min(entry.header, kZipWide), 4);
  out += entry.name;
  out += extra;
}

void add_zip_end(std::string& out, std::size_t entries, std::uint64_t directory,
                 std::uint64_t directory_bytes) {
  const bool is_wide =
      directory >= kZipWide || directory_bytes >= kZipWide || entries >= kZipWideCount;
  if (is_wide) add_wide_end(out, entries, directory, directory_bytes);
  const std::uint64_t count = std::min<std::uint64_t>(entries, kZipWideCount);
  out += "PK\x05\x06"sv;
  add(out, 0, 2);
  add(out, 0, 2);
  add(out, count, 2);
  add(out, count, 2);
  add(out, std::min(directory_bytes, kZipWide), 4);
  add(out, std::min(directory, kZipWide), 4);
  add(out, 0, 2);
}

}  // namespace reshardfs
