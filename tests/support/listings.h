// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "storage/local/directory.h"

namespace reshardfs::test {

/// The names of a list, those of directories with a slash. Each entry has to be a file or a
/// directory.
inline std::vector<std::string> names_of(const std::vector<DirectoryEntry>& entries) {
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) {
    EXPECT_NE(entry.is_directory, entry.is_regular) << entry.name;
    names.push_back(entry.name + (entry.is_directory ? "/" : ""));
  }
  return names;
}

}  // namespace reshardfs::test
