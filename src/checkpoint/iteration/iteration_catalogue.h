// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "checkpoint/catalogue.h"
#include "format/mindformers/iteration_metadata.h"

namespace reshardfs {

/// A set of MindSpore Transformers' Checkpoint 2.0, whose metadata.json states the layouts.
///
/// A file's slice is the one at the place of its rank in the layout's list of ranks. The number in
/// the slice's name says the same if the list is regular: ascending without gaps, from a multiple
/// of its length on. For a regular list a difference is an error, and a rank that is not in the
/// list (if two stages share the parameter) has its place in its own stage. For other lists the
/// numbers are unreliable, because the writer computes them from the rank as if every list were
/// regular.
class IterationCatalogue final : public Catalogue {
 public:
  /// @param metadata numbers its files; RankFile::part is the same number.
  /// @throws Error kBadInput if a file belongs to two ranks, or a rank exceeds the limit.
  explicit IterationCatalogue(const std::shared_ptr<const IterationMetadata>& metadata);

  /// The rank of each file in the metadata; nullopt: it has no slice that is used.
  const std::vector<std::optional<Rank>>& file_ranks() const noexcept { return file_ranks_; }

  std::vector<const Layout*> layouts_of(const std::string& name) const override;
  bool states_whole(const std::string& name) const override;
  /// Dynamic graphs use the names of the mesh, static ones the letters a, b, c, ...
  std::vector<std::string> axis_names(const std::string& name) const override;
  std::vector<SlicePlacement> placements(const std::string& name,
                                         const Holders& holders) const override;
  std::string hint() const override;
  std::vector<std::string> required_names() const override;
  std::vector<std::string> warnings() const override;
  /// True for accumulated gradients, which no file has.
  bool leaves_out(std::string_view name) const override;

 private:
  /// The data that parameters with the same layout and the same list of slices share.
  struct Kind {
    Layout layout;
    DeviceRanks devices;
    std::vector<std::uint32_t> listed;  ///< numbers of files, ascending
    /// Whether the numbers of slices differ from their places.
    bool misnumbered = false;
    /// The layout with the optimizer's cut, which the metadata lacks; keyed by the number of parts.
    std::map<std::int64_t, Layout> cut_again{};
  };
  /// Layout, list of slices, and number of dimensions.
  using Key = std::tuple<const RecordedLayout*, const void*, std::size_t>;

  IterationCatalogue(std::shared_ptr<const IterationMetadata> metadata,
                     std::vector<std::optional<Rank>> file_ranks);

  const RecordedParameter* find(const std::string& name) const;
  Kind& kind_of(const RecordedParameter& parameter) const;
  Kind make_kind(const RecordedParameter& parameter) const;
  void check_numbers(const RecordedParameter& parameter, Kind& kind) const;
  Holders listed(const Kind& kind, const Holders& holders) const;
  const Layout& layout_for(const RecordedParameter& parameter, Kind& kind,
                           const Holding& first) const;

  std::shared_ptr<const IterationMetadata> metadata_;
  std::vector<std::optional<Rank>> file_ranks_;
  std::vector<std::optional<Rank>> named_ranks_;  ///< from the file's name
  std::unordered_map<std::string_view, const RecordedParameter*> by_name_;
  mutable std::mutex mutex_;
  mutable std::map<Key, Kind> kinds_;
  mutable std::set<std::string> misnumbered_;
  mutable std::set<std::string> cut_again_;
};

}  // namespace reshardfs
