// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/whole_catalogue.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/rank_list.h"
#include "base/text/text.h"
#include "checkpoint/completeness.h"
#include "checkpoint/ranks/file_alone.h"
#include "layout/slicing.h"

namespace reshardfs {
namespace {

void require_one_shape(const Holders& holders) {
  for (const Holders::Row& row : holders.rows()) {
    if (row.entry->shape == holders.front().entry->shape) continue;
    throw Error(ErrorKind::kBadInput, "its shape differs between the ranks (" +
                                          differing_words(holders) +
                                          "), but there is no source strategy")
        .in_file(row.first->source->name())
        .needs(Need::kSourceStrategy)
        .hint(
            "give the strategy that it was saved with (--src-strategy), or name one rank's file "
            "as the source");
  }
}

}  // namespace

std::vector<std::string> warnings_without_layouts(const CheckpointSet& checkpoint) {
  const Completeness& statement = checkpoint.completeness();
  std::vector<std::string> lines = statement.doubts_without_layouts;
  const RankFile& highest = checkpoint.files().back();
  // The file of a rank that is alone has whole parameters, unless its place or its name tells that
  // it is one of several.
  const bool is_alone = checkpoint.files().size() == 1 && !is_one_of_several(highest.path);
  if (is_alone || statement.counted || !lines.empty()) return lines;
  const std::vector<Rank> missing =
      checkpoint.missing_ranks(RankRange(Rank(), highest.rank - Rank()));
  if (missing.empty()) return lines;
  lines.push_back(
      rank_words(missing) + (missing.size() == 1 ? " has" : " have") + " no file, but rank " +
      to_string(highest.rank) +
      " has one: without a strategy it is unknown whether parameters are missing with " +
      (missing.size() == 1 ? "it" : "them"));
  return lines;
}

WholeCatalogue::WholeCatalogue(const CheckpointSet& checkpoint, NameGlobs join, NameTaker takes)
    : Catalogue(SourceRanks({checkpoint.files().front().rank, 1}, 1)),
      checkpoint_(checkpoint),
      joined_(checkpoint, std::move(join)),
      takes_(std::move(takes)) {}

std::string WholeCatalogue::hint() const {
  return "check that --src-strategy is the one that this checkpoint was saved with";
}

std::vector<SlicePlacement> WholeCatalogue::placements(const std::string& name,
                                                       const Holders& holders) const {
  if (joined_.takes(name)) {
    Layout layout = joined_layout(name, holders);
    const std::scoped_lock lock(mutex_);
    const Layout& kept = joined_layouts_.emplace_back(std::move(layout));
    return {{&kept, DeviceRanks(joined_.ranks()), std::nullopt, holders}};
  }
  if (takes_ && !takes_(name) && !has_one_shape(holders)) return {};
  require_one_shape(holders);
  const Holding first = holders.front();
  Holders one;
  one.add({first.file, 1, first.entry});
  const Layout& layout = one_device_layout(first.entry->shape.size());
  return {{&layout, DeviceRanks(RankRange(first.file->rank, 1)), std::nullopt, std::move(one)}};
}

/// One slice a rank along dimension 0, each as long as it is.
Layout WholeCatalogue::joined_layout(const std::string& name, const Holders& holders) const {
  const std::int64_t count = joined_.ranks().size();
  DimensionSplit rows;
  for (const Holding& holder : holders) {
    if (holder.entry->shape.empty()) {
      throw Error(ErrorKind::kBadInput, "a scalar cannot be joined")
          .in_file(holder.file->source->name());
    }
    rows.lengths.push_back(holder.entry->shape[0]);
  }
  if (static_cast<std::int64_t>(rows.lengths.size()) != count) {
    const std::vector<Rank> absent = joined_.absent();
    throw Error(ErrorKind::kMissing,
                "it is to be joined from " + counted(static_cast<std::size_t>(count), "rank") +
                    ", but " + std::to_string(rows.lengths.size()) + " have a slice of it" +
                    (absent.empty() ? ""
                                    : ": " + rank_words(absent) +
                                          (absent.size() == 1 ? " has" : " have") + " no file"))
        .hint("bring the missing files, or leave it out with --exclude");
  }
  Shape joined = holders.front().entry->shape;
  joined[0] = 0;
  for (const std::int64_t length : rows.lengths) {
    joined[0] = add_or_throw(joined[0], length, "the number of its rows");
  }
  joined_.add(name, joined, *holders.front().file);
  Layout layout;
  layout.device_matrix = {count};
  layout.tensor_map.resize(holders.front().entry->shape.size());
  layout.tensor_map[0] = {0};
  layout.uneven.resize(layout.tensor_map.size());
  layout.uneven[0] = std::move(rows);
  return layout;
}

std::vector<std::string> WholeCatalogue::warnings() const {
  std::vector<std::string> lines = warnings_of(joined_.statement());
  for (std::string& line : warnings_without_layouts(checkpoint_)) lines.push_back(std::move(line));
  return lines;
}

const Layout& WholeCatalogue::one_device_layout(std::size_t dimensions) const {
  const std::scoped_lock lock(mutex_);
  const auto [found, is_new] = whole_layouts_.try_emplace(dimensions);
  if (is_new) found->second = whole_layout(1, dimensions);
  return found->second;
}

}  // namespace reshardfs
