// SPDX-License-Identifier: Apache-2.0
#include "cli/words/config_words.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "reshardfs/error.h"

#include "cli/options/table.h"
#include "cli/words/config_file.h"

namespace reshardfs {
namespace {

bool says_log_level(const Given& given) {
  return std::any_of(given.options.begin(), given.options.end(),
                     [](const GivenOption& use) { return is_log_level_key(use.option->name); });
}

void add_key(const Option& option, const ConfigValue& value, const ConfigFile& file,
             std::vector<GivenOption>& out) {
  if (!value.flag) {
    for (const std::string& text : value.texts) out.push_back({&option, text});
  } else if (!option.is_flag()) {
    throw Error(ErrorKind::kUsage,
                "'" + option.name + "' takes " + option.type + ", not true or false")
        .in_file(file.path());
  } else if (*value.flag) {
    out.push_back({&option, "true"});
  }
}

/// The key that can stand in for an argument of a command.
std::string key_of(const Argument& argument) {
  if (argument.name == "SOURCE" || argument.name == "PATH") return ConfigFile::kSource;
  return argument.name == "MOUNTPOINT" ? ConfigFile::kMountpoint : "";
}

/// The command's arguments: those of the command line, and for what is missing those of the file.
std::vector<std::string> filled_arguments(const Given& given, const ConfigFile& file,
                                          const std::optional<std::string>& mount) {
  const std::vector<Argument>& expected = given.command().arguments;
  const ConfigKeys keys = file.keys(mount);
  std::vector<std::string> out;
  std::size_t next = mount ? 1 : 0;  // the first one was the mount's name
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool named = mount && i == 0;
    if (!named && next < given.arguments.size()) {
      out.push_back(given.arguments[next++]);
      continue;
    }
    const std::string key = key_of(expected[i]);
    const auto found = keys.find(key);
    const std::string& unless = expected[i].unless;
    if (found != keys.end() && !found->second.texts.empty()) {
      out.push_back(found->second.texts.back());
    } else if (!unless.empty() && (keys.contains(unless) || given.has(unless))) {
      break;
    } else if (named || (!key.empty() && file.has_mounts())) {
      throw Error(ErrorKind::kUsage, mount
                                         ? "[mount." + printable(*mount) + "] has no '" + key + "'"
                                         : "'" + key + "' is missing")
          .in_file(file.path())
          .hint(mount ? "add it there" : "name one of its mounts: " + file.mount_names());
    } else {
      break;
    }
  }
  out.insert(out.end(), given.arguments.begin() + static_cast<std::ptrdiff_t>(next),
             given.arguments.end());
  return out;
}

/// The first argument may be meant as the name of a mount, and be misspelt. A path that exists is
/// not, nor one among the full number of arguments, unless it looks like a name.
void require_mount(const ConfigFile& file, const std::string& name, bool all_given) {
  if (!file.has_mounts() || name.find('/') != std::string::npos) return;
  std::error_code failed;
  const std::string near = file.near_mount(name);
  if (std::filesystem::exists(name, failed) || (all_given && near.empty())) return;
  throw Error(ErrorKind::kUsage, "there is no [mount." + printable(name) + "]")
      .in_file(file.path())
      .hint(near)
      .hint("name one of its mounts: " + file.mount_names());
}

/// Of the file's mounts, the one that the first argument names.
std::optional<std::string> named_mount(const Given& given, const ConfigFile& file) {
  const std::vector<Argument>& expected = given.command().arguments;
  if (expected.empty() || key_of(expected.front()).empty() || given.arguments.empty()) return {};
  const std::string& first = given.arguments.front();
  if (file.has_mount(first)) return first;
  require_mount(file, first, given.arguments.size() >= expected.size());
  return {};
}

}  // namespace

std::vector<std::string> names_of_all_options() {
  std::vector<std::string> names;
  for (const OptionGroup& group : all_options()) {
    for (const Option& option : group.options) names.push_back(option.name);
  }
  return names;
}

LogLevelSource add_config_words(Given& given) {
  if (find_option(given.command(), "config") == nullptr || !given.has("config")) return {};
  // doctor looks at the file itself, and says what is wrong with it among the rest; of run, its
  // mount reads it.
  if ((given.command().bit & (commands::kDoctor | commands::kRun)) != 0) return {};
  const std::vector<std::string> known = names_of_all_options();
  const ConfigFile file(given.text("config"), known);
  const std::optional<std::string> mount = named_mount(given, file);
  const bool own_level = says_log_level(given);
  std::vector<GivenOption> options;
  for (const auto& [key, value] : file.keys(mount)) {
    const Option* const option = find_option(given.command(), key);
    if (option == nullptr || (own_level && is_log_level_key(key))) continue;
    add_key(*option, value, file, options);
  }
  given.arguments = filled_arguments(given, file, mount);
  given.options.insert(given.options.begin(), options.begin(), options.end());
  given.from_file = true;
  if (own_level) return {};
  return [path = file.path(), known, mount] {
    return config_log_level(ConfigFile(path, known).keys(mount));
  };
}

}  // namespace reshardfs
