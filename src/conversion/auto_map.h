// SPDX-License-Identifier: Apache-2.0
/// --map auto: chooses the installed map that fits the names in a source, and says why none does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/source_request.h"

#include "checkpoint/checkpoint_set.h"
#include "conversion/installed_maps.h"
#include "modelmap/model_map.h"

namespace reshardfs {

/// An installed map that takes names, in one direction.
struct FittingMap {
  std::string map{};
  std::string shows{};  ///< the side that it makes of them, such as "Hugging Face"
  /// Rules that should take some name, but take none.
  std::size_t idle_rules = 0;
};

/// What a source has beside names that tells which map is meant.
struct KnownSource {
  /// What the side of the program that has saved it begins with: "MindFormers". Other programs may
  /// have the same names, with rows in another order. Empty: not known.
  std::string_view program{};
  /// Says how many layers there are: names of further ones follow from that. Maps for other
  /// model_types do not count, if there are any for these.
  modelmap::ModelConfig config{};
};

/// @throws Error kIo for a config.json that cannot be read.
KnownSource known_source(const SourceRequest& request, const CheckpointSet& set);

/// The installed maps that, in one direction, take all tensors but those of the training state and
/// those that a map drops. Of those that show the same side, the ones that lack the fewest tensors;
/// short names first. Maps between two forms of one framework do not count.
std::vector<FittingMap> fitting_maps(const std::vector<std::string>& names,
                                     const KnownSource& known = {});

/// Replaces "auto" with the only installed map that, in either direction, matches all tensors, or
/// with two that lead to Hugging Face one after the other, or with none if the names are already
/// those that are asked for; does nothing without "auto".
/// @param sides that are asked for, of which one is enough; empty: any.
/// @throws Error kUsage if there are other maps beside "auto", or if several or no maps match all
///         tensors; errors of CheckpointSet::open().
void settle_auto_map(SourceRequest& request, const std::vector<std::string>& sides);

/// Whether a map is for one of these model types, or states none. One with [rest] has to be for
/// the first: of the whole model.
bool serves(const modelmap::ModelMap& map, const std::vector<std::string>& model_types);

/// "--map a or --map b", or "--map a --map b" for two maps one after the other: the installed maps
/// that show Hugging Face's names in place of these, which no map has as Hugging Face's own. Empty:
/// there are none.
/// @param names those of states of training do not count.
/// @param state_prefixes see is_training_state().
std::string hugging_face_maps(const std::vector<std::string>& names,
                              const std::vector<std::string>& state_prefixes = {},
                              const KnownSource& known = {},
                              const std::vector<modelmap::ModelMap>& installed = installed_maps());

/// Why no map knows the names in a checkpoint, and what to do: they are those of an adapter
/// (lora_adapter.h), or wrappers have changed them (wrapper_names.h). Empty: they are neither.
std::string foreign_names(const CheckpointSet& set);

}  // namespace reshardfs
