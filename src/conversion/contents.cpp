// SPDX-License-Identifier: Apache-2.0
#include "conversion/contents.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "checkpoint/catalogue.h"
#include "checkpoint/dcp/saved_objects.h"
#include "checkpoint/deepspeed/joined_source.h"
#include "conversion/source_opening.h"

namespace reshardfs {

namespace {

/// Where tensors are put together from several files, each of these.
void add_files(const RankFile& file, std::vector<CheckpointFile>& files) {
  const std::size_t parameters = file.index->entries().size();
  const auto* const joined = dynamic_cast<const JoinedSource*>(file.source.get());
  if (joined == nullptr) {
    files.push_back({file.rank, file.path, file.bytes(), parameters});
    return;
  }
  for (const ByteSourcePtr& part : joined->files()) {
    files.push_back({file.rank, part->name(), part->size(), parameters});
  }
}

}  // namespace

CheckpointContents read_contents(const SourceRequest& request) {
  CheckpointOptions options = set_options(request);
  options.examine_all = true;
  return contents_of(*open_set(request, options));
}

CheckpointContents contents_of(const CheckpointSet& set) {
  CheckpointContents contents;
  contents.step = set.step();
  contents.steps = set.steps();
  contents.notes = set.notes();
  for (const RefusedTensor& tensor : set.refused()) {
    contents.refused.push_back({tensor.name, tensor.reason});
  }
  contents.warnings = set.warnings();
  contents.records_layouts = set.catalogue() != nullptr && set.catalogue()->states_layouts();
  if (set.catalogue() != nullptr) {
    if (const auto saved = set.catalogue()->saved_objects()) {
      for (const SavedObject& object : saved->objects) {
        contents.byte_items.push_back({object.name, object.place.length(), {}});
      }
    }
  }
  for (const SavedValue& value : set.beside().values) {
    contents.byte_items.push_back({value.name, 0, value.what});
  }
  std::sort(contents.byte_items.begin(), contents.byte_items.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::map<std::tuple<std::string, DType, Shape>, std::size_t> known;
  for (const RankFile& file : set.files()) {
    const auto& entries = file.index->entries();
    add_files(file, contents.files);
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
