// SPDX-License-Identifier: Apache-2.0
/// Checkpoint sets in memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "format/ckpt/ckpt.h"
#include "support/sources.h"

namespace reshardfs::test {

inline RankFile rank_file(std::int64_t rank, ByteSourcePtr source) {
  RankFile file;
  file.rank = Rank(rank);
  file.path = "set/rank_" + std::to_string(rank) + "/a.ckpt";
  file.index = std::make_shared<const FileIndex>(ckpt::read_index(*source));
  file.source = std::move(source);
  return file;
}

/// @param records the bytes of each rank's file.
inline std::shared_ptr<const CheckpointSet> memory_set(
    const std::map<std::int64_t, std::string>& records) {
  std::vector<RankFile> files;
  for (const auto& [rank, bytes] : records) {
    files.push_back(rank_file(rank, std::make_shared<MemorySource>(
                                        bytes, "set/rank_" + std::to_string(rank) + "/a.ckpt")));
  }
  return std::make_shared<const CheckpointSet>(std::move(files));
}

/// @param parts for each rank the bytes of its parts; one alone is an ordinary file.
inline std::shared_ptr<const CheckpointSet> segmented_set(
    const std::map<std::int64_t, std::vector<std::string>>& parts) {
  std::vector<RankFile> files;
  for (const auto& [rank, list] : parts) {
    for (std::size_t part = 0; part < list.size(); ++part) {
      const std::string name =
          "set/rank_" + std::to_string(rank) + "/a_part" + std::to_string(part) + ".ckpt";
      RankFile file = rank_file(rank, std::make_shared<MemorySource>(list[part], name));
      file.path = name;
      if (list.size() > 1) file.part = static_cast<std::int64_t>(part);
      files.push_back(std::move(file));
    }
  }
  return std::make_shared<const CheckpointSet>(std::move(files));
}

/// Bytes first, first + 1, ...: `count` of them.
inline std::string counting_bytes(std::size_t count, unsigned first = 0) {
  std::string out(count, '\0');
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<char>((first + i) & 0xff);
  return out;
}

inline std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace reshardfs::test
