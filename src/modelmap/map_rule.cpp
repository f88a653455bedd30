// SPDX-License-Identifier: Apache-2.0
/// Rules and aliases with their patterns.
#include <algorithm>
#include <numeric>
#include <utility>

#include "reshardfs/error.h"

#include "modelmap/map_text.h"

namespace reshardfs::modelmap {
namespace {

[[noreturn]] void fail_in_rule(const MapPlace& place, const std::string& message) {
  throw Error(ErrorKind::kBadInput, "line " + std::to_string(place.line) + ": " + message)
      .in_file(*place.file);
}

Pattern parse_pattern(const std::string& text, const MapPlace& place) {
  try {
    return Pattern::parse(text);
  } catch (const Error& error) {
    fail_in_rule(place, error.message());
  }
}

std::string with_block(const std::string& text, const std::string* start, const MapPlace& place) {
  if (!is_in_block(text)) return text;
  if (start == nullptr)
    fail_in_rule(place, "'@' stands for the texts of a [[block]], and there is none");
  return *start + without_block(text);
}

/// Finds what the captures of a rule are.
class CaptureFinder {
 public:
  CaptureFinder(MapRule& rule, const Range& range) : rule_(rule), range_(range) {}

  void find() {
    for (const Pattern::Capture& capture : rule_.to.captures()) add(capture, CaptureSide::kTo);
    rule_.to_captures = rule_.captures.size();
    rule_.captures_of_to.resize(rule_.to_captures);
    std::iota(rule_.captures_of_to.begin(), rule_.captures_of_to.end(), std::size_t{0});
    for (const Pattern& pattern : rule_.from) {
      std::vector<std::size_t> slots(pattern.names().size());
      for (const Pattern::Capture& capture : pattern.captures()) {
        slots[capture.slot] = add(capture, CaptureSide::kFrom);
      }
      rule_.from_captures.push_back(std::move(slots));
      for (const Pattern::Capture& capture : pattern.captures()) {
        if (!capture.rest) continue;
        rule_.captures[number_of(pattern.captures()[*capture.rest].name)].is_rest = true;
      }
    }
    read_ranges();
    check_numbers(rule_.to);
    for (const Pattern& pattern : rule_.from) check_numbers(pattern);
    for (std::size_t i = 0; i < rule_.captures.size(); ++i) check(i);
    check_sets();
  }

 private:
  std::size_t number_of(const std::string& name) const {
    const auto found =
        std::find_if(rule_.captures.begin(), rule_.captures.end(),
                     [&](const RuleCapture& capture) { return capture.name == name; });
    return static_cast<std::size_t>(found - rule_.captures.begin());
  }

  std::size_t add(const Pattern::Capture& capture, CaptureSide side) {
    const std::size_t number = number_of(capture.name);
    if (number == rule_.captures.size()) {
      rule_.captures.push_back({capture.name, capture.is_word, side, nullptr});
      return number;
    }
    RuleCapture& known = rule_.captures[number];
    if (known.is_word != capture.is_word) {
      fail_in_rule(rule_.place, "the capture '" + capture.name + "' is a number and a word");
    }
    if (known.side == CaptureSide::kTo && side == CaptureSide::kFrom) {
      known.side = CaptureSide::kBoth;
    }
    return number;
  }

  void read_ranges() {
    for (const auto& [name, expression] : range_) {
      const std::size_t number = number_of(name);
      if (number == rule_.captures.size()) {
        fail_in_rule(rule_.place, "'range' has '" + printable(name) + "', which is no capture");
      }
      rule_.captures[number].range = expression;
    }
  }

  /// A number in a name follows from one capture, whatever the others are.
  void check_numbers(const Pattern& pattern) const {
    for (const Pattern::Capture& capture : pattern.captures()) {
      for (const std::string& name : capture.mentioned_names()) {
        if (number_of(name) == rule_.captures.size()) continue;
        fail_in_rule(rule_.place, "the number of {" + capture.name + "} in '" +
                                      printable(pattern.text()) + "' depends on '" + name +
                                      "', which is a capture: variables alone are possible there");
      }
    }
  }

