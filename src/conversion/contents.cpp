// SPDX-License-Identifier: Apache-2.0
#include "conversion/contents.h"

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

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

/// Entries of one name, type and shape are a parameter.
class ListedParameters {
 public:
  explicit ListedParameters(std::vector<CheckpointParameter>& list) : list_(list) {}

  CheckpointParameter& of(const TensorEntry& entry) {
    const auto [first, is_new] = first_.try_emplace(entry.name, list_.size());
    std::size_t at = is_new ? kNone : first->second;
    std::size_t last = kNone;
    while (at != kNone && (list_[at].dtype != entry.dtype || list_[at].shape != entry.shape)) {
      last = std::exchange(at, next_[at]);
    }
    if (at != kNone) return list_[at];
    if (last != kNone) next_[last] = list_.size();
    next_.push_back(kNone);
    list_.push_back({entry.name, entry.dtype, entry.shape, entry.content_bytes, {}});
    return list_.back();
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  std::vector<CheckpointParameter>& list_;
  std::pmr::monotonic_buffer_resource memory_;
  std::pmr::unordered_map<std::string_view, std::size_t> first_{&memory_};  ///< of a name
  std::vector<std::size_t> next_{};  ///< of the same name, with another type or shape
};

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
  ListedParameters parameters(contents.parameters);
  for (const RankFile& file : set.files()) {
    const auto& entries = file.index->entries();
    add_files(file, contents.files);
    if (contents.parameters.empty()) contents.parameters.reserve(entries.size());
    for (const TensorEntry& entry : entries) {
      parameters.of(entry).ranks.push_back(file.rank);
    }
  }
  return contents;
}

}  // namespace reshardfs
