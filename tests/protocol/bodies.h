// SPDX-License-Identifier: Apache-2.0
/// What stands behind the headers of requests, and of their answers.
#pragma once

#include <linux/fuse.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs::testing_protocol {

/// The bytes of a structure of linux/fuse.h.
template <typename Struct>
std::string bytes_of(const Struct& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A structure from the beginning of `bytes`, with zeros for what is missing.
template <typename Struct>
Struct as(std::string_view bytes) {
  Struct value{};
  bytes.copy(reinterpret_cast<char*>(&value), sizeof value);
  return value;
}

/// A name as requests have it, with its NUL.
inline std::string name_body(std::string_view name) {
  return std::string(name) + '\0';
}

inline std::string read_body(std::uint64_t handle, std::uint64_t offset, std::uint32_t size) {
  fuse_read_in in{};
  in.fh = handle;
  in.offset = offset;
  in.size = size;
  return bytes_of(in);
}

inline std::string open_body(std::uint32_t flags) {
  fuse_open_in in{};
  in.flags = flags;
  return bytes_of(in);
}

inline std::string release_body(std::uint64_t handle) {
  fuse_release_in in{};
  in.fh = handle;
  return bytes_of(in);
}

inline std::string listxattr_body(std::uint32_t size) {
  fuse_getxattr_in in{};
  in.size = size;
  // Kernels that know of longer ones send them only where that was agreed on.
  return bytes_of(in).substr(0, 8);
}

inline std::string getxattr_body(std::string_view name, std::uint32_t size) {
  return listxattr_body(size) + name_body(name);
}

/// An entry of a READDIR or READDIRPLUS reply.
struct ListedName {
  std::string name;
  std::uint64_t inode = 0;
  std::uint64_t next = 0;  ///< the position after it
};
inline std::vector<ListedName> parse_listing(std::string_view body, bool plus) {
  const std::size_t before = plus ? sizeof(fuse_entry_out) : 0;
  std::vector<ListedName> names;
  while (!body.empty()) {
    if (body.size() < before + sizeof(fuse_dirent)) throw std::runtime_error("half an entry");
    const auto entry = as<fuse_dirent>(body.substr(before));
    const std::size_t length = before + FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + entry.namelen);
    if (body.size() < length) throw std::runtime_error("half a name");
    names.push_back({.name = std::string(body.substr(before + FUSE_NAME_OFFSET, entry.namelen)),
                     .inode = entry.ino,
                     .next = entry.off});
    body.remove_prefix(length);
  }
  return names;
}

}  // namespace reshardfs::testing_protocol
