// SPDX-License-Identifier: Apache-2.0
#include "conversion/unmatched_selectors.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "base/text/near_name.h"
#include "base/text/text.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/dcp/saved_objects.h"

namespace reshardfs {
namespace {

/// Each name once, in the order in which it came first.
class Names {
 public:
  void add(const std::string& name) {
    if (seen_.insert(name).second) names_.push_back(name);
  }
  std::vector<std::string> take() && { return std::move(names_); }

 private:
  std::unordered_set<std::string> seen_;
  std::vector<std::string> names_;
};

void add_undescribed(const CheckpointSet& checkpoint, Names& names) {
  for (const RefusedTensor& tensor : checkpoint.refused()) names.add(tensor.name);
  if (checkpoint.catalogue() == nullptr) return;
  for (const std::string& name : checkpoint.catalogue()->required_names()) names.add(name);
  const auto saved = checkpoint.catalogue()->saved_objects();
  if (saved == nullptr) return;
  for (const SavedObject& object : saved->objects) names.add(object.name);
}

/// What a cast is met with: as the files have it, but for the one type that is shown as another.
DType uncast(const TargetParameter& parameter) {
  const DType type = parameter.source->dtype;
  return type == DType::kInt4 ? DType::kInt8 : type;
}

/// "BFloat16 (12 parameters, as 'w') and Int32 (1 parameter, as 'n')"
std::string types_of(const std::vector<const TargetParameter*>& parameters) {
  std::map<DType, std::vector<const TargetParameter*>> by_type;
  for (const TargetParameter* parameter : parameters) {
    by_type[uncast(*parameter)].push_back(parameter);
  }
  std::string text;
  std::size_t left = by_type.size();
  for (const auto& [type, of_type] : by_type) {
    text += std::string(mindspore_name(type)) + " (" + counted(of_type.size(), "parameter") +
            ", as '" + printable(of_type.front()->name) + "')";
    --left;
    if (left > 0) text += left == 1 ? " and " : ", ";
  }
  return text;
}

/// What each of the casts meets.
class CastUses {
 public:
  explicit CastUses(const std::vector<std::string>& texts) : casts_(texts), uses_(texts.size()) {}

  void meet(const TargetTable& table) {
    for (const TargetParameter& parameter : table.parameters()) {
      const DType type = uncast(parameter);
      const CastRule* rule = casts_.rule_for(parameter.name, type);
      if (rule != nullptr) uses_[static_cast<std::size_t>(rule - casts_.rules().data())].any = true;
      for (std::size_t i = 0; i < uses_.size(); ++i) {
        if (uses_[i].any || !glob_match(casts_.rules()[i].glob, parameter.name)) continue;
        uses_[i].matched.push_back(&parameter);
        if (casts_.rules()[i].from == type) uses_[i].taken_before = true;
      }
    }
  }

  bool is_used(std::size_t cast) const { return uses_[cast].any; }

  /// Why a cast is not used, as far as what is shown tells; empty if it matches none of that.
  std::string reason(std::size_t cast) const {
    const Use& use = uses_[cast];
    if (use.matched.empty()) return {};
    if (use.taken_before) {
      return "has no effect: a --cast before it takes all that it matches, as '" +
             printable(use.matched.front()->name) + "'; put it first";
    }
    return "converts nothing: no parameter that it matches is " +
           std::string(mindspore_name(casts_.rules()[cast].from)) + "; they are " +
           types_of(use.matched);
  }

  const std::string& glob(std::size_t cast) const { return casts_.rules()[cast].glob; }

