// SPDX-License-Identifier: Apache-2.0
/// A model map: rules that say how the tensors of a model family are called and fused on two sides.
/// Files of config/maps are examples.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/dtype.h"

#include "base/text/glob.h"
#include "modelmap/operation.h"
#include "modelmap/pattern.h"
#include "modelmap/requirement.h"
#include "modelmap/stage_place.h"
#include "modelmap/variables.h"
#include "modelmap/whole_shape.h"

namespace reshardfs::modelmap {

inline constexpr std::size_t kMaxMapBytes = std::size_t{1} << 20U;  ///< of one file
inline constexpr std::size_t kMaxMapDepth = 8;                      ///< of `extends`
inline constexpr std::size_t kMaxMapFiles = 64;                     ///< of one map
inline constexpr std::size_t kMaxMapRules = 100'000;                ///< after blocks
inline constexpr std::size_t kMaxOperations = 64;                   ///< of a rule
inline constexpr std::size_t kMaxRuleSources = 256;                 ///< patterns in `from`

/// Where something stands.
struct MapPlace {
  std::shared_ptr<const std::string> file{};
  std::int64_t line = 1;
};

using Range = std::map<std::string, std::shared_ptr<const Expression>>;
using Conditions = std::vector<std::shared_ptr<const Expression>>;

/// What rules have alike that are one [[map]] for several blocks.
struct RuleBody {
  /// Of each source; empty: the rule has no `shape`.
  std::vector<std::vector<Expression>> shapes{};
  std::vector<std::vector<Operation>> each{};  ///< of each source
  std::vector<Operation> ops{};
  std::optional<std::vector<Expression>> to_shape{};
  std::optional<std::pair<DType, DType>> cast{};
  float added = 0;  ///< to each element of a weight; in the inverse, it is subtracted
  bool drops_rest = false;
  bool has_repeat = false;
  bool has_fill = false;
  bool moves = false;  ///< has operations that move elements

  /// Of a rule in a block with `stack`: how many values the capture has.
  std::shared_ptr<const Expression> stack_range{};
  bool stacks_sources = false;  ///< those have all values along the first axis; else the target
  bool stacks_alone = false;    ///< without `shape`, and without other operations that move
};

enum class CaptureSide : std::uint8_t {
  kBoth,
  kTo,    ///< of `to` alone: a target for each value of its range
  kFrom,  ///< of `from` alone: all values of its range are joined
};

/// A capture of a rule.
struct RuleCapture {
  std::string name{};
  bool is_word = false;
  CaptureSide side = CaptureSide::kBoth;
  std::shared_ptr<const Expression> range{};  ///< perhaps none
  bool is_rest = false;                       ///< the second one of a number, as in {n*i+j<n}
};

/// The names that its expressions mention, perhaps several times.
std::vector<std::string> names_in(const RuleBody& body);

struct MapRule {
  MapPlace place{};
  Pattern to{};
  std::vector<Pattern> from{};
  std::shared_ptr<const RuleBody> body{};
  Conditions when{};  ///< all must hold
  /// It is for models of a type in each of these lists.
  std::vector<std::vector<std::string>> types{};
  Requirements require{};
  /// All of its tensors may be missing, as the rule or its block says.
  bool optional = false;
  bool own_optional = false;  ///< without what the block says
  /// Words of captures whose tensors may all be missing: biases.
  std::vector<std::string> optional_words{};
  std::string part{};     ///< see Family::choices; perhaps none
  std::size_t block = 0;  ///< of those in the file, counted from 1; 0: the rule is of none
  /// Those of `to` first, in the order of its slots.
  std::vector<RuleCapture> captures{};
  std::size_t to_captures = 0;
  /// By slot of `to`: the number of the capture, which is the slot's.
  std::vector<std::size_t> captures_of_to{};
  /// By source and slot of its pattern: the number of the capture.
  std::vector<std::vector<std::size_t>> from_captures{};

