// SPDX-License-Identifier: Apache-2.0
#include "export/companions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "storage/byte_source.h"
#include "view/files/passed_file.h"

namespace reshardfs {
namespace {

const PassedFile* passed(const VirtualFile& file) {
  return dynamic_cast<const PassedFile*>(&file);
}

}  // namespace

bool is_companion(const VirtualFile& file) {
  return file.effort() != Effort::kReads || passed(file) != nullptr;
}

ContentSums sums_of(const VirtualFile& file, SumKinds kinds) {
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 20U;
  ContentHash hash(kinds);
  std::vector<std::byte> block;
  for (std::uint64_t at = 0; at < file.size(); at += kBlock) {
    block.resize(static_cast<std::size_t>(std::min(kBlock, file.size() - at)));
    file.read_at(at, block);
    hash.update(block);
  }
  return hash.finish();
}

std::string version_of(const VirtualFile& file) {
  if (passed(file) == nullptr) return {};
  const auto source = file.equal_source();
  const FileStamp stamp = source->stamp();
  return fmt::format("{} {} {}", source->mtime_ns(), stamp.ctime_ns, stamp.inode);
}

}  // namespace reshardfs
