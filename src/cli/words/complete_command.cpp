// SPDX-License-Identifier: Apache-2.0
#include "cli/words/complete_command.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include <toml++/toml.h>

#include "reshardfs/checkpoint.h"
#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "base/text/utf8.h"
#include "base/toml/toml_keys.h"
#include "cli/app.h"
#include "cli/options/table_json.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostNames = 20000;
/// A file of options has a few kilobytes.
constexpr std::uintmax_t kLargestConfig = 1U << 20U;

using Names = std::set<std::string>;

Names names_in_checkpoint(const std::filesystem::path& path) {
  Names names;
  for (const CheckpointParameter& parameter : read_contents({.path = path}).parameters) {
    names.insert(parameter.name);
  }
  return names;
}

Names names_in_strategy(const std::filesystem::path& path) {
  const Strategy strategy = Strategy::load(path);
  Names names;
  for (std::int64_t i = 0; i < strategy.stage_count(); ++i) {
    for (const auto& [name, layout] : strategy.stage(i)) names.insert(name);
  }
  return names;
}

/// The tab key shows names or nothing: what is wrong with a file, the command says
/// when it is run.
template <typename Read>
Names names_or_none(const Read& read) {
  try {
    return read();
  } catch (const std::exception&) {
    return {};
  }
}

Names parameters(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    std::error_code error;
    if (word.empty() || !std::filesystem::exists(word, error)) continue;
    Names names = names_or_none([&] { return names_in_checkpoint(word); });
    if (names.empty()) names = names_or_none([&] { return names_in_strategy(word); });
    if (!names.empty()) return names;
  }
  return {};
}

Names mounts(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file) ||
      std::filesystem::file_size(file) > kLargestConfig) {
    return {};
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  refuse_deep_toml_keys(text.str());
  const toml::table table = toml::parse(text.str());
  Names names;
  if (const toml::table* all = table["mount"].as_table()) {
    for (const auto& [name, keys] : *all) names.emplace(name.str());
  }
  return names;
}

bool fits_a_line(const std::string& name) {
  return std::none_of(name.begin(), name.end(), is_control_byte);
}

}  // namespace

int run_complete(const std::vector<std::string>& words) {
  if (!words.empty() && words.front() == "options") {
    std::cout << table_json_text() << "\n";
    return kExitDone;
  }
  Names names;
  if (!words.empty() && words.front() == "param") {
    names = parameters({words.begin() + 1, words.end()});
  } else if (words.size() == 2 && words.front() == "mount") {
    names = names_or_none([&] { return mounts(words[1]); });
  }
  std::size_t printed = 0;
  for (const std::string& name : names) {
    if (!fits_a_line(name)) continue;
    if (++printed > kMostNames) break;
    std::cout << name << "\n";
  }
  return kExitDone;
}

}  // namespace reshardfs
