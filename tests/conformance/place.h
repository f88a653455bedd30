// SPDX-License-Identifier: Apache-2.0
/// The directory that the suite is run on. test_conformance.py makes it, and this file and that one
/// agree on what is in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "storage/backend.h"
#include "storage/local/linkless_tree.h"
#include "storage/location.h"
#include "storage/remote/remote_tree.h"

namespace reshardfs::conformance {

struct Place {
  std::filesystem::path root{};  ///< as location.h says
  std::string change{};          ///< shell command that replaces the file "changing"
  std::string remove{};          ///< shell command that removes the file "removed"
};

Place& place();

inline const Backend& backend() {
  return backend_of(place().root);
}
inline ByteSourcePtr open(const std::string& name) {
  return backend().open(place().root / name);
}

/// What finds the files of a source.
inline SourceTreePtr tree_of(const std::filesystem::path& root,
                             std::size_t most_at_once = RemoteTree::kMostAtOnce) {
  if (!is_url(root)) return std::make_shared<const LinklessTree>(root);
  return std::make_shared<const RemoteTree>(root, most_at_once);
}

/// "large", "changing" and "removed".
inline constexpr std::uint64_t kLargeBytes = (3 << 20) + 123;
/// What the byte at an offset depends on beside it.
inline constexpr unsigned kLarge = 1;
inline constexpr unsigned kBefore = 2;  ///< in "changing"
inline constexpr unsigned kAfter = 3;   ///< in what replaces it
inline constexpr unsigned kRemoved = 4;

/// Files in "many", beside the directory "z".
inline constexpr unsigned kMany = 2345;

/// In "names": what they have in them is their names.
inline const std::vector<std::string>& odd_names() {
  static const std::vector<std::string> names{"%41",   "100%", "a b", "a&b", "a'b", "a+b",
                                              "a,b;c", "a=b",  "h#i", "j?k", "~",   "é"};
  return names;
}

inline std::byte byte_at(std::uint64_t offset, unsigned salt) {
  return static_cast<std::byte>(
      (offset * 31 + (offset >> 8U) * 7 + (offset >> 16U) * 13 + salt * 101) & 0xffU);
}

inline bool are_bytes_of(std::span<const std::byte> bytes, std::uint64_t offset, unsigned salt) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != byte_at(offset + i, salt)) return false;
  }
  return true;
}

/// Reads a range of a file of kLargeBytes, and what it must have.
inline void expect_bytes(const ByteSource& source, std::uint64_t offset, std::size_t count,
                         unsigned salt = kLarge) {
  std::vector<std::byte> out(count);
  source.read_at(offset, out);
  source.check_unchanged();
  EXPECT_TRUE(are_bytes_of(out, offset, salt)) << count << " bytes at " << offset;
}

}  // namespace reshardfs::conformance
