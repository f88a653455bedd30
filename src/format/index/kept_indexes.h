// SPDX-License-Identifier: Apache-2.0
/// The indexes of the files of a set, as bytes: proto/kept_indexes.proto.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/file_index.h"

namespace reshardfs {

struct KeptIndexes {
  struct File {
    std::size_t index = 0;              ///< in `indexes`
    std::optional<std::size_t> like{};  ///< the file that samples showed it to be like
  };
  std::vector<std::shared_ptr<const FileIndex>> indexes{};
  std::vector<File> files{};
};

std::string encode_indexes(const KeptIndexes& kept);

/// @return nothing if they are no such bytes, or contradict themselves.
std::optional<KeptIndexes> decode_indexes(const std::string& bytes);

}  // namespace reshardfs
