// SPDX-License-Identifier: Apache-2.0
/// One file of a model map, before it meets those that it extends. Private to the reader of maps.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "modelmap/model_map.h"

namespace reshardfs::modelmap {

struct BlockText {
  MapPlace place{};
  std::string name{};  ///< "@name:" stands for its texts; empty: "@" does
  /// The capture that one side lacks: there, it is the first axis of tensors. Empty: none.
  std::string stack{};
  std::string from{};
  std::string to{};
  Conditions when{};
  Range range{};
  std::vector<std::string> types{};
  bool optional = false;
  StageStatements stage{};
};

struct RuleText {
  MapPlace place{};
  std::string to{};
  std::vector<std::string> from{};
  std::shared_ptr<const RuleBody> body{};
  Conditions when{};
  Requirements require{};
  Range range{};
  std::vector<std::string> types{};
  bool optional = false;
  std::vector<std::string> optional_words{};
  std::string part{};
  std::vector<std::shared_ptr<const WholeShapes>> wholes{};  ///< of each source; or none
  std::shared_ptr<const WholeShapes> to_whole{};             ///< perhaps none
  StageStatements stage{};
};

struct AliasText {
  MapPlace place{};
  std::string side{};
  std::string name{};
  std::string of{};
  Conditions when{};
  Range range{};
  bool emit = true;
  StageStatement stage{};
};

/// What a file says, and what it inherits.
struct MapText {
  MapPlace place{};
  std::vector<std::string> extends{};
  std::set<std::string> without{};
  bool is_auto = true;                         ///< own
  std::vector<std::string> types{};            ///< own, or inherited; empty: none are stated
  std::map<std::string, std::string> names{};  ///< own ones
  std::map<std::string, std::string> sides{};
  VariableTable variables{};
  SettingTable settings{};
  std::map<std::string, std::string> states{};
  std::map<std::string, ReleaseProof> release_proofs{};
  std::map<std::string, NameGlobs> drop{};
  std::map<std::string, NameGlobs> identity{};
  Requirements require{};  ///< of all rules
  Family family{};
  std::optional<MapPlace> rest{};  ///< where [rest] stands that keeps names
  NameGlobs rest_except{};
  std::vector<BlockText> blocks{};
  std::vector<std::shared_ptr<const RuleText>> rules{};  ///< shared with what inherits them
  std::vector<AliasText> aliases{};
};

/// @throws Error kBadInput with file and line.
[[noreturn]] void fail_at(const MapPlace& place, const std::string& message);

/// Of a rule that makes its only source under another name.
std::shared_ptr<const RuleBody> plain_rule_body();

/// @throws Error kBadInput with file and line.
MapText read_map_text(const std::string& file, const std::string& text);

/// @param text with all that it inherits.
/// @throws Error kBadInput with file and line.
ModelMap make_map(const MapText& text, std::string file);

/// Replaces "@" or "@name:" by the texts of a block, and finds what the captures are.
/// @throws Error kBadInput with file and line.
/// @param blocks of the file. @param number of the block, counted from 1; 0: none.
MapRule make_rule(const RuleText& text, const std::vector<BlockText>& blocks, std::size_t number);
MapAlias make_alias(const AliasText& text);
LayerBlock make_layer_block(const BlockText& text);
/// Checks what a rule states of stages against its names, which are without the text of a block.
void check_stages(const RuleText& text);
/// Whether the text of a block stands in front of a name.
bool is_in_block(const std::string& text);
std::string without_block(const std::string& text);
/// The name in "@name:"; empty for "@".
std::string block_name(const std::string& text);
/// The block of a rule whose names are in one, by its name.
/// @throws Error kBadInput with file and line if they are in several.
std::string block_name(const RuleText& rule);

}  // namespace reshardfs::modelmap
