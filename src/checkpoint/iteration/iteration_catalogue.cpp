// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/iteration/iteration_catalogue.h"

#include <algorithm>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/text.h"
#include "checkpoint/iteration/iteration_names.h"
#include "layout/slicing.h"

namespace reshardfs {
namespace {

constexpr std::string_view kAccumulated = "accu_grads.";

/// Whether it is one of the names that gradients are accumulated under, which no file has.
bool is_accumulated(std::string_view name) {
  return name.find(kAccumulated) != std::string_view::npos;
}

[[noreturn]] void contradict(const std::string& what) {
  throw Error(ErrorKind::kBadInput, "the metadata contradicts itself: " + what);
}

using FileRanks = std::vector<std::optional<Rank>>;

void note_ranks(const IterationMetadata& metadata, const std::vector<StoredShard>& list,
                FileRanks& ranks) {
  for (const StoredShard& stored : list) {
    std::optional<Rank>& rank = ranks[stored.file];
    if (rank.value_or(stored.rank) != stored.rank) {
      contradict("'" + printable(metadata.files[stored.file]) + "' is of rank " + to_string(*rank) +
                 " and of rank " + to_string(stored.rank));
    }
    rank = stored.rank;
  }
}

FileRanks ranks_of_files(const IterationMetadata& metadata) {
  FileRanks ranks(metadata.files.size());
  std::set<const void*> seen;  // many parameters share their lists
  for (const RecordedParameter& parameter : metadata.parameters) {
    if (is_accumulated(parameter.name)) continue;
    if (!seen.insert(parameter.slices.get()).second) continue;
    for (const RecordedSlice& slice : *parameter.slices) {
      if (seen.insert(slice.stored.get()).second) note_ranks(metadata, *slice.stored, ranks);
    }
  }
  return ranks;
}

/// How many ranks there are if this is the last one.
std::int64_t ranks_up_to(Rank last) {
  if (last.number() < kMaxRanks) return last.number() + 1;
  throw Error(ErrorKind::kBadInput, "the metadata has rank " + to_string(last) + "; the limit is " +
                                        std::to_string(kMaxRanks) + " ranks");
}

/// Stages, where all parameters are in groups of as many ranks; else one.
SourceRanks stages_of(const IterationMetadata& metadata, const FileRanks& file_ranks) {
  std::int64_t count = 1;
  for (const auto& rank : file_ranks) {
    if (rank) count = std::max(count, ranks_up_to(*rank));
  }
  std::set<std::size_t> sizes;
  std::set<const RecordedLayout*> seen;
  bool in_groups = true;
  for (const RecordedParameter& parameter : metadata.parameters) {
    const RecordedLayout* layout = parameter.layout.get();
    if (layout == nullptr || !seen.insert(layout).second) continue;
    const Rank last = *std::max_element(layout->ranks.begin(), layout->ranks.end());
    count = std::max(count, ranks_up_to(last));
    sizes.insert(layout->ranks.size());
    in_groups = in_groups && DeviceRanks::one_group(layout->ranks).is_group();
  }
  const auto size = sizes.empty() ? count : static_cast<std::int64_t>(*sizes.begin());
  if (!in_groups || sizes.size() > 1 || count % size != 0) return {{Rank(), count}, count};
  return {{Rank(), count}, size};
}

/// The cut of the metadata, for a parameter of so many dimensions.
Layout layout_of(const RecordedLayout& recorded, std::size_t dimensions) {
  Layout layout;
  layout.device_matrix = recorded.device_matrix;
  layout.tensor_map = recorded.tensor_map;
  // The writer appends one that cuts nothing behind a single dimension that several axes cut.
  while (layout.tensor_map.size() > dimensions && layout.tensor_map.back().empty()) {
    layout.tensor_map.pop_back();
  }
  return layout;
}

std::vector<Rank> storing_ranks(const RecordedParameter& parameter) {
  std::set<Rank> ranks;
  for (const RecordedSlice& slice : *parameter.slices) {
    if (slice.number != 0) {
      contradict("it has no layout, but a slice of number " + std::to_string(slice.number));
    }
    for (const StoredShard& stored : *slice.stored) ranks.insert(stored.rank);
  }
  if (ranks.empty()) ranks.insert(Rank());
  return {ranks.begin(), ranks.end()};
}

}  // namespace

IterationCatalogue::IterationCatalogue(const std::shared_ptr<const IterationMetadata>& metadata)
    : IterationCatalogue(metadata, ranks_of_files(*metadata)) {}

IterationCatalogue::IterationCatalogue(std::shared_ptr<const IterationMetadata> metadata,
                                       std::vector<std::optional<Rank>> file_ranks)
    : Catalogue(stages_of(*metadata, file_ranks)),
      metadata_(std::move(metadata)),
      file_ranks_(std::move(file_ranks)) {
  for (const std::string& file : metadata_->files) {
    const auto name = parse_iteration_file(file);
    named_ranks_.push_back(name ? std::optional(name->rank) : std::nullopt);
  }
  for (const RecordedParameter& parameter : metadata_->parameters) {
    by_name_.emplace(parameter.name, &parameter);
  }
}

std::string IterationCatalogue::hint() const {
  return "take the whole step's directory as it was saved";
}

bool IterationCatalogue::leaves_out(std::string_view name) const {
  return is_accumulated(name);
}

std::vector<std::string> IterationCatalogue::required_names() const {
  std::vector<std::string> names;
  for (const RecordedParameter& parameter : metadata_->parameters) {
    if (!leaves_out(parameter.name)) names.push_back(parameter.name);
  }
  return names;
}

std::vector<std::string> IterationCatalogue::warnings() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> lines;
  if (!cut_again_.empty()) {
    lines.push_back("metadata.json lacks the optimizer's cut of " +
                    name_list({cut_again_.begin(), cut_again_.end()}) +
                    ": taken from the shapes in the files");
  }
  if (!misnumbered_.empty()) {
    lines.push_back("metadata.json numbers slices as if the ranks were in ascending order, of " +
                    name_list({misnumbered_.begin(), misnumbered_.end()}) +
                    ": taken from the places of the ranks");
  }
  return lines;
}

