// SPDX-License-Identifier: Apache-2.0
/// A model map met with the tensors of a checkpoint: which tensors the other side has, and what
/// each of their elements is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/error.h"
#include "reshardfs/shape.h"

#include "base/known.h"
#include "layout/normal_form.h"
#include "modelmap/model_map.h"
#include "modelmap/variables.h"

namespace reshardfs::modelmap {

enum class Direction : std::uint8_t { kForward, kInverse };

/// A full tensor of the source.
struct SourceTensor {
  std::string name{};
  DType dtype = DType::kFloat32;
  Shape shape{};
};

/// Into how many parts the strategy of a side cuts a tensor of that side, along the only dimension
/// that it cuts; unknown where that is not stated, or not one number.
using PartsOf = std::function<Known<std::int64_t>(const std::string& tensor)>;

struct MapOptions {
  /// Without a value the names of the source tell.
  std::optional<Direction> direction{};
  std::map<std::string, std::int64_t> variables{};  ///< --map-var
  ModelConfig config{};
  TrainingConfig training{};
  std::optional<Release> release{};  ///< --map-var release=
  /// Of the layers, as --map-var or the source's training arguments state it.
  std::optional<StatedPattern> pattern{};
  PartsOf to_parts{};    ///< empty: nothing is known of the `to` side
  PartsOf from_parts{};  ///< of the `from` side
  /// Targets of which Mapping::origins is wanted.
  std::set<std::string> explain{};
  /// Source tensors that are dropped, whatever rule would take them; empty: none.
  std::function<bool(const std::string& name)> leaves_out{};
  /// Tensors that are asked for: what others need may be missing. Empty: all.
  std::function<bool(const std::string& target)> wants{};
  /// Whether the model is to be complete.
  bool checks_family = true;
  /// Only names and shapes are asked for: no assertion is checked, and not what is missing.
  bool shapes_alone = false;
};

struct MapProblem {
  std::string message{};  ///< names the tensor
  std::string file{};
  std::int64_t line = 0;  ///< 0: the problem is not one of a single rule

  Error error() const;
};

/// A tensor of the side that is shown.
struct TargetTensor {
  std::string name{};
  /// Of its sources, and of literals.
  DType source_dtype = DType::kFloat32;
  /// Another type than source_dtype only if the rule casts and cast.h can.
  DType dtype = DType::kFloat32;
  /// To each element, in Float32 (Float64 in Float64), with one rounding.
  float added = 0;
  /// Shared by all tensors that are made alike.
  std::shared_ptr<const NormalForm> form{};
  /// By number in the form: the index of the source tensor. A source need not be read.
  std::vector<std::uint32_t> sources{};
  MapPlace place{};              ///< the rule's or the alias'
  std::size_t state_prefix = 0;  ///< bytes of the name; 0 for weights
  bool is_alias = false;
  /// Its literals are not padding: a source of the other direction is to have them.
  bool is_filled = false;
  bool is_kept = false;  ///< by [rest]: it is its source, under the same name

  const Shape& shape() const noexcept { return form->shape; }
};

/// A source tensor that is not read, since it has the bytes of another one.
struct SourceAlias {
  std::uint32_t tensor = 0;
  std::uint32_t of = 0;
  MapPlace place{};
  std::string variable{};  ///< the only one that its condition asks for; empty: there is none
};

/// A name in the expressions of a rule, as it stands for one target.
struct VariableValue {
  std::string name{};
  Known<std::int64_t> value{};
};

/// Which rule takes a source tensor, and what it is for.
struct RuleUse {
  std::uint32_t source = 0;
  MapPlace place{};
};

struct Mapping {
  Direction direction = Direction::kForward;
  /// In the order of the file: by the first source tensor that they read, then by rule and
  /// captures.
  std::vector<TargetTensor> targets{};
  std::vector<SourceAlias> aliases{};
  std::vector<std::uint32_t> dropped{};
  /// Of these, those whose elements have to be 0, 1, 2 and so on, which only their bytes show.
  std::vector<std::uint32_t> identities{};
  std::vector<RuleUse> uses{};  ///< by source tensor
  /// By target: what MapOptions::explain asks for. A target that several rules make has the names
  /// of all of them.
  std::map<std::string, std::vector<VariableValue>> origins{};
  /// Targets that MapOptions::wants does not take, and that cannot be made: tensors are missing.
  std::vector<std::string> excused{};
  /// What is wrong, the most general first; empty from map_tensors(). There are at most some 1,000,
  /// the last of which says how many more.
  std::vector<MapProblem> problems{};
};

/// The side that a direction shows: "Hugging Face".
const std::string& target_side(const ModelMap& map, Direction direction);

/// Which of the tensors have a name that a rule takes on the source's side.
std::vector<bool> taken_names(const ModelMap& map, Direction direction,
                              const std::vector<SourceTensor>& tensors, const MapOptions& options);
/// Which of them no rule takes, but [rest] keeps.
std::vector<bool> kept_names(const ModelMap& map, Direction direction,
                             const std::vector<SourceTensor>& tensors, const MapOptions& options);
/// How many have a name that a rule takes.
std::size_t count_taken(const ModelMap& map, Direction direction,
                        const std::vector<SourceTensor>& tensors, const MapOptions& options);

/// The direction for which the names of the source speak.
/// @throws Error kUsage if they speak for none or for both.
Direction find_direction(const ModelMap& map, const std::vector<SourceTensor>& tensors,
                         const MapOptions& options);

/// The settings of a training that the map names and whose values are known, other than those that
/// a source of the options' direction shows itself.
std::vector<VariableValue> known_settings(const ModelMap& map, const MapOptions& options);

/// Everything that is possible in spite of problems. Costs O(n log n) in tensors and boxes.
/// @throws Error kUsage for an option that is wrong whatever the tensors are.
Mapping check_mapping(const ModelMap& map, const std::vector<SourceTensor>& tensors,
                      const MapOptions& options);

/// As check_mapping(), without problems.
/// @throws Error the first problem: kBadInput with the map's file and line.
Mapping map_tensors(const ModelMap& map, const std::vector<SourceTensor>& tensors,
                    const MapOptions& options);

}  // namespace reshardfs::modelmap
