// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped/mapped_source.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "plan/mapped/added_constant.h"
#include "plan/mapped/mapped_tensor.h"
#include "plan/target/name_map.h"

namespace reshardfs {
namespace {

/// What a parameter has that nothing lays out, if it is the state of one that is laid out; else
/// nullptr.
CellGridPtr grid_of_weight(const SourceTable& table, const SourceParameter& parameter,
                           const std::vector<std::string>& state_prefixes) {
  const std::string weight = weight_of(parameter.name, state_prefixes);
  if (weight.empty()) return nullptr;
  const SourceParameter* like = table.find(weight);
  return like == nullptr ? nullptr : table.grid_like(parameter, *like);
}

/// A tensor as it is, under another name.
bool is_identity(const NormalForm& form) {
  if (form.boxes.size() != 1 || form.boxes.front().is_literal()) return false;
  const FormTerm& box = form.boxes.front();
  const std::vector<std::int64_t> axes = form.axes();
  std::int64_t behind = 1;
  for (std::size_t axis = axes.size(); axis-- > 0;) {
    if (box.axes[axis].length() != axes[axis] || box.axes[axis].stride != behind) return false;
    behind *= axes[axis];
  }
  return box.base == 0;
}

/// Says nothing about layouts but which parameters are whole.
class MappedCatalogue final : public Catalogue {
 public:
  MappedCatalogue(std::shared_ptr<const SourceTable> source, std::set<std::string> whole)
      : Catalogue(source->ranks()), source_(std::move(source)), whole_(std::move(whole)) {}

  std::vector<const Layout*> layouts_of(const std::string& /*name*/) const override { return {}; }
  bool states_whole(const std::string& name) const override { return whole_.contains(name); }
  std::vector<SlicePlacement> placements(const std::string& /*name*/,
                                         const Holders& /*holders*/) const override {
    return {};
  }
  std::string hint() const override { return source_->catalogue().hint(); }
  std::vector<std::string> warnings() const override { return source_->catalogue().warnings(); }

 private:
  std::shared_ptr<const SourceTable> source_;
  std::set<std::string> whole_;
};

class MappedSourceMaker {
 public:
  MappedSourceMaker(std::shared_ptr<const SourceTable> source, const modelmap::Mapping& mapping,
                    const MappedSourceOptions& options)
      : source_(std::move(source)),
        mapping_(mapping),
        options_(options),
        grids_(source_->parameters().size()) {}

  std::shared_ptr<const SourceTable> make() {
    std::deque<std::string> names;
    std::set<std::string> whole;
    std::vector<SourceParameter> parameters;
    parameters.reserve(mapping_.targets.size());
    for (const modelmap::TargetTensor& target : mapping_.targets) {
      SourceParameter& made =
          parameters.emplace_back(names.emplace_back(target.name), target.dtype);
      try {
        made.grid = grid_of(target);
      } catch (Error& error) {
        if (error.parameter().empty()) error.for_parameter(target.name).in_file(*target.place.file);
        throw;
      }
      // A tensor of literals only: any parameter of the source will do.
      const std::size_t first = target.sources.empty() ? 0 : target.sources.front();
      made.holders = source_->parameters()[first].holders;
      if (target.added != 0) {
        const RankFile& beside = *made.holders.front().file;
        computed_.push_back(with_constant(made.grid, target, beside));
        made.grid = grid_of_computed(*made.grid, computed_.back());
      }
      if (is_whole(target)) whole.insert(target.name);
    }
    auto catalogue = std::make_shared<MappedCatalogue>(source_, std::move(whole));
    return std::make_shared<const SourceTable>(
        MappedParameters{source_, std::move(names), std::move(computed_), std::move(parameters),
                         std::move(catalogue)});
  }

 private:
  struct Known {
    std::shared_ptr<const FormWalk> walk;
    bool is_identity = false;
  };

  CellGridPtr grid_of(const modelmap::TargetTensor& target) {
    Known& known = known_[target.form.get()];
    if (!known.walk) {
      known.is_identity = is_identity(*target.form);
      known.walk = std::make_shared<const FormWalk>(target.form);
    }
    std::vector<CellGridPtr> sources;
    sources.reserve(target.sources.size());
    for (const std::uint32_t source : target.sources) sources.push_back(full(source));
    require_array(target, known.is_identity);
    const bool is_renamed =
        sources.size() == 1 && known.is_identity && sources.front()->full_shape() == target.shape();
    if (!is_renamed) require_apart(target);
    // A source that is not read may have another type.
    std::vector<bool> is_read(sources.size());
    for (const FormTerm& box : target.form->boxes) {
      if (!box.is_literal()) is_read[static_cast<std::size_t>(box.source)] = true;
    }
    const auto first = std::find(is_read.begin(), is_read.end(), true) - is_read.begin();
    const DType stored = static_cast<std::size_t>(first) == sources.size()
                             ? target.source_dtype
                             : sources[static_cast<std::size_t>(first)]->dtype();
    for (std::size_t source = 0; source < sources.size(); ++source) {
      if (is_read[source]) require_type(*sources[source], stored, target);
    }
    if (is_renamed) return sources.front();
    return mapped_grid(
        std::make_shared<const MappedTensor>(target.name, stored, known.walk, sources));
  }

