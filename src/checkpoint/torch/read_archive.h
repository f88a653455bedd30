// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace reshardfs