  void check(std::size_t number) const {
    const RuleCapture& capture = rule_.captures[number];
    if (capture.side == CaptureSide::kBoth) return;
    const std::string alone = "the capture '" + capture.name + "' stands in " +
                              (capture.side == CaptureSide::kTo ? "'to'" : "'from'") + " alone";
    if (capture.is_word) fail_in_rule(rule_.place, alone + ", but words have to stand in both");
    if (!capture.range) fail_in_rule(rule_.place, alone + ": it needs a range");
    if (capture.side == CaptureSide::kFrom) check_stacked(number);
  }

  /// The values of a capture that collects are joined once, for each source.
  void check_stacked(std::size_t number) const {
    const std::string& name = rule_.captures[number].name;
    const std::size_t at_end = count_stacks(rule_.body->ops, name);
    for (std::size_t source = 0; source < rule_.from.size(); ++source) {
      const auto& slots = rule_.from_captures[source];
      const bool has = std::find(slots.begin(), slots.end(), number) != slots.end();
      const std::size_t here = count_stacks(rule_.body->each[source], name);
      if (here + at_end == (has ? 1 : at_end)) continue;
      fail_in_rule(rule_.place, std::string("the values of '")
                                    .append(name)
                                    .append("' have to be joined by one 'stack A {")
                                    .append(name)
                                    .append("}'"));
    }
  }

  static std::size_t count_stacks(const std::vector<Operation>& ops, const std::string& name) {
    return static_cast<std::size_t>(std::count_if(
        ops.begin(), ops.end(), [&](const Operation& op) { return op.capture == name; }));
  }

  /// One source must tell all that the two sides share; and nothing else is stacked.
  void check_sets() const {
    const auto tells_all = [&](const std::vector<std::size_t>& slots) {
      for (std::size_t i = 0; i < rule_.captures.size(); ++i) {
        if (rule_.captures[i].side == CaptureSide::kBoth &&
            std::find(slots.begin(), slots.end(), i) == slots.end()) {
          return false;
        }
      }
      return true;
    };
    if (std::none_of(rule_.from_captures.begin(), rule_.from_captures.end(), tells_all)) {
      fail_in_rule(rule_.place,
                   "no pattern of 'from' has all captures that 'to' shares with 'from'");
    }
    for (const auto& each : rule_.body->each) check_operations(each);
    check_operations(rule_.body->ops);
  }

  void check_operations(const std::vector<Operation>& operations) const {
    for (const Operation& operation : operations) {
      if (operation.capture.empty()) continue;
      const std::size_t number = number_of(operation.capture);
      if (number < rule_.captures.size() && rule_.captures[number].side == CaptureSide::kFrom) {
        continue;
      }
      fail_in_rule(rule_.place, "'" + printable(operation.text) + "': '" + operation.capture +
                                    "' is no capture that stands in 'from' alone");
    }
  }

  MapRule& rule_;
  const Range& range_;
};

bool takes_word(const Pattern& pattern, const std::string& word) {
  const auto& captures = pattern.captures();
  return std::any_of(captures.begin(), captures.end(), [&](const auto& capture) {
    const std::vector<std::string> words = Pattern::words_of(capture);
    return std::find(words.begin(), words.end(), word) != words.end();
  });
}

void check_optional_words(const MapRule& rule) {
  for (const std::string& word : rule.optional_words) {
    if (takes_word(rule.to, word)) continue;
    fail_in_rule(rule.place,
                 "'optional' has '" + printable(word) + "', which no capture of 'to' takes");
  }
}

/// Words stand on both sides.
void check_whole_words(const MapRule& rule, const std::shared_ptr<const WholeShapes>& wholes) {
  if (wholes == nullptr) return;
  for (const auto& [word, shape] : *wholes) {
    if (word.empty() || takes_word(rule.to, word)) continue;
    fail_in_rule(rule.place,
                 "'whole' has '" + printable(word) + "', which no capture of 'to' takes");
  }
}

bool has_capture(const std::string& text, const MapPlace& place, const std::string& capture) {
  const Pattern pattern = parse_pattern(text, place);
  const std::vector<std::string>& names = pattern.names();
  return std::find(names.begin(), names.end(), capture) != names.end();
}

/// Adds the axis that one side of a block has.
class BlockStack {
 public:
  BlockStack(const RuleText& rule, const BlockText& block, const Range& range)
      : rule_(rule), block_(block), range_(range) {}

