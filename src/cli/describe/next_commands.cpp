// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/next_commands.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

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

  void add(const std::string& job, const std::string& command, const Words& more = {}) {
    add_line(job, command_line(command, {facts_.source}, options(command, more)));
  }
  void add_mount(const std::string& job, const Words& more) {
    add_line(job, mount_line(facts_.source, facts_.mountpoint, options("mount", as_wanted(more))));
  }
  void add_export(const Words& more) {
    Words wanted = as_wanted(more);
    if (facts_.shows_hf) wanted.insert(wanted.end(), {"--views", "hf"});
    add_line("convert it: the same files on disk",
             command_line("export", {facts_.source, facts_.directory}, options("export", wanted)));
  }
  /// The jobs for which people come: serve, resume, convert.
  void add_jobs(const Words& more) {
    std::string job = "load it or resume from it; --dst-strategy tp=N makes it that of N ranks";
    if (!facts_.hf_needs.empty()) job += "; hf/, to serve it, needs " + facts_.hf_needs;
    if (facts_.shows_hf) {
      job =
          fmt::format("serve it, with 'vllm serve {0}/hf', or load it: from_pretrained(\"{0}/hf\")",
                      facts_.mountpoint);
    }
    add_mount(job, more);
    add_export(more);
  }
  std::vector<NextCommand> take() { return std::move(lines_); }

 private:
  void add_line(const std::string& job, std::string command) {
    lines_.push_back({job, std::move(command)});
  }

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
  std::vector<NextCommand> lines_;
};

Words strategy_words(const std::string& strategy) {
  return {"--src-strategy", path_word(strategy)};
}

constexpr const char* kLookAtWhole = "look at whole parameters";
constexpr const char* kCheck =
    "check that all data can be read, and is the same where it should be";

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

std::vector<NextCommand> next_commands(const NextFacts& facts) {
  constexpr std::size_t kMost = 3;
  if (facts.source.empty()) return {};
  Lines lines(facts);
  if (facts.strategies.size() == 1) {
    const Words words = strategy_words(facts.strategies.front());
    lines.add(kLookAtWhole, "inspect", words);
    if (facts.can_mount) lines.add_jobs(words);
    if (facts.can_verify) lines.add(kCheck, "verify", words);
    return lines.take();
  }
  if (!facts.strategies.empty()) {
    for (const std::string& strategy : facts.strategies) {
      lines.add(kLookAtWhole, "inspect", strategy_words(strategy));
    }
    std::vector<NextCommand> all = lines.take();
    if (all.size() > kMost) all.resize(kMost);
    return all;
  }
  if (facts.can_mount && !facts.sizes.empty()) {
    lines.add_jobs({"--src-strategy", facts.sizes});
    return lines.take();
  }
  for (const std::string& key : facts.state_keys) {
    const std::string job = "take only what is under '" + printable(key) + "'";
    const Words words{"--state-key", key};
    if (facts.can_mount) lines.add_mount(job, words);
    if (!facts.can_mount) lines.add(job, "inspect", words);
  }
  if (facts.can_mount && facts.can_dequantize) {
    lines.add_mount("mount it with quantized weights as BFloat16", {"--dequantize"});
  }
  if (facts.can_mount) lines.add_jobs({});
  if (facts.can_mount && !facts.map.empty()) {
    lines.add_mount("mount it with other names, by the map " + facts.map, {"--map", facts.map});
  }
  if (facts.can_verify) lines.add(kCheck, "verify");
  if (facts.can_guess) {
    lines.add("find out how it is cut", "strategy guess", {"-O", path_word(facts.rules)});
  }
  if (!facts.can_mount) lines.add("see a line for each parameter", "inspect", {"--list"});
  return lines.take();
}

}  // namespace reshardfs
