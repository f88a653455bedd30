// SPDX-License-Identifier: Apache-2.0
#include "conversion/map_copies.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "plan/replicas/settle_replicas.h"

namespace reshardfs {
namespace {

using modelmap::Direction;
using modelmap::Mapping;

bool repeats(const NormalForm& form) {
  return std::any_of(form.boxes.begin(), form.boxes.end(), [](const FormTerm& box) {
    return !box.is_literal() &&
           std::any_of(box.axes.begin(), box.axes.end(),
                       [](const TermAxis& axis) { return axis.length() > 1 && axis.stride == 0; });
  });
}

bool may_repeat(const modelmap::ModelMap& map) {
  return std::any_of(map.rules.begin(), map.rules.end(), [](const modelmap::MapRule& rule) {
    return rule.body->has_repeat || rule.body->has_fill;
  });
}

/// Whether it has nothing of a source.
bool is_literal(const NormalForm& form) {
  return std::all_of(form.boxes.begin(), form.boxes.end(),
                     [](const FormTerm& box) { return box.is_literal(); });
}

class CopyFinder {
 public:
  CopyFinder(const SourceTable& source, const std::vector<std::string>& state_prefixes)
      : source_(source), state_prefixes_(state_prefixes) {}

  void add_aliases(const Mapping& mapping) {
    for (const modelmap::SourceAlias& alias : mapping.aliases) {
      const SourceParameter& original = source_.parameters()[alias.of];
      MapCopy copy;
      copy.is_alias = true;
      copy.variable = alias.variable;
      copy.what = "differs from '" + printable(original.name) +
                  "', of which it is an alias (line " + std::to_string(alias.place.line) + " of " +
                  printable(*alias.place.file) + ")";
      add(source_.parameters()[alias.tensor], original, std::move(copy));
    }
  }

  /// The other direction repeats elements that were read, and fills elements in: the source has to
  /// have both.
  void add_repeats(const std::shared_ptr<const SourceTable>& shown, const modelmap::ModelMap& map,
                   modelmap::MapOptions options) {
    options.direction = Direction::kForward;
    options.checks_family = false;
    Mapping back = check_mapping(map, full_tensors(*shown, state_prefixes_), options);
    std::erase_if(back.targets,
                  [](const auto& target) { return !repeats(*target.form) && !target.is_filled; });
    for (modelmap::TargetTensor& target : back.targets) {
      const SourceParameter* original = source_.find(target.name);
      // No tensor gives it a type.
      if (original != nullptr && is_literal(*target.form)) {
        target.source_dtype = target.dtype = original->dtype;
      }
    }
    if (back.targets.empty()) return;
    try {
      add_again(shown, back);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      // Elements that the map casts are not those of the source any more.
      for (const modelmap::TargetTensor& target : back.targets) add_alone(shown, target);
    }
  }

  MapCopies take() { return std::move(found_); }

 private:
  /// @throws what mapped_source() throws.
  void add_again(const std::shared_ptr<const SourceTable>& shown, const Mapping& back) {
    const auto again = mapped_source(shown, back, {.compares_ranks = false});
    for (const modelmap::TargetTensor& target : back.targets) {
      const SourceParameter* original = source_.find(target.name);
      if (original == nullptr) continue;
      MapCopy copy;
      copy.pair.has_fill = target.is_filled;
      copy.what = "has elements that differ from those that they should repeat (line ";
      if (!repeats(*target.form)) copy.what = "has other elements than the map fills in (line ";
      copy.what += std::to_string(target.place.line) + " of " + printable(*target.place.file) + ")";
      add(*original, *again->find(target.name), std::move(copy));
    }
    found_.kept.push_back(again);
  }

  void add_alone(const std::shared_ptr<const SourceTable>& shown,
                 const modelmap::TargetTensor& target) {
    Mapping back;
    back.targets.push_back(target);
    try {
      add_again(shown, back);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      found_.uncompared.push_back(target.name);
    }
  }

  void add(const SourceParameter& parameter, const SourceParameter& other, MapCopy copy) {
    const bool has_both = parameter.grid && other.grid && parameter.grid->complete() &&
                          other.grid->complete() && parameter.dtype == other.dtype &&
                          parameter.grid->full_shape() == other.grid->full_shape();
    if (!has_both && copy.pair.has_fill) refuse_incomplete(parameter);
    if (!has_both) return found_.uncompared.push_back(parameter.name);
    copy.pair = {parameter.name, parameter.grid, other.grid, copy.pair.has_fill};
    found_.copies.push_back(std::move(copy));
  }

  /// A tensor that cannot be compared must not be left out silently.
  [[noreturn]] static void refuse_incomplete(const SourceParameter& parameter) {
    Error error(
        ErrorKind::kBadInput,
        "it is not complete, or no strategy states how it is cut, so it cannot be compared with "
        "the values that the map fills in");
    throw error.for_parameter(parameter.name)
        .hint("--drop '" + printable(parameter.name) + "' leaves it out");
  }

