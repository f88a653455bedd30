// SPDX-License-Identifier: Apache-2.0
/// The file of sums in a target.
#pragma once

#include <optional>
#include <string>

#include "export/manifest.h"
#include "export/share.h"
#include "export/target.h"

namespace reshardfs {

/// A line as sha256sum writes and reads it, with its newline.
/// @param sha256 lower-case hexadecimal.
std::string checksum_line(const std::string& sha256, const std::string& path);

inline constexpr const char* kChecksumFile = "SHA256SUMS";

/// Whether there is a file of this path that may be the one that the entry is about: of its size,
/// and of its version where the target tells versions.
bool is_recorded(const Target::Listing& there, const std::string& path,
                 const Manifest::Entry& entry);

/// Whether the existing sums contain only lines of these entries. Then they belong to an export of
/// the same conversion, even if its manifest does not list them.
/// @throws Error of Target::read().
bool has_only_sums_of(const Target& target, const Target::Found& sums,
                      const Manifest::Entries& entries);

/// The sums of these entries, if their files exist. @throws Error of Target::list().
std::string sums_of(const Target& target, const Manifest::Entries& entries);

/// Writes the sums of the files of all shares. Every process writes the same bytes.
/// @param known what was written beside the shares.
/// @return a share that is not complete yet, or has lost a file since; then nothing is written.
/// @throws Error of Target::read(), list() and put().
std::optional<Share> write_shared_sums(const Target& target, const std::string& identity,
                                       const SharePlan& own, const Manifest::Entries& known);

}  // namespace reshardfs
