// SPDX-License-Identifier: Apache-2.0
#include "cli/advice/command_text.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/text/shell_text.h"
#include "cli/describe/free_names.h"
#include "cli/options/table.h"
#include "daemon/mounted_command.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kForeground = "foreground";  // which 'run' gives its mount

/// A name for what an argument or option says where to write; empty: only the user knows.
std::string free_name_for(const Given& given, const std::string& name) {
  if (name == "MOUNTPOINT") return free_mountpoint(absolute_source(given.argument("SOURCE")));
  if (name == "OUTDIR") return free_name("converted");
  if (name != "output") return {};
  switch (given.command().bit) {
    case commands::kReport:
      return free_name("report", ".html");
    case commands::kStrategyMerge:
      return free_name("merged_strategy", ".ckpt");
    case commands::kStrategyConvert:
      return free_name("strategy", ".json");
    default:
      return {};
  }
}

}  // namespace

std::string command_text(const Given& given) {
  const bool is_mount = given.command().bit == commands::kMount;
  const char* const beside = is_mount ? std::getenv(kBesideCommand) : nullptr;
  Words options;
  for (const GivenOption& use : given.options) {
    if (beside != nullptr && use.option->name == kForeground) continue;
    const Words typed = typed_words(use);
    options.insert(options.end(), typed.begin(), typed.end());
  }
  if (beside != nullptr) {
    return command_line("run", given.arguments, options) + " -- " + beside;
  }
  if (is_mount && given.arguments.size() == 2) {
    const std::string mountpoint = given.argument("MOUNTPOINT");
    std::error_code failed;
    const bool is_there = std::filesystem::exists(mountpoint, failed) || failed;
    if (!is_there) return mount_line(given.arguments.front(), mountpoint, options);
  }
  return command_line(given.command().name, given.arguments, options);
}

std::string completed_text(const Given& given) {
  Given completed = given;
  const std::vector<Argument>& expected = given.command().arguments;
  for (std::size_t i = given.arguments.size(); i < expected.size(); ++i) {
    const Argument& missing = expected[i];
    if (!missing.required || (!missing.unless.empty() && given.has(missing.unless))) break;
    const std::string name = i == 0 ? std::string() : free_name_for(given, missing.name);
    if (name.empty()) return {};
    completed.arguments.push_back(name);
  }
  for (const Option* option : options_of(given.command())) {
    if (!option->required || given.has(option->name)) continue;
    const std::string name = free_name_for(given, option->name);
    if (name.empty()) return {};
    completed.options.push_back({option, name});
  }
  return command_text(completed);
}

std::string option_text(const Given& given, const std::string& name) {
  return find_option(given.command(), name) == nullptr ? std::string() : given.text(name);
}

Given with_option(Given given, const std::string& name, const std::string& text) {
  const Option* const option = find_option(given.command(), name);
  const auto found = std::find_if(given.options.rbegin(), given.options.rend(),
                                  [&](const GivenOption& use) { return use.option == option; });
  if (found != given.options.rend()) {
    found->text = text;
  } else {
    given.options.push_back({option, text});
  }
  return given;
}

}  // namespace reshardfs
