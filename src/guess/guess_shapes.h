// SPDX-License-Identifier: Apache-2.0
/// What names of the known families of models tell about their parameters.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/shape.h"

#include "modelmap/family_names.h"
#include "modelmap/model_map.h"
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
  /// Whose networks have such names, for messages: "Meta and MindFormers".
  std::string network{};
  /// The code of such networks cuts it along `usual_cut` over the axis of tensor parallelism (an
  /// embedding: or not), by the optimizer along dimension 0, and in no other way. Not of experts,
  /// of matrices that networks have either way round, nor of the projections to latent vectors,
  /// which some versions cut and others do not.
  bool one_way = false;
};

/// What the maps of model families say of names, with the numbers of a model, and what is known of
/// networks that have no map.
class KnownParameters {
 public:
  /// @param config nothing: names tell roles alone.
  /// @param maps must outlive it.
  /// @param names of all weights of the set. Where maps say different things of a name, those count
  ///        that have most of these names.
  KnownParameters(const std::optional<modelmap::ModelConfig>& config,
                  const std::vector<modelmap::ModelMap>& maps,
                  const std::vector<std::string>& names);

  /// @param name of a weight, not of an optimizer's state.
  /// @return nullptr if no known family has such a name. The pointer lives as long as the object,
  ///         and is the same for all names of which the same is known.
  const KnownParameter* find(const std::string& name);

  /// The number of layers, with and without those of multi-token prediction; nullopt if it is not
  /// stated.
  std::optional<std::int64_t> fewest_layers() const noexcept { return fewest_layers_; }
  std::optional<std::int64_t> most_layers() const noexcept { return most_layers_; }

 private:
  /// A shape that a family gives.
  struct Alternative {
    const modelmap::WholeShape* whole = nullptr;
    std::optional<Shape> shape{};  ///< nothing: the configuration lacks a number
    std::size_t family = 0;        ///< families_.count() of what no map says
    bool is_counter = false;
  };

  /// The number of the variables for what no map says.
  std::size_t plain() const { return variables_.size() - 1; }
  const std::optional<Shape>& shape_by(const modelmap::WholeShape& whole, std::size_t map);
  std::vector<Alternative> alternatives_of(const std::string& name);
  KnownParameter known_by(const std::vector<Alternative>& alternatives) const;

  FamilyNames families_;
  std::vector<std::size_t> names_of_family_{};    ///< in the set
  std::vector<modelmap::Variables> variables_{};  ///< of each map
  std::map<std::pair<const modelmap::WholeShape*, std::size_t>, std::optional<Shape>> shapes_{};
  /// By the facts that are known of a parameter.
  std::map<std::string, KnownParameter> known_{};
  std::optional<std::int64_t> fewest_layers_{};
  std::optional<std::int64_t> most_layers_{};
};

}  // namespace reshardfs
