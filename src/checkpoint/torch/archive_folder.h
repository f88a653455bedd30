// SPDX-License-Identifier: Apache-2.0
/// The folder in an archive of torch.save. PyTorch gives it the name of the file, without the
/// extension, so that it tells how a file was called when it was saved. Older releases call it
/// "archive".
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/completeness.h"
#include "checkpoint/ranks/rank_file.h"
#include "format/input_format.h"
#include "format/torch/torch_archive.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// What read(archive) returns of a file of torch.save.
/// @throws Error as TorchArchive and read() throw, with the file and, if it is of another format,
///         with what it is; kChanged if the file changes meanwhile.
template <typename Read>
auto read_archive(const ByteSource& file, Read&& read) {
  return explained(torch_format(), file, [&] {
    auto result = read(TorchArchive(file));
    file.check_unchanged();
    return result;
  });
}

/// Empty if the file is no such archive. @throws errors of reading it.
std::string archive_folder(const ByteSource& file);

/// Files, and the folder of each.
using SavedNames = std::vector<std::pair<std::filesystem::path, std::string>>;

/// Adds a doubt about files whose folder has other numbers than their names, as of another rank, or
/// is the name of another file: they were renamed, or exchanged.
/// @throws Error kBadInput if two files of a directory were saved under one name.
void state_saved_names(const SavedNames& files, Completeness& out);
void state_saved_names(const std::vector<RankFile>& files, Completeness& out);

}  // namespace reshardfs