const RecordedParameter* IterationCatalogue::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

/// With mutex_.
IterationCatalogue::Kind& IterationCatalogue::kind_of(const RecordedParameter& parameter) const {
  const Key key{parameter.layout.get(), parameter.slices.get(), parameter.global_shape.size()};
  const auto known = kinds_.find(key);
  if (known != kinds_.end()) return known->second;
  return kinds_.emplace(key, make_kind(parameter)).first->second;
}

IterationCatalogue::Kind IterationCatalogue::make_kind(const RecordedParameter& parameter) const {
  const std::size_t dimensions = parameter.global_shape.size();
  std::optional<Kind> kind;
  if (parameter.layout == nullptr) {
    const std::vector<Rank> ranks = storing_ranks(parameter);
    kind.emplace(Kind{whole_layout(ranks.size(), dimensions), DeviceRanks(ranks), {}});
  } else if (parameter.layout->interleaved) {
    throw Error(ErrorKind::kUnsupported,
                "its layout is interleaved_parallel: the order of its slices is unknown");
  } else {
    kind.emplace(Kind{layout_of(*parameter.layout, dimensions),
                      DeviceRanks::one_group(parameter.layout->ranks),
                      {}});
  }
  for (const RecordedSlice& slice : *parameter.slices) {
    for (const StoredShard& stored : *slice.stored) {
      if (kind->devices.place_of(stored.rank)) kind->listed.push_back(stored.file);
    }
  }
  std::sort(kind->listed.begin(), kind->listed.end());
  if (parameter.layout != nullptr) check_numbers(parameter, *kind);
  return std::move(*kind);
}

