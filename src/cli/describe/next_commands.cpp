// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/next_commands.h"

#include <sstream>
#include <utility>

#include "base/text/shell_text.h"

namespace reshardfs {
namespace {

using Words = std::vector<std::string>;

/// An argument that the program does not take for an option.
std::string as_argument(const std::string& path) {
  return path.starts_with('-') ? "./" + path : path;
}

class Lines {
 public:
  explicit Lines(const NextFacts& facts) : facts_(facts) {}

  void add(const std::string& command, const Words& arguments, const Words& more = {}) {
    lines_.push_back(line(command, arguments, more));
  }
  void add_plan(const Words& more) { lines_.push_back(line("plan", {}, as_wanted(more))); }
  void add_mount(const Words& more) {
    const std::string mountpoint = as_argument(facts_.mountpoint);
    lines_.push_back(shell_line({"mkdir", "-p", mountpoint}) + " && " +
                     line("mount", {mountpoint}, as_wanted(more)));
  }
  Words take() { return std::move(lines_); }

 private:
  Words as_wanted(Words more) const {
    if (facts_.needs_partial) more.emplace_back("--partial");
    return more;
  }

  std::string line(const std::string& command, const Words& arguments, const Words& more) const {
    Words words{"reshardfs"};
    std::istringstream names(command);
    for (std::string name; names >> name;) words.push_back(name);
    words.push_back(as_argument(facts_.source));
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Words given = facts_.options(command);
    words.insert(words.end(), given.begin(), given.end());
    words.insert(words.end(), more.begin(), more.end());
    return shell_line(words);
  }

  const NextFacts& facts_;
  Words lines_;
};

Words strategy_words(const std::string& strategy) {
  return {"--src-strategy", as_argument(strategy)};
}

}  // namespace

std::vector<std::string> next_commands(const NextFacts& facts) {
  constexpr std::size_t kMost = 3;
  if (facts.source.empty()) return {};
  Lines lines(facts);
  if (facts.strategies.size() == 1) {
    const Words words = strategy_words(facts.strategies.front());
    lines.add("inspect", {}, words);
    if (facts.can_mount) lines.add_mount(words);
    if (facts.can_verify) lines.add("verify", {}, words);
    return lines.take();
  }
  if (!facts.strategies.empty()) {
    for (const std::string& strategy : facts.strategies) {
      lines.add("inspect", {}, strategy_words(strategy));
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
    if (!facts.can_mount) lines.add("inspect", {}, words);
  }
  if (facts.can_mount && facts.can_dequantize) lines.add_mount({"--dequantize"});
  if (facts.can_mount) lines.add_mount({});
  if (facts.can_mount && !facts.map.empty()) lines.add_mount({"--map", facts.map});
  if (facts.can_verify) lines.add("verify", {});
  if (facts.can_guess) lines.add("strategy guess", {}, {"-O", as_argument(facts.rules)});
  if (!facts.can_mount) lines.add("inspect", {}, {"--list"});
  return lines.take();
}

}  // namespace reshardfs