  /// The bytes of a text are no elements that can be moved.
  static void require_array(const modelmap::TargetTensor& target, bool is_identity) {
    const bool is_renamed = is_identity && target.dtype == target.source_dtype;
    if (is_array(target.source_dtype) || is_renamed) return;
    throw Error(ErrorKind::kUnsupported,
                "is not made of arrays, and a map can only rename it, not rearrange it")
        .in_file(*target.place.file)
        .for_parameter(target.name);
  }

  /// Elements that share bytes cannot be moved one by one.
  static void require_apart(const modelmap::TargetTensor& target) {
    if (!is_packed(target.source_dtype)) return;
    throw Error(ErrorKind::kUnsupported,
                "has elements of " + std::string(mindspore_name(target.source_dtype)) +
                    ", which share bytes, and a map can only rename it, not rearrange it")
        .in_file(*target.place.file)
        .for_parameter(target.name)
        .hint("drop it in the map, or rename it there as it is");
  }

  /// The mapping knows that all have one type, but an earlier map may have made it so.
  void require_type(const CellGrid& source, DType stored,
                    const modelmap::TargetTensor& target) const {
    const bool casts_twice =
        source.dtype() != target.source_dtype && target.dtype != target.source_dtype;
    if (source.dtype() == stored && !casts_twice) return;
    throw Error(ErrorKind::kUnsupported, "is made of tensors that another map casts from " +
                                             std::string(mindspore_name(source.dtype())) + " to " +
                                             std::string(mindspore_name(target.source_dtype)))
        .in_file(*target.place.file)
        .for_parameter(target.name)
        .hint("leave the casts out of one map, and use --cast");
  }

  /// A parameter as one full tensor.
  const CellGridPtr& full(std::size_t number) {
    CellGridPtr& grid = grids_[number];
    if (grid) return grid;
    const SourceParameter& parameter = source_->parameters()[number];
    grid = parameter.grid;
    if (!grid) grid = grid_of_weight(*source_, parameter, options_.state_prefixes);
    if (grid) return grid;
    if (options_.compares_ranks && !source_->equal_on_all_ranks(parameter)) {
      throw Error(ErrorKind::kBadInput,
                  "the map uses it, but nothing lays it out, and it differs between the ranks: "
                  "each rank has its own values, or a slice")
          .in_file(parameter.holders.front().file->source->name())
          .for_parameter(parameter.name)
          .hint("give a source strategy that has it, or drop it in the map");
    }
    grid = single_cell_grid(source_->compared_holders(parameter));
    return grid;
  }

  /// Whether a destination that does not know it should have it whole, as it would without a map.
  bool is_whole(const modelmap::TargetTensor& target) const {
    return std::all_of(target.sources.begin(), target.sources.end(), [&](std::uint32_t number) {
      const SourceParameter& parameter = source_->parameters()[number];
      if (!source_->states_layouts() || !parameter.grid) return true;
      if (source_->catalogue().states_whole(parameter.name)) return true;
      return options_.source_has_rules && parameter.grid->cell_count() == 1;
    });
  }

  std::shared_ptr<const SourceTable> source_;
  const modelmap::Mapping& mapping_;
  const MappedSourceOptions& options_;
  std::vector<CellGridPtr> grids_;  ///< of the source's parameters, as far as they are read
  std::map<const NormalForm*, Known> known_;
  std::deque<RankFile> computed_;
};

}  // namespace

std::vector<modelmap::SourceTensor> full_tensors(const SourceTable& table,
                                                 const std::vector<std::string>& state_prefixes) {
  std::vector<modelmap::SourceTensor> tensors;
  tensors.reserve(table.parameters().size());
  for (const SourceParameter& parameter : table.parameters()) {
    CellGridPtr grid = parameter.grid;
    if (!grid) grid = grid_of_weight(table, parameter, state_prefixes);
    tensors.push_back({parameter.name, parameter.dtype,
                       grid ? grid->full_shape() : array_shape(*parameter.holders.front().entry)});
  }
  return tensors;
}

std::shared_ptr<const SourceTable> mapped_source(std::shared_ptr<const SourceTable> source,
                                                 const modelmap::Mapping& mapping,
                                                 const MappedSourceOptions& options) {
  return MappedSourceMaker(std::move(source), mapping, options).make();
}

}  // namespace reshardfs
