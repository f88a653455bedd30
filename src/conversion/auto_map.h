// SPDX-License-Identifier: Apache-2.0
/// --map auto: chooses the installed map that fits the names in a source, and says why none does.
#pragma once

#include <string>
#include <vector>

#include "reshardfs/source_request.h"

#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// An installed map that takes names, in one direction.
struct FittingMap {
  std::string map{};
  std::string shows{};  ///< the side that it makes of them, such as "Hugging Face"
};

/// The installed maps that, in one direction, take all tensors, as for only_map_for(). Of those
/// that show the same side, the ones that lack the fewest tensors; short names first.
std::vector<FittingMap> fitting_maps(const std::vector<std::string>& names);

/// The name of the only installed map that, in either direction, matches all tensors. Tensors of
/// the training state, and tensors that a map drops, do not count.
/// @param names of the tensors of a source.
/// @param why none fits, for the message; empty: not known.
/// @throws Error kUsage if several maps match all tensors, or none does; names the maps.
std::string only_map_for(const std::vector<std::string>& names, const std::string& why = {});

/// Replaces "auto" with the name of that map; does nothing without "auto".
/// @throws Error kUsage if there are other maps beside "auto"; errors of CheckpointSet::open() and
///         only_map_for().
void settle_auto_map(SourceRequest& request);

/// "--map a or --map b": the installed maps that show Hugging Face's names in place of these, which
/// no map has as Hugging Face's own. Empty: there are none.
/// @param names those of states of training do not count.
/// @param state_prefixes see is_training_state().
std::string hugging_face_maps(const std::vector<std::string>& names,
                              const std::vector<std::string>& state_prefixes = {});

/// Why no map knows the names in a checkpoint, and what to do: they are those of an adapter
/// (lora_adapter.h), or wrappers have changed them (wrapper_names.h). Empty: they are neither.
std::string foreign_names(const CheckpointSet& set);

}  // namespace reshardfs
