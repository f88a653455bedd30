// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reshardfs/virtual_file.h"

#include "export/manifest.h"

namespace reshardfs {

/// A line as sha256sum writes and reads it, with its newline.
/// @param sha256 lower-case hexadecimal.
std::string checksum_line(const std::string& sha256, const std::string& path);

inline constexpr const char* kChecksumFile = "SHA256SUMS";

/// Whether a file of sums has no line but those of these entries: then it is of an export of the
/// same conversion, whatever its manifest knows of it.
bool has_only_lines_of(const std::string& text, const Manifest::Entries& entries);
/// @throws Error of read_at().
bool has_only_lines_of(const VirtualFile& file, const Manifest::Entries& entries);

}  // namespace reshardfs
