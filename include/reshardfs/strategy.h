// SPDX-License-Identifier: Apache-2.0
/// The layouts of all parameters of a training job, by pipeline stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/export.h"
#include "reshardfs/layout.h"

namespace reshardfs {

/// An operator's strategy. Resharding does not need it; it is kept so that merging and converting
/// strategy files loses nothing, and because the first item's stage is the file's stage.
struct OperatorStrategy {
  std::string node_name;
  std::int64_t stage = 0;
  std::vector<std::vector<std::int64_t>> cuts;

  bool operator==(const OperatorStrategy&) const = default;
};

/// One pipeline stage: parameter name (without stage prefix) to layout, sorted by name. Equal
/// layouts are kept once, as nearly all parameters have one of a few.
class RESHARDFS_EXPORT StageLayouts {
  using Map = std::map<std::string, std::shared_ptr<const Layout>>;

 public:
  using value_type = std::pair<const std::string&, const Layout&>;

  /// Yields value_type.
  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = StageLayouts::value_type;
    using difference_type = std::ptrdiff_t;
    using reference = value_type;
    struct pointer {
      value_type value;
      const value_type* operator->() const noexcept { return &value; }
    };

    const_iterator() = default;
    explicit const_iterator(Map::const_iterator at) : at_(at) {}
    value_type operator*() const noexcept { return {at_->first, *at_->second}; }
    pointer operator->() const noexcept { return {**this}; }
    const_iterator& operator++() noexcept {
      ++at_;
      return *this;
    }
    const_iterator operator++(int) noexcept { return const_iterator(at_++); }
    bool operator==(const const_iterator&) const = default;

   private:
    Map::const_iterator at_;
  };
  using iterator = const_iterator;

  StageLayouts() = default;
  StageLayouts(std::initializer_list<std::pair<std::string, Layout>> items);

  const_iterator begin() const noexcept { return const_iterator(layouts_.begin()); }
  const_iterator end() const noexcept { return const_iterator(layouts_.end()); }
  std::size_t size() const noexcept { return layouts_.size(); }
  bool empty() const noexcept { return layouts_.empty(); }
  const_iterator find(const std::string& name) const { return const_iterator(layouts_.find(name)); }
  bool contains(const std::string& name) const { return layouts_.contains(name); }
  /// The reference holds as long as a copy of these layouts does.
  /// @throws std::out_of_range
  const Layout& at(const std::string& name) const { return *layouts_.at(name); }

  /// @return where the name stands, and whether it is new; if not, its layout stays.
  std::pair<const_iterator, bool> try_emplace(std::string name, const Layout& layout);
  void insert_or_assign(const std::string& name, const Layout& layout);

  bool operator==(const StageLayouts& other) const;

 private:
  Map layouts_;
  std::vector<std::shared_ptr<const Layout>> kinds_;  ///< those to share
};

class RESHARDFS_EXPORT Strategy {
 public:
  /// Reads a strategy.
  /// @param path a protobuf file (any name), a JSON file (name ends in .json), or a directory with
  ///        one such file for each pipeline stage.
  /// @throws Error kBadInput, kMissing or kIo; names the file, and the parameter if there is one.
  static Strategy load(const std::filesystem::path& path);

  /// Reads the files of all stages, as load() does for those of a directory.
  static Strategy load_stages(const std::vector<std::filesystem::path>& paths);

  /// @param stages layouts of stage `first_stage`, `first_stage + 1`, ...; none may be missing.
  /// @throws Error kBadInput if a layout is impossible, or not all parameters have the same number
  ///         of devices.
  Strategy(std::vector<StageLayouts> stages, std::int64_t first_stage, bool stage_prefixed,
           std::vector<OperatorStrategy> operators = {});

  std::int64_t stage_count() const noexcept { return static_cast<std::int64_t>(stages_.size()); }
  /// Devices of each stage.
  std::int64_t devices_per_stage() const noexcept { return devices_per_stage_; }
  /// stage_count() * devices_per_stage().
  std::int64_t rank_count() const noexcept { return stage_count() * devices_per_stage_; }
  /// The number of the first stage: 0, but s for the file of stage s of a pipeline read alone.
  std::int64_t first_stage() const noexcept { return first_stage_; }
  /// Whether the names in the file carry "<stage>-" (a merged strategy).
  bool stage_prefixed() const noexcept { return stage_prefixed_; }

  /// @param index 0 ... stage_count()-1 (not offset by first_stage()).
  const StageLayouts& stage(std::int64_t index) const;
  /// Whether any stage lays out `parameter`.
  bool contains(const std::string& parameter) const;
  /// The indices of the stages that hold `parameter`, ascending.
  std::vector<std::int64_t> stages_of(const std::string& parameter) const;

  const std::vector<OperatorStrategy>& operators() const noexcept { return operators_; }

 private:
  std::vector<StageLayouts> stages_;
  std::int64_t first_stage_;
  std::int64_t devices_per_stage_ = 0;
  bool stage_prefixed_;
  std::vector<OperatorStrategy> operators_;
};

/// The bytes of a MindSpore strategy file. A strategy of several stages is written with
/// "<stage>-" before each name, as MindSpore's merge_pipeline_strategys does.
RESHARDFS_EXPORT std::string to_protobuf(const Strategy& strategy);
/// The same as JSON. MindSpore's own JSON cannot nest axes; such maps are written as nested lists,
/// which reshardfs reads.
/// @throws Error kUnsupported for a name that is not UTF-8.
RESHARDFS_EXPORT std::string to_json(const Strategy& strategy);

/// The ranks a group-info file (`restore_group_info_list` in MindSpore) names, in file order.
/// @throws Error kBadInput or kIo.
RESHARDFS_EXPORT std::vector<std::int64_t> load_group_info(const std::filesystem::path& path);

}  // namespace reshardfs
