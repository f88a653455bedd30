// SPDX-License-Identifier: Apache-2.0
/// What the names of parameters prove of a model.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "modelmap/model_map.h"
#include "report/text/set_description.h"

namespace reshardfs {

/// Names that some of the ranks hold.
struct HeldNames {
  std::vector<std::string> names{};  ///< each once
  /// Numbers of the groups of ranks that hold each name, in the order of `names`; ranks that hold
  /// the same names are one group. Empty: there is one group.
  std::vector<std::set<std::size_t>> groups{};
  /// See CheckpointSet::state_prefixes().
  std::vector<std::string> state_prefixes{};
};

/// Networks, maps, and how many weights, states and layers there are; nothing about elements.
/// A network is named only if it has all names of the weights. Layers are counted only where their
/// numbers have no gap and stand behind one name, and no group numbers them for itself.
/// @param maps the families that are known.
/// @param program see KnownSource: networks of others do not count, if it has one.
ModelFacts model_facts(const HeldNames& held, const std::vector<modelmap::ModelMap>& maps,
                       std::string_view program = {});

}  // namespace reshardfs