void IterationCatalogue::check_numbers(const RecordedParameter& parameter, Kind& kind) const {
  const Slicing slicing(kind.layout, parameter.global_shape);
  for (const RecordedSlice& slice : *parameter.slices) {
    for (const StoredShard& stored : *slice.stored) {
      const auto place = kind.devices.place_of(stored.rank);
      if (!place) continue;
      const std::int64_t cell = slicing.cell_of(*place);
      if (static_cast<std::uint64_t>(cell) != slice.number) {
        kind.misnumbered = true;
        if (!kind.devices.is_group()) continue;
        contradict("by its layout, rank " + to_string(stored.rank) + " has slice " +
                   std::to_string(cell) + ", but slice " + std::to_string(slice.number) +
                   " is recorded there");
      }
      const std::optional<Rank>& named = named_ranks_[stored.file];
      if (kind.devices.is_group() && named.value_or(stored.rank) != stored.rank) {
        contradict("'" + printable(metadata_->files[stored.file]) + "' is recorded for rank " +
                   to_string(stored.rank));
      }
    }
  }
}

std::vector<const Layout*> IterationCatalogue::layouts_of(const std::string& name) const {
  const RecordedParameter* parameter = find(name);
  if (parameter == nullptr) return {};
  const std::scoped_lock lock(mutex_);
  return {&kind_of(*parameter).layout};
}

bool IterationCatalogue::states_whole(const std::string& name) const {
  const RecordedParameter* parameter = find(name);
  return parameter != nullptr && parameter->layout == nullptr;
}

std::vector<std::string> IterationCatalogue::axis_names(const std::string& name) const {
  const RecordedParameter* parameter = find(name);
  if (parameter == nullptr || parameter->layout == nullptr) return {};
  const std::vector<std::string>& names = parameter->layout->axis_names;
  char letter = 'a';
  const bool mean_nothing = std::all_of(names.begin(), names.end(), [&](const std::string& axis) {
    return axis == std::string(1, letter++);
  });
  return mean_nothing ? std::vector<std::string>() : names;
}

/// The holders that the metadata names; slices in other files do not count.
Holders IterationCatalogue::listed(const Kind& kind, const Holders& holders) const {
  Holders out;
  for (const Holders::Row& row : holders.rows()) {
    const auto is_listed = [&](std::size_t i) {
      return std::binary_search(kind.listed.begin(), kind.listed.end(),
                                static_cast<std::uint32_t>(row.first[i].part));
    };
    for (std::size_t i = 0; i < row.count;) {
      std::size_t end = i;
      while (end < row.count && is_listed(end)) ++end;
      out.add({row.first + i, end - i, row.entry});
      i = end + 1;
    }
  }
  return out;
}

/// Where the replicas of an optimizer cut are the leading axes that the parameter does not use, the
/// writer loses the cut: the files have dimension 0 divided again.
const Layout& IterationCatalogue::layout_for(const RecordedParameter& parameter, Kind& kind,
                                             const Holding& first) const {
  const Slicing slicing(kind.layout, parameter.global_shape);
  const Shape stated = slicing.slice_shape(*kind.devices.place_of(first.file->rank));
  const Shape& held = first.entry->shape;
  const bool other_rows = !held.empty() && held.size() == stated.size() && held[0] > 0 &&
                          held[0] < stated[0] && stated[0] % held[0] == 0 &&
                          std::equal(held.begin() + 1, held.end(), stated.begin() + 1);
  if (!other_rows || parameter.layout == nullptr || !kind.devices.is_group()) return kind.layout;
  const std::int64_t parts = stated[0] / held[0];
  if (slicing.devices() / slicing.cell_count() % parts != 0) return kind.layout;
  const auto [found, is_new] = kind.cut_again.try_emplace(parts, kind.layout);
  if (is_new) found->second.optimizer_shard_size = parts;
  return found->second;
}

std::vector<SlicePlacement> IterationCatalogue::placements(const std::string& name,
                                                           const Holders& holders) const {
  const RecordedParameter* parameter = find(name);
  if (parameter == nullptr) return {};
  const std::scoped_lock lock(mutex_);
  Kind& kind = kind_of(*parameter);
  Holders known = listed(kind, holders);
  if (known.empty()) {
    contradict("it names none of the files that have it, as '" +
               printable(holders.front().file->path.filename().string()) + "'");
  }
  if (kind.misnumbered) misnumbered_.insert(name);
  const Layout& layout = layout_for(*parameter, kind, known.front());
  if (&layout != &kind.layout) cut_again_.insert(name);
  return {{&layout, kind.devices, parameter->global_shape, std::move(known)}};
}

}  // namespace reshardfs