  std::shared_ptr<const RuleBody> body() const {
    const std::string capture = block_.stack.substr(1, block_.stack.size() - 2);
    const bool has_form = block_.stack == "{" + capture + "}" && is_expression_name(capture);
    if (!has_form) {
      fail_in_rule(block_.place, "'stack' of [[block]] is '" + printable(block_.stack) +
                                     "', expected a capture, as \"{layer}\"");
    }
    const bool in_from = has_capture(block_.from, block_.place, capture);
    if (in_from == has_capture(block_.to, block_.place, capture)) {
      fail_in_rule(block_.place, "'stack' of [[block]] is '" + block_.stack +
                                     "', which has to stand in one of 'from' and 'to'");
    }
    const auto range = range_.find(capture);
    if (range == range_.end()) {
      fail_in_rule(block_.place, "'stack' of [[block]] needs a range for '" + capture + "'");
    }
    require_block();
    RuleBody body = *rule_.body;
    body.stack_range = range->second;
    body.stacks_sources = !in_from;
    body.stacks_alone = !body.moves && body.shapes.empty();
    body.moves = true;
    if (in_from) {
      body.ops.push_back(parse_operation("stack 0 " + block_.stack));
      if (body.to_shape) body.to_shape->insert(body.to_shape->begin(), *range->second);
      return std::make_shared<const RuleBody>(std::move(body));
    }
    for (auto& each : body.each) {
      each.insert(each.begin(), parse_operation("take 0 " + capture));
    }
    for (auto& shape : body.shapes) shape.insert(shape.begin(), *range->second);
    return std::make_shared<const RuleBody>(std::move(body));
  }

 private:
  void require_block() const {
    const bool all =
        is_in_block(rule_.to) && std::all_of(rule_.from.begin(), rule_.from.end(), is_in_block);
    if (!all)
      fail_in_rule(rule_.place, "a name of the rule is not in its block, which has 'stack'");
  }

