// SPDX-License-Identifier: Apache-2.0
/// How Meta cuts the tensors of its Llama releases over the files consolidated.00.pth,
/// consolidated.01.pth, ...: each file is a tensor-parallel rank. The cuts are those of the layers
/// in llama/model.py of meta-llama/llama and meta-llama/llama3, and in
/// convert_llama_weights_to_hf.py of transformers. Shapes and params.json prove them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reshardfs/shape.h"

#include "modelmap/variables.h"

namespace reshardfs {

/// Numbers of params.json.
struct MetaSizes {
  std::int64_t dim = 0;         ///< columns of most weights
  std::int64_t query_rows = 0;  ///< n_heads times the size of a head
  std::int64_t key_rows = 0;    ///< n_kv_heads times the size of a head
  std::int64_t head_dim = 0;
  /// Rows of the embedding; nullopt: left to the tokenizer, as Llama 2 does.
  std::optional<std::int64_t> vocabulary{};

  /// @throws Error kBadInput if a number is missing or the numbers contradict each other.
  static MetaSizes of(const modelmap::ModelConfig& params);
};

/// Where a file's part of a tensor belongs.
struct MetaPart {
  Shape full_shape{};
  /// The dimension that the files cut; nullopt: each file has the whole tensor.
  std::optional<std::size_t> cut{};
};

/// The number of files that params.json and a tensor's part prove: of a projection of the queries.
/// @return nullopt for other tensors.
/// @throws Error kBadInput with the parameter, if a model with these sizes has no such part.
std::optional<std::int64_t> proven_files(std::string_view name, const Shape& part,
                                         const MetaSizes& sizes);

/// @param part the shape of the tensor in a file.
/// @param files how many there are, at least 1.
/// @throws Error kUnsupported for a name of which Meta's layout says nothing, kBadInput for a shape
///         that does not fit; both without the parameter.
MetaPart meta_part(std::string_view name, const Shape& part, std::int64_t files,
                   const MetaSizes& sizes);

}  // namespace reshardfs
