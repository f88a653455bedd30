// SPDX-License-Identifier: Apache-2.0
/// How tensor-parallel ranks share the tensors of Megatron-Core's modules. Source of the table:
/// sharded_state_dict() and the constructors in megatron/core/transformer (attention.py, mlp.py,
/// multi_latent_attention.py, moe/, multi_token_prediction.py), megatron/core/tensor_parallel and
/// megatron/core/extensions/transformer_engine.py, August 2026.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "reshardfs/shape.h"

#include "base/known.h"
#include "checkpoint/megatron/rank_file.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

enum class MegatronCut : std::uint8_t {
  kWhole,      ///< every rank has all of it
  kRows,       ///< the ranks' parts follow each other along the first dimension
  kGatedRows,  ///< the same of the first halves of the parts, and below them of the second halves
  kColumns,    ///< the parts follow each other along the second dimension
};

using LocalShapes = std::unordered_map<std::string, Shape>;

class MegatronCuts {
 public:
  /// @param shapes of what one rank has of a chunk of the model, by its own names. Both must
  ///        outlive it.
  /// @param ranks that share the tensors: 2 or more.
  MegatronCuts(const MegatronArgs& args, const LocalShapes& shapes, std::int64_t ranks)
      : args_(args), shapes_(shapes), ranks_(ranks) {}

  /// @param name one of `shapes`.
  /// @return unknown, with words that complete "it cannot be put together: ...", if the table does
  ///         not have the module, or arguments and shapes do not prove which of two forms it has.
  Known<MegatronCut> find(const std::string& name) const;

 private:
  Known<MegatronCut> gated(const std::string& name, const Shape& shape) const;
  Known<MegatronCut> head_norm(const std::string& name, const Shape& shape) const;
  Known<MegatronCut> rows_or_whole(const std::string& module, const Shape& shape) const;

  const MegatronArgs& args_;
  const LocalShapes& shapes_;
  std::int64_t ranks_;
};

/// Why a whole tensor cannot be what the arguments describe: the padded vocabulary, heads and query
/// groups, hidden_size and ffn_hidden_size. Empty: nothing contradicts.
/// @param name of the tensor in the whole model. @param shape of it.
std::string contradiction(const MegatronArgs& args, const std::string& name, const Shape& shape);

/// One of several ranks, or of several experts.
struct OneOf {
  std::int64_t number = 0;
  std::int64_t count = 1;
};

/// What a rank has of a whole tensor.
struct PlacedPart {
  Shape full_shape{};
  std::vector<TorchTensor> boxes{};  ///< one, or two of a gated tensor; without names
  std::vector<Shape> offsets{};      ///< of each box, in elements
};

/// @param tensor what the rank has. For kGatedRows, its first dimension is even.
/// @param rank that has it, of those that share it.
/// @param expert if given, the whole tensor has all experts along a dimension before the others.
/// @throws Error kBadInput if the whole tensor would be too large.
PlacedPart place_part(const TorchTensor& tensor, MegatronCut cut, const OneOf& rank,
                      const std::optional<OneOf>& expert);

}  // namespace reshardfs