  const SourceTable& source_;
  const std::vector<std::string>& state_prefixes_;
  MapCopies found_;
};

/// Whether anything that is asked for depends on a copy.
bool is_used(const MapCopy& copy, const SourceTable& source, const Mapping& mapping,
             const std::set<std::uint32_t>& used) {
  const SourceParameter* parameter = source.find(copy.pair.name);
  const auto number = static_cast<std::uint32_t>(parameter - source.parameters().data());
  if (!copy.is_alias) return used.contains(number);
  return std::any_of(mapping.aliases.begin(), mapping.aliases.end(), [&](const auto& alias) {
    return alias.tensor == number && used.contains(alias.of);
  });
}

std::vector<std::size_t> differing_copies(const std::vector<MapCopy>& copies) {
  std::vector<TensorPair> pairs;
  pairs.reserve(copies.size());
  for (const MapCopy& copy : copies) pairs.push_back(copy.pair);
  return compare_pairs(pairs).differing;
}

[[noreturn]] void refuse(const MapCopy& copy, const std::string& file) {
  Error error(ErrorKind::kBadInput, copy.what);
  error.in_file(file).for_parameter(copy.pair.name);
  if (copy.pair.has_fill) {
    throw error.hint("the other side has no tensor for them; --drop '" + printable(copy.pair.name) +
                     "' leaves it out");
  }
  if (!copy.is_alias) {
    throw error.hint(
        "the copies have drifted, or variables of the map are not those of this checkpoint; "
        "--replicas first takes the first copy of each");
  }
  if (!copy.variable.empty()) {
    error.hint("if it is a tensor of its own, --map-var " + copy.variable + "=0 shows it");
  }
  throw error.hint("--exclude '" + printable(copy.pair.name) + "' leaves it out");
}

}  // namespace

std::set<std::uint32_t> used_sources(const modelmap::Mapping& mapping,
                                     const MappedSourceOptions& options) {
  std::set<std::uint32_t> used;
  for (const modelmap::TargetTensor& target : mapping.targets) {
    if (options.wants && !options.wants(target.name)) continue;
    used.insert(target.sources.begin(), target.sources.end());
  }
  return used;
}

MapCopies map_copies(const modelmap::ModelMap& map, const modelmap::MapOptions& options,
                     const Mapping& mapping, const std::shared_ptr<const SourceTable>& source,
                     const std::shared_ptr<const SourceTable>& shown,
                     const std::vector<std::string>& state_prefixes) {
  CopyFinder finder(*source, state_prefixes);
  finder.add_aliases(mapping);
  if (shown && mapping.direction == Direction::kInverse && may_repeat(map)) {
    finder.add_repeats(shown, map, options);
  }
  return finder.take();
}

std::vector<std::string> check_map_copies(const ModelMaps& maps, const ModelMaps::Result& shown,
                                          const MappedSourceOptions& options, Replicas replicas) {
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < shown.mappings.size(); ++i) {
    const Mapping& mapping = shown.mappings[i];
    const std::shared_ptr<const SourceTable>& source = shown.sources[i];
    const bool is_last = i + 1 == shown.mappings.size();
    const MappedSourceOptions wanted = is_last ? options : MappedSourceOptions{};
    const auto used = used_sources(mapping, wanted);
    const auto tensors = full_tensors(*source, options.state_prefixes);
    MapCopies found =
        map_copies(maps.at(i), maps.map_options(i, source, tensors), mapping, source,
                   is_last ? shown.table : shown.sources[i + 1], options.state_prefixes);
    std::erase_if(found.copies, [&](const MapCopy& copy) {
      const bool is_left_out = copy.is_alias && wanted.wants && !wanted.wants(copy.pair.name);
      return is_left_out || !is_used(copy, *source, mapping, used);
    });
    for (const std::size_t number : differing_copies(found.copies)) {
      const MapCopy& copy = found.copies[number];
      if (copy.is_alias || copy.pair.has_fill || replicas != Replicas::kFirst) {
        refuse(copy, source->find(copy.pair.name)->holders.front().file->source->name());
      }
      warnings.push_back("'" + printable(copy.pair.name) + "' " + copy.what +
                         ": the first copies are taken, because of --replicas first");
    }
  }
  return warnings;
}

std::vector<ReplicaDisagreement> compare_mapped_ranks(const SourceTable& source,
                                                      const ModelMaps& maps, Replicas replicas) {
  if (maps.empty() || source.states_layouts()) return {};
  std::vector<ReplicatedParameter> copies;
  for (const SourceParameter& parameter : source.parameters()) {
    const bool is_alone = parameter.holders.size() == 1;
    if (!is_alone && parameter.grid && parameter.grid->cell_count() == 1)
      copies.push_back({&parameter, parameter.grid});
  }
  if (copies.empty()) return {};
  ReplicaFindings found = check_replicas(source, copies);
  if (replicas == Replicas::kSame && !found.differing.empty()) {
    refuse_slices(found.differing, source);
  }
  return std::move(found.differing);
}

std::vector<std::string> settle_mapped_ranks(const std::vector<ReplicaDisagreement>& differing,
                                             const ModelMaps::Result& shown,
                                             const MappedSourceOptions& options,
                                             Replicas replicas) {
  if (differing.empty()) return {};
  const SourceTable& source = *shown.sources.front();
  // What is asked for is known of the last map alone.
  const std::set<std::uint32_t> used = used_sources(
      shown.mappings.front(), shown.mappings.size() == 1 ? options : MappedSourceOptions());
  std::vector<ReplicaDisagreement> counting;
  std::vector<const SourceParameter*> parameters;
  for (const ReplicaDisagreement& one : differing) {
    const auto number = static_cast<std::uint32_t>(one.parameter - source.parameters().data());
    if (!used.contains(number)) continue;
    counting.push_back(one);
    parameters.push_back(one.parameter);
  }
  if (counting.empty()) return {};
  if (replicas == Replicas::kSame) refuse_replicas(counting, source);
  return {lowest_rank_warning(parameters)};
}

}  // namespace reshardfs
