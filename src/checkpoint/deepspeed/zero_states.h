// SPDX-License-Identifier: Apache-2.0
/// What one file of DeepSpeed's ZeRO states: deepspeed/checkpoint/constants.py has the names of the
/// keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/shape.h"

#include "checkpoint/deepspeed/affine_map.h"
#include "checkpoint/deepspeed/zero_facts.h"
#include "format/listed_items.h"
#include "format/torch/torch_archive.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

struct ZeroShape {
  std::string name{};
  Shape shape{};

  bool operator==(const ZeroShape&) const = default;
};

/// A file of model_states.
struct ZeroModelStates {
  std::string folder{};  ///< see TorchArchive::folder()
  /// The parameters of each group (stages 1 and 2) or sub group (stage 3), in the order in which
  /// they lie in its flat tensor.
  std::vector<std::vector<ZeroShape>> groups;
  std::vector<ZeroShape> frozen;              ///< parameters that are not trained
  std::vector<TorchTensor> frozen_fragments;  ///< of these, by name
  std::vector<TorchTensor> buffers;           ///< by name
  /// Of `module`, whatever no group has and no alias is: buffers, and parameters that are not
  /// trained. Stage 3 has placeholders there.
  std::vector<TorchTensor> others;
  /// Of `module`, what groups have, too. Stage 3 has placeholders.
  std::vector<TorchTensor> copies{};
  /// Those of types that cannot be shown, such as complex ones.
  std::vector<RefusedTensor> refused_buffers;
  /// Parameters of groups that `module` does not have, although it is there.
  std::vector<std::string> lost{};
  std::vector<std::pair<std::string, std::string>> aliases;  ///< other names of parameters
  std::optional<std::int64_t> data_world{};
  std::optional<std::int64_t> model_world{};
  std::optional<std::int64_t> steps{};  ///< global_steps
  /// The ranks of tensor parallelism, if the file states them apart from those of a pipeline.
  std::optional<std::int64_t> tensor_world{};
  std::optional<std::int64_t> pipeline_world{};  ///< stages, if they are stated
  /// Read where there are several ranks of tensor parallelism.
  AffineMap cuts{};
  /// Whether param_slice_mappings have another order than the groups, so that a conversion with
  /// them takes elements of other parameters.
  bool is_disordered = false;
  SaveFacts facts{};
};

/// Where a part of a parameter is in one rank's flat tensor, in elements.
struct ZeroFragment {
  std::int64_t count = 0;
  std::int64_t start = 0;

  bool operator==(const ZeroFragment&) const = default;
};

/// A file of optim_states: flat tensors of one dimension, one for each group.
struct ZeroOptimizerStates {
  std::string folder{};  ///< see TorchArchive::folder()
  bool is_stage3 = false;
  std::optional<std::int64_t> world{};  ///< the ranks of data parallelism
  std::vector<TorchTensor> weights;     ///< in float32
  /// "exp_avg" and others, by group, each as long as its weights: without padding.
  std::map<std::string, std::map<std::size_t, TorchTensor>> moments;
  bool has_states = true;          ///< whether the file has any states of the optimizer
  bool has_other_states = false;   ///< of no group that there is, or in a form that is not known
  bool has_scaled_states = false;  ///< in 8 bits, with a scale for each block of several parameters
  /// Elements behind the weights of each group that the moments have more; with `paddings`, what
  /// these say.
  std::vector<std::int64_t> excess;
  /// group_paddings: elements behind this rank's part of each group, which pad it.
  std::optional<std::vector<std::int64_t>> paddings{};
  /// param_alignment_paddings: elements behind each parameter of each group.
  std::vector<std::vector<std::int64_t>> alignments{};
  /// Fragments are not where they are stated to be: DeepSpeed states another order.
  bool is_round_robin = false;
  /// Where parameters are, for each group, if the file states it.
  std::vector<std::map<std::string, ZeroFragment>> fragments;
  ZeroSteps steps{};
  SaveFacts facts{};
};

struct DictTensors {
  std::vector<TorchTensor> tensors{};
  std::vector<RefusedTensor> refused{};  ///< of types that cannot be shown
  std::string folder{};                  ///< see TorchArchive::folder()
};

/// The tensors of a dictionary, under its keys. Other values are passed over.
/// @throws Error kBadInput for a damaged tensor.
DictTensors named_tensors(const TorchArchive& archive, PickleValue dict);

/// The tensors of a file of one layer or one expert, which is a dictionary of them.
/// @throws Error kBadInput if it is another file of DeepSpeed's.
DictTensors read_module_file(const TorchArchive& archive);

/// @throws Error kBadInput or kUnsupported, with the file, if it is something else.
ZeroModelStates read_zero_model(const TorchArchive& archive);
ZeroOptimizerStates read_zero_optimizer(const TorchArchive& archive);

}  // namespace reshardfs
