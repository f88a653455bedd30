// SPDX-License-Identifier: Apache-2.0
#include "modelmap/stage_place.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "modelmap/map_toml.h"
#include "modelmap/pattern.h"

namespace reshardfs::modelmap {
namespace {

constexpr const char* kStageForm =
    R"("first", "last", "every", "unknown", or the capture that numbers the layers, as "{layer}")";

StageStatement statement_at(const toml::node& node) {
  const std::string text = text_at("stage", node, kStageForm);
  return parse_at(node, [&] { return StageStatement::parse(text); });
}

}  // namespace

StageStatement StageStatement::parse(const std::string& text) {
  if (text == "first") return {StagePlace::kFirst, {}};
  if (text == "last") return {StagePlace::kLast, {}};
  if (text == "every") return {StagePlace::kEvery, {}};
  if (text == "unknown") return {StagePlace::kUnknown, {}};
  if (text.size() > 2 && text.front() == '{' && text.back() == '}') {
    std::string capture = text.substr(1, text.size() - 2);
    if (is_expression_name(capture)) return {StagePlace::kLayer, std::move(capture)};
  }
  throw Error(ErrorKind::kBadInput,
              "'stage' is '" + printable(text) + "', expected " + std::string(kStageForm));
}

void StageStatement::check_for(const Pattern& pattern, bool is_block) const {
  if (place != StagePlace::kLayer) return;
  const auto& captures = pattern.captures();
  if (!captures.empty() && captures.front().name == capture && !captures.front().is_word &&
      (is_block || captures.front().is_plain())) {
    return;
  }
  throw Error(ErrorKind::kBadInput, "'stage' is '{" + capture + "}', which is not the first " +
                                        "capture of '" + printable(pattern.text()) +
                                        "', or no plain number");
}

StageStatements read_stages(const TomlTable& table) {
  const toml::node* node = table.find("stage");
  if (node == nullptr) return {};
  if (!node->is_table()) {
    const StageStatement both = statement_at(*node);
    return {both, both};
  }
  const TomlTable sides(*node->as_table(), "'stage'", {"from", "to"});
  StageStatements stages;
  if (const toml::node* from = sides.find("from")) stages.from = statement_at(*from);
  if (const toml::node* to = sides.find("to")) stages.to = statement_at(*to);
  return stages;
}

StageStatement read_stage_of_alias(const TomlTable& table) {
  const toml::node* node = table.find("stage");
  if (node == nullptr) return {};
  StageStatement stage = statement_at(*node);
  if (stage.place == StagePlace::kLayer) {
    fail_at_line(line_of(*node), "'stage' of [[alias]] cannot be that of a layer");
  }
  return stage;
}

}  // namespace reshardfs::modelmap
