// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "group_info.pb.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMaxGroupInfoBytes = std::uint64_t{16} << 20;

}  // namespace

std::vector<Rank> load_group_info(const std::filesystem::path& path) {
  const std::string bytes = read_small_file(path, kMaxGroupInfoBytes);
  proto::ParallelGroupMap map;
  if (!map.ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      !map.IsInitialized()) {
    throw Error(ErrorKind::kBadInput, "is not a MindSpore group-info file").in_file(path.string());
  }
  std::vector<Rank> ranks;
  for (const std::int64_t number : map.ckpt_restore_rank_list().dim()) {
    if (number < 0 || number > std::numeric_limits<std::int32_t>::max()) {
      throw Error(ErrorKind::kBadInput, "names " + std::to_string(number) + ", which is not a rank")
          .in_file(path.string());
    }
    ranks.emplace_back(number);
  }
  if (ranks.empty()) {
    throw Error(ErrorKind::kBadInput, "names no ranks to restore from").in_file(path.string());
  }
  return ranks;
}

}  // namespace reshardfs