  const RuleText& rule_;
  const BlockText& block_;
  const Range& range_;
};

}  // namespace

MapRule make_rule(const RuleText& text, const std::vector<BlockText>& blocks, std::size_t number) {
  const BlockText* block = number == 0 ? nullptr : &blocks[number - 1];
  MapRule rule;
  rule.block = number;
  rule.require = text.require;
  rule.part = text.part;
  rule.own_optional = text.optional;
  rule.optional_words = text.optional_words;
  rule.place = text.place;
  rule.body = text.body;
  rule.when = text.when;
  if (!text.types.empty()) rule.types.push_back(text.types);
  rule.optional = text.optional;
  Range range = text.range;
  if (block != nullptr) {
    rule.when.insert(rule.when.begin(), block->when.begin(), block->when.end());
    rule.optional = rule.optional || block->optional;
    if (!block->types.empty()) rule.types.push_back(block->types);
    range.insert(block->range.begin(), block->range.end());
    if (!block->stack.empty()) rule.body = BlockStack(text, *block, range).body();
  }
  rule.to = parse_pattern(with_block(text.to, block == nullptr ? nullptr : &block->to, text.place),
                          text.place);
  for (const std::string& from : text.from) {
    rule.from.push_back(parse_pattern(
        with_block(from, block == nullptr ? nullptr : &block->from, text.place), text.place));
  }
  CaptureFinder(rule, range).find();
  check_optional_words(rule);
  for (const auto& wholes : text.wholes) check_whole_words(rule, wholes);
  check_whole_words(rule, text.to_whole);
  return rule;
}

bool is_in_block(const std::string& text) {
  return text[0] == '@';
}

std::string block_name(const std::string& text) {
  if (!is_in_block(text)) return {};
  const std::size_t colon = std::min(text.find(':'), text.size());
  std::string name = text.substr(1, colon - 1);
  // "@{p:weight|bias}" and "@attention.{n:q|k}_norm" have none.
  return colon < text.size() && is_expression_name(name) ? name : std::string();
}

std::string block_name(const RuleText& rule) {
  std::vector<std::string> texts = rule.from;
  texts.push_back(rule.to);
  std::erase_if(texts, [](const std::string& text) { return !is_in_block(text); });
  const std::string name = block_name(texts.front());
  for (const std::string& text : texts) {
    if (block_name(text) == name) continue;
    fail_in_rule(rule.place, "a rule is in one block, but this one has '" +
                                 printable(texts.front()) + "' and '" + printable(text) + "'");
  }
  return name;
}

std::string without_block(const std::string& text) {
  if (!is_in_block(text)) return text;
  const std::string name = block_name(text);
  return text.substr(name.empty() ? 1 : name.size() + 2);
}

void check_stages(const RuleText& text) {
  const auto check = [&](const StageStatement& stage, const std::string& name) {
    if (stage.place != StagePlace::kLayer) return;
    try {
      stage.check_for(Pattern::parse(without_block(name)), /*is_block=*/false);
    } catch (const Error& error) {
      fail_in_rule(text.place, error.message());
    }
  };
  check(text.stage.to, text.to);
  for (const std::string& from : text.from) check(text.stage.from, from);
}

LayerBlock make_layer_block(const BlockText& text) {
  LayerBlock block{text.place, parse_pattern(text.from, text.place),
                   parse_pattern(text.to, text.place), text.when, text.stage};
  try {
    for (const bool is_from : {true, false}) {
      const StageStatement& stage = block.stage.of(is_from);
      stage.check_for(block.of(is_from), /*is_block=*/true);
      if (stage.place != StagePlace::kLayer || block.of(is_from).captures().size() == 1) continue;
      throw Error(ErrorKind::kBadInput, "'stage' is '{" + stage.capture +
                                            "}', but a block of such layers has no other capture");
    }
  } catch (const Error& error) {
    fail_in_rule(text.place, error.message());
  }
  return block;
}

MapAlias make_alias(const AliasText& text) {
  MapAlias alias;
  alias.place = text.place;
  alias.is_from = text.side == "from";
  alias.name = parse_pattern(with_block(text.name, nullptr, text.place), text.place);
  alias.of = parse_pattern(with_block(text.of, nullptr, text.place), text.place);
  alias.when = text.when;
  alias.emit = text.emit;
  alias.stage = text.stage;
  const std::vector<std::string>& names = alias.name.names();
  for (const Pattern::Capture& capture : alias.name.captures()) {
    if (capture.is_word) fail_in_rule(text.place, "an alias takes captures that are numbers alone");
  }
  for (const std::string& name : names) {
    const auto range = text.range.find(name);
    if (range == text.range.end()) {
      fail_in_rule(text.place, "the capture '" + name + "' of an alias needs a range");
    }
    alias.ranges.push_back(range->second);
  }
  for (const std::string& name : alias.of.names()) {
    const auto known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) {
      fail_in_rule(text.place, "the capture '" + name + "' stands in 'of' alone");
    }
    alias.of_slots.push_back(static_cast<std::size_t>(known - names.begin()));
  }
  for (const auto& [name, expression] : text.range) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      fail_in_rule(text.place,
                   "'range' has '" + printable(name) + "', which is no capture of 'name'");
    }
  }
  return alias;
}

}  // namespace reshardfs::modelmap
