// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reshardfs {

/// A line as sha256sum writes and reads it, with its newline.
/// @param sha256 lower-case hexadecimal.
std::string checksum_line(const std::string& sha256, const std::string& path);

inline constexpr const char* kChecksumFile = "SHA256SUMS";

}  // namespace reshardfs
