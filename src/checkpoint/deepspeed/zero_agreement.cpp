// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_agreement.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/deepspeed/zero_layout.h"

namespace reshardfs {
namespace {

[[noreturn]] void refuse_files(const std::string& what, ErrorKind kind = ErrorKind::kBadInput) {
  throw Error(kind, what);
}

bool has_same_groups(const std::map<std::size_t, TorchTensor>& a,
                     const std::map<std::size_t, TorchTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

bool has_same_parts(const ZeroOptimizerStates& a, const ZeroOptimizerStates& b) {
  return a.is_stage3 == b.is_stage3 && a.weights.size() == b.weights.size() &&
         std::equal(a.moments.begin(), a.moments.end(), b.moments.begin(), b.moments.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && has_same_groups(x.second, y.second);
                    }) &&
         a.alignments == b.alignments;
}

/// @param first the first group's: a vector of the model is put together from all of them.
void require_type(const TorchTensor& first, const TorchTensor& group, const std::string& name) {
  if (group.dtype == first.dtype) return;
  refuse_files("'" + printable(name) + "' has flat groups of different types");
}

bool ends_with(std::span<const NamedOptimizer> all, std::size_t rank, std::size_t group) {
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> paddings;
  for (const NamedOptimizer& one : all) {
    if (!one.states->paddings) return false;
    lengths.push_back(one.states->weights[group].shape.front());
    paddings.push_back((*one.states->paddings)[group]);
  }
  return is_end_of_group(lengths, paddings, rank);
}

/// The end of a group's vector, which the last rank has, is padded to a multiple of 2 elements for
/// each rank.
void require_padding(std::span<const NamedOptimizer> all, std::size_t rank) {
  const ZeroOptimizerStates& states = *all[rank].states;
  const auto world = static_cast<std::int64_t>(all.size());
  const bool is_last = rank + 1 == all.size();
  for (std::size_t group = 0; group < states.weights.size(); ++group) {
    const std::int64_t padding = states.paddings ? (*states.paddings)[group] : states.excess[group];
    if (padding == 0 || (is_last && (states.paddings || padding < 2 * world))) continue;
    if (ends_with(all, rank, group)) continue;
    refuse_files("'" + printable(all[rank].name) + "' has " +
                 counted(static_cast<std::size_t>(padding), "element") + " of padding in group " +
                 std::to_string(group) + ", " +
                 (is_last ? "more than " + std::to_string(world) + " ranks need"
                          : "which only the last rank's file may have") +
                 ": the files are not of one save");
  }
}

}  // namespace

void require_one_optimizer(const std::string& model_file, const ZeroModelStates& model,
                           std::span<const NamedOptimizer> all) {
  const auto world = static_cast<std::int64_t>(all.size());
  const std::string files = "has " + counted(all.size(), "file") + " of optimizer states, but '";
  if (model.data_world.value_or(world) != world) {
    refuse_files(files + printable(model_file) + "' states dp_world_size " +
                     std::to_string(*model.data_world),
                 ErrorKind::kMissing);
  }
  const ZeroOptimizerStates& first = *all.front().states;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto& [name, states] = all[rank];
    if (states->world.value_or(world) != world) {
      refuse_files(
          files + printable(name) + "' was saved by " + std::to_string(*states->world) + " ranks",
          ErrorKind::kMissing);
    }
    if (!has_same_parts(*states, first)) {
      refuse_files("'" + printable(all.front().name) + "' and '" + printable(name) +
                   "' are not of one save: they have other groups or states of the optimizer");
    }
    for (const TorchTensor& group : states->weights) {
      require_type(first.weights.front(), group, name);
    }
    for (const auto& [state, groups] : states->moments) {
      for (const auto& [number, group] : groups) {
        require_type(first.moments.at(state).begin()->second, group, name);
      }
    }
    require_padding(all, rank);
  }
}

}  // namespace reshardfs
