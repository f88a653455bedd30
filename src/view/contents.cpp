// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <tuple>

#include "reshardfs/checkpoint.h"

#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint_set.h"

namespace reshardfs {
namespace {

CheckpointOptions options_of(const CheckpointQuery& query) {
  CheckpointOptions options{query.src_pattern, query.step, query.check_crc, nullptr};
  options.no_symlinks = query.no_symlinks;
  options.decryption = Decryption::load_if_named(query.dec_key_file, query.dec_mode);
  return options;
}

}  // namespace

CheckpointContents read_contents(const std::filesystem::path& path, const CheckpointQuery& query) {
  CheckpointOptions options = options_of(query);
  options.examine_all = true;
  const CheckpointSet set = CheckpointSet::open(path, options);
  CheckpointContents contents;
  contents.step = set.step();
  contents.steps = set.steps();
  contents.notes = set.notes();
  contents.records_layouts = set.catalogue() != nullptr && set.catalogue()->states_layouts();
  std::map<std::tuple<std::string, DType, Shape>, std::size_t> known;
  for (const RankFile& file : set.files()) {
    const auto& entries = file.index->entries();
    contents.files.push_back({file.rank, file.path, file.source->size(), entries.size()});
    for (const TensorEntry& entry : entries) {
      const auto [found, is_new] =
          known.try_emplace({entry.name, entry.dtype, entry.shape}, contents.parameters.size());
      if (is_new) {
        contents.parameters.push_back(
            {entry.name, entry.dtype, entry.shape, entry.content_bytes, {}});
      }
      contents.parameters[found->second].ranks.push_back(file.rank);
    }
  }
  return contents;
}

}  // namespace reshardfs