  /// By slot: the captures of the pattern that takes a name.
  /// @param source the number of the pattern in `from`; of no effect if not forward.
  const std::vector<std::size_t>& captures_read(bool is_forward, std::size_t source) const {
    return is_forward ? from_captures[source] : captures_of_to;
  }
  /// Whether a capture stands in `from` alone, so that a target is made of all of its values.
  bool collects() const noexcept {
    return std::any_of(captures.begin(), captures.end(), [](const RuleCapture& capture) {
      return capture.side == CaptureSide::kFrom;
    });
  }
  /// Whether each target is made of one tensor.
  bool reads_one() const noexcept { return from.size() == 1 && !collects(); }
};

struct MapAlias {
  MapPlace place{};
  bool is_from = true;  ///< the side
  Pattern name{};
  Pattern of{};
  /// By slot of `of`: the slot of `name`.
  std::vector<std::size_t> of_slots{};
  std::vector<std::shared_ptr<const Expression>> ranges{};  ///< by slot of `name`
  Conditions when{};
  bool emit = true;
  StageStatement stage{};
};

/// Whether a rule is for models of any of these types.
bool is_for_types(const MapRule& rule, const std::vector<std::string>& model_types);

/// What a [[block]] that states stages puts in front of names. Conditions about settings are left
/// out: of two forms of a layer, its name shows the one.
struct LayerBlock {
  MapPlace place{};
  Pattern from{};
  Pattern to{};
  Conditions when{};
  StageStatements stage{};

  const Pattern& of(bool is_from) const noexcept { return is_from ? from : to; }
};

/// What a map states about the tensors that must be there.
struct Family {
  /// By number capture: how many values it has. The first expression without an unknown name
  /// counts.
  std::map<std::string, std::vector<Expression>> counts{};
  /// By name: parts of rules. Each layer has one of them.
  std::map<std::string, std::vector<std::string>> choices{};
};

/// What equal parts of a tensor, along its cut, have to do with the parts of ranks.
enum class RowOrder : std::uint8_t {
  kPlain,    ///< each is a rank's
  kStacked,  ///< several tensors stand one after another: ranks may cut all together, or each
  kByParts,  ///< each is a rank's if it is arranged for that number of ranks
};

/// Tensors of one side as a rule or an alias names them, without the text of a block.
struct NamedTensors {
  bool is_from = false;  ///< the side
  std::string name{};    ///< a pattern
  /// nullptr: the map does not say. Of one layer, where all are one tensor.
  std::shared_ptr<const WholeShapes> wholes{};
  RowOrder order = RowOrder::kPlain;
  MapPlace place{};  ///< of the rule or the alias
  bool in_block = false;
  StageStatement stage{};  ///< its own, whatever its block states
};

struct ModelMap {
  std::string file{};
  /// Of an installed map: the first paragraph of the comment at its beginning, without the licence.
  std::string about{};
  std::string from_side = "from";
  std::string to_side = "to";
  /// The values of model_type in config.json whose models it is for; empty: it states none.
  std::vector<std::string> types{};
  bool is_auto = true;  ///< --map auto may choose it
  /// Other names of an installed map, each with what it states as --map-var does.
  std::map<std::string, std::string> other_names{};
  VariableTable variables{};
  SettingTable settings{};
  std::vector<ReleaseProof> release_proofs{};
  std::vector<MapRule> rules{};
  std::vector<MapAlias> aliases{};
  std::vector<LayerBlock> blocks{};  ///< those that state stages
  NameGlobs drop_from{};
  NameGlobs drop_to{};
  /// Tensors that are left out if their elements are 0, 1, 2 and so on: orders that change nothing.
  NameGlobs identity_from{};
  NameGlobs identity_to{};
  /// Prefixes of optimizer states that differ.
  std::map<std::string, std::string> states{};
  Family family{};
  /// The rule by which tensors that no other takes keep their names; nothing: these are refused.
  std::optional<std::size_t> rest{};
  NameGlobs rest_except{};  ///< of names that it does not take
  /// The tensors of all rules but that one, and of aliases, which are like those that they are
  /// aliases of.
  std::vector<NamedTensors> tensors{};
  /// Whether mentioned_names() has kLayerPattern.
  bool uses_layer_pattern = false;

  /// That of the file, without its suffix.
  std::string name() const { return std::filesystem::path(file).stem().string(); }
  /// The names that expressions of the map mention, and all that those depend on: what --map-var
  /// may set.
  std::set<std::string> mentioned_names() const;
  /// The keys of a training's configuration that the settings name.
  std::set<std::string> training_keys() const;
  /// The setting that a word of --map-var states, "layers=numbered", and its value; nothing if no
  /// rule of the map depends on one with this word.
  std::optional<std::pair<std::string, std::int64_t>> setting_in_words(
      const std::string& text) const;
  /// Whether a setting depends on the release of the framework.
  bool asks_for_release() const;
};

/// The text of a file. Throws Error (kMissing, kIo) if it cannot be read; need not read more than
/// kMaxMapBytes + 1.
using ReadMapFile = std::function<std::string(const std::filesystem::path&)>;

/// @param path of the file; those that it extends are looked for beside it.
/// @throws Error kBadInput with file and line; what `read` throws.
ModelMap load_model_map(const std::filesystem::path& path, const ReadMapFile& read);

}  // namespace reshardfs::modelmap