 private:
  struct Use {
    bool any = false;
    std::vector<const TargetParameter*> matched{};  ///< by the glob alone
    bool taken_before = false;                      ///< by an earlier cast
  };
  Casts casts_;
  std::vector<Use> uses_;
};

}  // namespace

bool selects_by_name(const SourceRequest& source) {
  return !source.join.empty() || !source.renames.empty() || !source.drops.empty() ||
         !source.state_prefixes.empty();
}

bool selects_by_name(const ConversionOptions& options) {
  return selects_by_name(options.source) || !options.include.empty() || !options.exclude.empty() ||
         !options.name_map.empty();
}

std::vector<std::string> names_in(const CheckpointSet& checkpoint) {
  Names names;
  const FileIndex* before = nullptr;
  for (const RankFile& file : checkpoint.files()) {
    // The files of a stage share an index.
    if (file.index.get() == before) continue;
    before = file.index.get();
    for (const TensorEntry& entry : file.index->entries()) names.add(entry.name);
  }
  add_undescribed(checkpoint, names);
  return std::move(names).take();
}

std::vector<std::string> names_in(const SourceTable& table) {
  if (table.has_stored_names()) return names_in(table.checkpoint());
  Names names;
  for (const SourceParameter& parameter : table.parameters()) names.add(parameter.name);
  add_undescribed(table.checkpoint(), names);
  return std::move(names).take();
}

std::vector<std::string> renamed(const std::vector<std::string>& names, const NameMap& map) {
  std::vector<std::string> targets;
  targets.reserve(names.size());
  for (const std::string& name : names) targets.push_back(map.target(name));
  return targets;
}

void add_unmatched_names(const NameMap& map, const std::filesystem::path& file,
                         const std::vector<std::string>& names, UnmatchedOptions& unmatched) {
  if (map.entries().empty()) return;
  const std::unordered_set<std::string> known(names.begin(), names.end());
  std::vector<std::string> unknown;
  for (const auto& entry : map.entries()) {
    if (!known.contains(entry.first)) unknown.push_back(entry.first);
  }
  if (unknown.empty()) return;
  std::string line = "--name-map " + printable(file.string()) + " renames " + name_list(unknown) +
                     ", which the checkpoint does not have";
  const std::string near = did_you_mean(unknown.front(), names);
  if (!near.empty()) {
    line += "; " + near;
  } else if (const auto nearest = near_glob(glob_of(unknown.front()), names)) {
    line += "; the nearest name is '" + printable(nearest->name) + "'";
  }
  unmatched.add(std::move(line));
}

void add_unmatched_casts(const std::vector<std::string>& texts,
                         const std::vector<const TargetTable*>& shown,
                         const std::vector<std::string>& names, UnmatchedOptions& unmatched) {
  CastUses uses(texts);
  for (const TargetTable* table : shown) {
    if (table != nullptr) uses.meet(*table);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (uses.is_used(i)) continue;
    const std::string option = "--cast '" + printable(texts[i]) + "' ";
    if (const std::string reason = uses.reason(i); !reason.empty()) {
      unmatched.add(option + reason);
      continue;
    }
    const std::string& glob = uses.glob(i);
    const auto hidden = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return glob_match(glob, name);
    });
    if (hidden != names.end()) {
      unmatched.add(option + "matches only parameters that are not shown, as '" +
                    printable(*hidden) + "'");
      continue;
    }
    const std::string types = texts[i].substr(texts[i].rfind(':') + 1);
    const auto with_types = [&](const std::string& near) {
      return fmt::format("{}:{}", near, types);
    };
    unmatched.add(option + "matches no parameter" +
                  near_glob_words("--cast", glob, names, with_types));
  }
}

void add_unmatched_filters(const ConversionOptions& options, const std::vector<std::string>& names,
                           const NameMap& name_map, UnmatchedOptions& unmatched) {
  const std::vector<std::string> targets = renamed(names, name_map);
  std::vector<std::string> both = names;
  both.insert(both.end(), targets.begin(), targets.end());
  unmatched.add_globs("--include", options.include, targets);
  unmatched.add_globs("--exclude", options.exclude, targets);
  unmatched.add_prefixes("--state-prefix", options.source.state_prefixes, both);
  add_unmatched_names(name_map, options.name_map, names, unmatched);
}

}  // namespace reshardfs
