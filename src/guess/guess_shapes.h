// SPDX-License-Identifier: Apache-2.0
/// What names of the known families of models tell about their parameters.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/shape.h"

#include "modelmap/variables.h"

namespace reshardfs {

enum class ParameterRole : std::uint8_t {
  kProjection,  ///< a matrix of attention or feed-forward: what tensor parallelism cuts
  kEmbedding,   ///< has the vocabulary as a dimension
  kExperts,     ///< matrices of several experts
  kVector,      ///< a bias of a projection
  kCounter,     ///< one number, of the training
  kOther,       ///< norms, routers, counters: not cut as a rule
};

struct KnownParameter {
  ParameterRole role = ParameterRole::kOther;
  /// The dimension that tensor parallelism cuts as a rule; -1: none.
  int usual_cut = -1;
  /// Each may be the full shape; empty without a configuration that has what they need.
  std::vector<Shape> shapes{};
  /// What the full shape follows from: "heads*head_dim, hidden".
  std::string formula{};
  /// Indivisible units along the usual cut, such as key heads; 0: not known.
  std::int64_t units = 0;
  /// The dimension that may have been padded; -1: none.
  int padded = -1;
  /// Whose networks have such names, for messages: "MindFormers".
  std::string_view network{};
  /// The code of such networks cuts it along `usual_cut` over the axis of tensor parallelism (an
  /// embedding: or not), by the optimizer along dimension 0, and in no other way. Not of experts,
  /// of matrices that networks have either way round, nor of the projections to latent vectors,
  /// which some versions cut and others do not.
  bool one_way = false;
};

/// The table of names, with the numbers of a model.
class KnownParameters {
 public:
  /// @param config nothing: names tell roles alone.
  explicit KnownParameters(const std::optional<modelmap::ModelConfig>& config);

  /// @param name of a weight, not of an optimizer's state.
  /// @return nullptr if no known family has such a name. The pointer lives as long as the table.
  const KnownParameter* find(const std::string& name) const;

  /// Layers, with and without those of multi-token prediction; nothing if nobody says.
  std::optional<std::int64_t> fewest_layers() const noexcept { return fewest_layers_; }
  std::optional<std::int64_t> most_layers() const noexcept { return most_layers_; }

 private:
  struct Entry {
    std::string glob;
    KnownParameter parameter;
  };

  std::vector<Entry> entries_;
  std::optional<std::int64_t> fewest_layers_{};
  std::optional<std::int64_t> most_layers_{};
};

}  // namespace reshardfs
