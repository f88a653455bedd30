// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "export/folder.h"
#include "export/partial_file.h"
#include "export/target.h"

namespace reshardfs {

/// What all files that an export writes to a directory have in common.
struct FileWriting {
  const Folder& root;
  /// Short, and without blanks: what decides the bytes of the files.
  std::string identity;
  Manifest* manifest;  ///< nullptr: none records the files, and they have no sums
  /// Whether a file that has appeared meanwhile may be replaced.
  bool replace;
  /// kMany: for a share, of which a process of an earlier run may still be running elsewhere. It
  /// writes the same bytes, so the last process may replace the file.
  Writers writers;
  std::size_t block_bytes;
  /// Share blocks with the source. Without sums, only what is not shared is read.
  bool reflink = false;
  bool checksums = false;
};

/// Writes a file as a partial file with a journal of its blocks.
/// @param is_begun whether a process before this one has left both.
std::unique_ptr<WriteJob> file_job(const OutputFile& output, const FileWriting& writing,
                                   bool is_begun);

}  // namespace reshardfs
