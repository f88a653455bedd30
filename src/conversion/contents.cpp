// SPDX-License-Identifier: Apache-2.0
#include "conversion/contents.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/name_table.h"
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

  /// @param has_new_names whether none of its entries has the name of one before.
  void add(const RankFile& file, bool has_new_names) {
    const std::vector<TensorEntry>& entries = file.index->entries();
    // Files of a stage list the same names in the same order.
    std::size_t expected = 0;
    for (const TensorEntry& entry : entries) {
      if (has_new_names) {
        append(entry);
        expected = list_.size() - 1;
      } else if (expected == list_.size() || !is_of(list_[expected], entry)) {
        expected = position_of(entry, entries.size());
      }
      list_[expected++].ranks.push_back(file.rank);
    }
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  static bool is_of(const CheckpointParameter& parameter, const TensorEntry& entry) {
    return parameter.name == entry.name && parameter.dtype == entry.dtype &&
           parameter.shape == entry.shape.get();
  }

  void append(const TensorEntry& entry) {
    list_.push_back({entry.name, entry.dtype, entry.shape, entry.content_bytes, {}});
    next_.push_back(kNone);
  }

  void index_names(std::size_t more) {
    if (list_.size() + more <= most_) return;
    most_ = 2 * (list_.size() + more);
    first_.emplace(most_, NameOfParameter{&list_});
    for (std::uint32_t i = 0; i < list_.size(); ++i) first_->try_emplace(list_[i].name, i);
  }

  /// @param more so many names may be added.
  std::size_t position_of(const TensorEntry& entry, std::size_t more) {
    index_names(more);
    const auto number = static_cast<std::uint32_t>(list_.size());
    if (const auto first = first_->find(entry.name)) {
      std::size_t last = *first;
      for (std::size_t at = last; at != kNone; at = next_[at]) {
        if (is_of(list_[at], entry)) return at;
        last = at;
      }
      next_[last] = number;
      append(entry);
    } else {
      append(entry);
      first_->try_emplace(entry.name, number);
    }
    return number;
  }

  struct NameOfParameter {
    const std::vector<CheckpointParameter>* list;
    std::string_view operator()(std::uint32_t number) const { return (*list)[number].name; }
  };

  std::vector<CheckpointParameter>& list_;
  std::optional<NameTable<NameOfParameter>> first_{};  ///< of a name, once it is needed
  std::size_t most_ = 0;                               ///< names that it has room for
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
  const auto of_first = set.files_of(set.files().front().rank);
  std::size_t names = 0;
  for (const RankFile& file : of_first) names += file.index->entries().size();
  contents.parameters.reserve(names);
  // The parts of a rank share no names but those of boxes.
  const bool has_boxes = std::any_of(of_first.begin(), of_first.end(),
                                     [](const RankFile& file) { return file.index->has_boxes(); });
  ListedParameters parameters(contents.parameters);
  for (const RankFile& file : set.files()) {
    add_files(file, contents.files);
    parameters.add(file, !has_boxes && file.rank == of_first.front().rank);
  }
  return contents;
}

}  // namespace reshardfs
