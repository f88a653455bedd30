// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/next_commands.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text/shell_text.h"
#include "cli/options/table.h"
#include "cli/options/value_checks.h"

namespace reshardfs {
namespace {

bool says_what_is_printed(std::string_view name) {
  constexpr std::array<std::string_view, 15> kNames{
      "json", "jobs", "verbose", "quiet", "log-level", "log-file", "log-format", "config",
      "list", "tree", "depth",   "stats", "only-bad",  "why",      "fail-on-nan"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

using Words = std::vector<std::string>;

class Lines {
 public:
  explicit Lines(const NextFacts& facts) : facts_(facts) {}

  void add(const std::string& command, const Words& more = {}) {
    lines_.push_back(command_line(command, {facts_.source}, options(command, more)));
  }
  void add_plan(const Words& more) { add("plan", as_wanted(more)); }
  void add_mount(const Words& more) {
    lines_.push_back(
        mount_line(facts_.source, facts_.mountpoint, options("mount", as_wanted(more))));
  }
  Words take() { return std::move(lines_); }

 private:
  Words as_wanted(Words more) const {
    if (facts_.needs_partial) more.emplace_back("--partial");
    return more;
  }

  Words options(const std::string& command, const Words& more) const {
    Words words = facts_.options(command);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  const NextFacts& facts_;
  Words lines_;
};

Words strategy_words(const std::string& strategy) {
  return {"--src-strategy", path_word(strategy)};
}

}  // namespace

std::vector<std::string> carried_options(const Given& given, const std::string& command) {
  const Command* const other = find_command(command);
  if (other == nullptr) return {};
  std::vector<std::string> words;
  for (const GivenOption& use : given.options) {
    const Option& option = *use.option;
    if (says_what_is_printed(option.name) || find_option(*other, option.name) == nullptr) continue;
    if (option.is_flag() && flag_value(use.text) != true) continue;
    const std::vector<std::string> typed = typed_words(use);
    words.insert(words.end(), typed.begin(), typed.end());
  }
  return words;
}

std::vector<std::string> next_commands(const NextFacts& facts) {
  constexpr std::size_t kMost = 3;
  if (facts.source.empty()) return {};
  Lines lines(facts);
  if (facts.strategies.size() == 1) {
    const Words words = strategy_words(facts.strategies.front());
    lines.add("inspect", words);
    if (facts.can_mount) lines.add_mount(words);
    if (facts.can_verify) lines.add("verify", words);
    return lines.take();
  }
  if (!facts.strategies.empty()) {
    for (const std::string& strategy : facts.strategies) {
      lines.add("inspect", strategy_words(strategy));
    }
    Words all = lines.take();
    if (all.size() > kMost) all.resize(kMost);
    return all;
  }
  if (facts.can_mount && !facts.sizes.empty()) {
    const Words words{"--src-strategy", facts.sizes};
    lines.add_mount(words);
    lines.add_plan(words);
    return lines.take();
  }
  for (const std::string& key : facts.state_keys) {
    const Words words{"--state-key", key};
    if (facts.can_mount) lines.add_mount(words);
    if (!facts.can_mount) lines.add("inspect", words);
  }
  if (facts.can_mount && facts.can_dequantize) lines.add_mount({"--dequantize"});
  if (facts.can_mount) lines.add_mount({});
  if (facts.can_mount && !facts.map.empty()) lines.add_mount({"--map", facts.map});
  if (facts.can_verify) lines.add("verify");
  if (facts.can_guess) lines.add("strategy guess", {"-O", path_word(facts.rules)});
  if (!facts.can_mount) lines.add("inspect", {"--list"});
  return lines.take();
}

}  // namespace reshardfs
