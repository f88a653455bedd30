// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/state_key.h"

#include <memory>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/torch/state_key.h"

namespace reshardfs {
namespace {

std::shared_ptr<const FileIndex> below(const std::string& key, const FileIndex& index) {
  std::vector<TensorEntry> entries = index.entries();
  keep_state(key, entries);
  std::vector<RefusedTensor> refused = index.refused();
  keep_state(key, refused);
  IndexHints hints;
  hints.checksum_bytes = index.checksum_bytes();
  return std::make_shared<const FileIndex>(std::move(entries), hints, BoxOffsets(),
                                           std::move(refused));
}

}  // namespace

void take_below(const std::string& key, const std::string& option, std::vector<RankFile>& files) {
  if (key.empty()) return;
  bool has_some = false;
  // Files of a stage share an index, and go on to.
  std::unordered_map<std::shared_ptr<const FileIndex>, std::shared_ptr<const FileIndex>> known;
  for (RankFile& file : files) {
    if (file.index && !file.of_torch()) {
      std::shared_ptr<const FileIndex>& made = known[file.index];
      if (!made) made = below(key, *file.index);
      file.index = made;
    }
    has_some = has_some ||
               (file.index && (!file.index->entries().empty() || !file.index->refused().empty()));
  }
  if (has_some || files.empty()) return;
  throw Error(ErrorKind::kUsage,
              "has no tensor below the key '" + printable(key) + "' of " + option)
      .in_file(files.front().path.string());
}

}  // namespace reshardfs
