// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/near_strategies.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/state_names.h"
#include "checkpoint/ranks/rank_place.h"
#include "cli/describe/places.h"
#include "conversion/strategy_input.h"
#include "format/foreign_content.h"
#include "storage/byte_source.h"
#include "storage/local/directory.h"
#include "storage/location.h"
#include "storage/source_tree.h"
#include "strategy/files/strategy_file.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

bool has_strategy_name(const std::string& name) {
  return lower(name).find("strategy") != std::string::npos || is_manifest_name(name);
}

/// Users name strategy_ckpt_config.save_file as they like.
bool may_have_any_name(const DirectoryEntry& entry) {
  return entry.is_regular && fs::path(entry.name).extension() == ".ckpt";
}

bool has_strategy_extension(const std::string& name) {
  const fs::path extension = fs::path(name).extension();
  return extension == ".ckpt" || extension == ".json" || extension == ".toml" ||
         is_manifest_name(name);
}

/// Whether a file's content is not that of a checkpoint; that it is a strategy, reading it shows.
bool may_be_strategy(const fs::path& path) {
  try {
    return fs::path(path).extension() != ".ckpt" ||
           !is_checkpoint_content(*open_file(path, nullptr));
  } catch (const Error&) {
    return false;
  }
}

/// Whether files there may be strategies, and none is a checkpoint's.
bool holds_strategies(const fs::path& directory) {
  try {
    std::size_t count = 0;
    for (const DirectoryEntry& entry : list_directory(directory)) {
      if (!entry.is_regular || !has_strategy_extension(entry.name)) continue;
      if (!may_be_strategy(directory / entry.name)) return false;
      ++count;
    }
    return count > 0;
  } catch (const Error&) {
    return false;
  }
}

/// Files of a directory that are opened although no name says what they are.
constexpr std::size_t kMostOthers = 64;

class Search {
 public:
  Search(bool follows_links, std::size_t most) : follows_links_(follows_links), most_(most) {}

  /// @param directory may be empty: the working directory.
  /// @param files not only directories of strategies.
  void look_in(const fs::path& directory, bool files) {
    std::vector<DirectoryEntry> entries;
    try {
      entries = list_directory(directory.empty() ? fs::path(".") : directory);
    } catch (const Error&) {
      return;
    }
    std::size_t others = 0;
    for (const DirectoryEntry& entry : entries) {
      if (found_.size() == most_) return;
      if (entry.is_link && !follows_links_) continue;
      if (!has_strategy_name(entry.name) &&
          !(files && may_have_any_name(entry) && ++others <= kMostOthers)) {
        continue;
      }
      const fs::path path = directory / entry.name;
      const bool is_one = entry.is_directory
                              ? holds_strategies(path)
                              : files && entry.is_regular && has_strategy_extension(entry.name) &&
                                    may_be_strategy(path);
      if (is_one && is_new(path)) found_.push_back(path);
    }
  }
  std::vector<fs::path> take() { return std::move(found_); }

 private:
  bool is_new(const fs::path& path) {
    std::error_code failed;
    const fs::path real = fs::canonical(path, failed);
    return !failed && seen_.insert(real.string()).second;
  }

  bool follows_links_;
  std::size_t most_;
  std::vector<fs::path> found_;
  std::set<std::string> seen_;
};

/// What of a layout decides where slices lie.
bool cut_the_same(const Layout& a, const Layout& b) {
  return a.device_matrix == b.device_matrix && a.tensor_map == b.tensor_map &&
         a.optimizer_shard_size == b.optimizer_shard_size && a.uneven == b.uneven &&
         a.param_split_shape == b.param_split_shape && a.field == b.field;
}

/// @param a of the same checkpoint as b.
bool state_the_same(const SourceTable& a, const SourceTable& b) {
  if (a.ranks().stages() != b.ranks().stages()) return false;
  const auto& parameters = a.parameters();
  return std::all_of(parameters.begin(), parameters.end(), [&](const SourceParameter& parameter) {
    const auto of_a = a.catalogue().layouts_of(parameter.name);
    const auto of_b = b.catalogue().layouts_of(parameter.name);
    return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                      [](const Layout* x, const Layout* y) { return cut_the_same(*x, *y); });
  });
}

}  // namespace

bool is_strategy(const fs::path& path) {
  try {
    const bool may_be = path_kind(path) == PathKind::kDirectory
                            ? holds_strategies(path)
                            : has_strategy_extension(path.string()) && may_be_strategy(path);
    return may_be && StrategyInput(fs::absolute(path)).ranks().has_value();
  } catch (const Error&) {
    return false;
  }
}

std::vector<fs::path> find_near_strategies(const fs::path& source, bool follows_links,
                                           std::size_t most) {
  if (is_url(source)) return {};
  const fs::path parent = path_above(source);
  const fs::path next = path_above(parent.empty() ? fs::path(".") : parent);
  Search search(follows_links, most);
  search.look_in(source, true);
  search.look_in(source / "output", true);
  search.look_in(parent, true);
  search.look_in(parent / "output", true);
  search.look_in(next, false);
  return search.take();
}

std::vector<NearStrategy> fit_near_strategies(
    const std::vector<fs::path>& found, const std::function<DiffSide(const fs::path&)>& open) {
  std::vector<NearStrategy> strategies;
  std::vector<std::pair<std::string, DiffSide>> fitting;
  for (const fs::path& path : found) {
    if (!is_strategy(path)) continue;
    NearStrategy& strategy = strategies.emplace_back();
    strategy.path = path.string();
    try {
      DiffSide side = open(path);
      const auto same = std::find_if(fitting.begin(), fitting.end(), [&](const auto& other) {
        return state_the_same(other.second.table(), side.table());
      });
      if (same != fitting.end()) {
        strategy.same_as = same->first;
      } else {
        fitting.emplace_back(strategy.path, std::move(side));
      }
    } catch (const Error& error) {
      strategy.misfit = error.message();
    }
  }
  return strategies;
}

// A strategy of another model says nothing about this one. Of tensors with one dimension, nothing
// need be stated.
void require_cover(const DiffSide& side) {
  bool lays_out = false;
  for (const SourceParameter& parameter : side.table().parameters()) {
    lays_out = lays_out || parameter.grid != nullptr;
    const bool is_matrix = parameter.holders.front().entry->shape.size() > 1;
    if (parameter.grid || !is_matrix || is_training_state(parameter.name, side.state_prefixes()))
      continue;
    throw Error(ErrorKind::kBadInput,
                fmt::format("it has no layout of '{}'", printable(parameter.name)));
  }
  if (!lays_out) throw Error(ErrorKind::kBadInput, "it lays out no parameter of the checkpoint");
  if (!side.table().missing_ranks().empty() || !can_be_mounted(side)) {
    throw Error(ErrorKind::kBadInput,
                fmt::format("it is for {} ranks, and not all of them are here",
                            side.table().ranks().all().size()));
  }
}

bool can_be_mounted(const DiffSide& side) {
  const auto& parameters = side.table().parameters();
  return std::all_of(parameters.begin(), parameters.end(), [](const SourceParameter& parameter) {
    return !parameter.grid || parameter.grid->complete();
  });
}

}  // namespace reshardfs
