// SPDX-License-Identifier: Apache-2.0
/// Where the networks of model families cut tensors, as model maps state it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/shape.h"

#include "base/known.h"
#include "modelmap/family_names.h"
#include "modelmap/model_map.h"
#include "modelmap/variables.h"

namespace reshardfs {

struct FamilyCut {
  /// Nothing: every rank has the whole tensor.
  std::optional<std::size_t> dimension{};
  bool by_experts = false;  ///< by expert parallelism, not by tensor parallelism
  /// What ranks can only have as a whole, along the dimension: "groups"; empty: an element.
  std::string unit{};
  std::optional<std::int64_t> units{};  ///< nothing: no configuration has the number
  /// The full shape; nothing: no configuration has its numbers, or maps state several.
  std::optional<Shape> whole{};
};

/// The value of an expression of a map; nothing if the configuration lacks a number, or they do not
/// fit together, or it is not positive.
std::optional<std::int64_t> known_number(const modelmap::Expression& expression,
                                         const modelmap::Variables& variables);
/// The same of all lengths.
std::optional<Shape> known_shape(const modelmap::WholeShape& whole,
                                 const modelmap::Variables& variables);

/// Names of tensors, by the reason why their cut is not known.
using UnknownCuts = std::map<std::string, std::vector<std::string>>;
/// "'a', 'b' (no model map states it); 'c' (maps state different cuts)"
std::string words_of(const UnknownCuts& unknown);

/// Unlike KnownParameters, which knows what is usual, it answers with what all maps that have a
/// name agree on. For one thread at a time.
class FamilyCuts {
 public:
  /// @param maps the families that count; must outlive it.
  FamilyCuts(const std::vector<modelmap::ModelMap>& maps, const modelmap::ModelConfig& config);

  /// @param name of a weight, or of an optimizer's state of its shape.
  /// @param made_by the rule or the alias that makes the tensor, arranged for the parts that it is
  ///        to be cut in: what it states comes before what others do; nullptr: the tensor lies as
  ///        it was saved.
  /// @return unknown where no map states it or maps differ, and where equal parts of the tensor are
  ///         not those of ranks.
  Known<FamilyCut> find(const std::string& name, const Shape& shape,
                        const modelmap::MapPlace* made_by) const;

  /// Whether a map to another framework says that the tensor, as it was saved, has rows in an order
  /// of its own.
  bool is_arranged(const std::string& name) const;

 private:
  /// What a statement comes to with the configuration's numbers.
  struct Numbers {
    std::optional<std::int64_t> units{};
    std::optional<Shape> whole{};
  };

  Known<FamilyCut> stated_by(const std::vector<FamilyName>& stated) const;
  const Numbers& numbers_of(const modelmap::WholeShape& whole, std::size_t map) const;

  FamilyNames families_;
  std::vector<modelmap::Variables> variables_{};  ///< of each map
  /// Of each map, as they were needed: thousands of names have the same.
  mutable std::vector<std::map<const modelmap::WholeShape*, Numbers>> numbers_{};
};

}  // namespace reshardfs
