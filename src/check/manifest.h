// SPDX-License-Identifier: Apache-2.0
/// Lists of SHA-256 sums, as sha256sum(1) writes them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/process/progress.h"

namespace reshardfs {

class LinklessTree;

struct ManifestLine {
  std::string name;    ///< as it stands there, unescaped
  std::string sha256;  ///< 64 lower-case hexadecimal digits
};

/// @throws Error kBadInput with the line if it is no such list, kMissing, kIo.
std::vector<ManifestLine> read_manifest(const std::filesystem::path& path);

/// The sum of a file, read in blocks of 1 MiB.
/// @param tree if links below it are refused; the file may be somewhere else.
/// @throws Error kMissing, kBadInput, kIo, kChanged.
std::string sha256_of_file(const std::filesystem::path& path, Progress& progress,
                           const std::shared_ptr<const LinklessTree>& tree = nullptr);

}  // namespace reshardfs
