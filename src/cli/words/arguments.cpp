// SPDX-License-Identifier: Apache-2.0
#include "cli/words/arguments.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/near_name.h"
#include "cli/words/config_file.h"

namespace reshardfs {
namespace {

/// Words that mount(8) and fstab(5) use among themselves, or that say what holds anyway.
constexpr std::array<std::string_view, 17> kIgnoredWords{"ro",
                                                         "rw",
                                                         "auto",
                                                         "noauto",
                                                         "user",
                                                         "nouser",
                                                         "users",
                                                         "nofail",
                                                         "_netdev",
                                                         "exec",
                                                         "noexec",
                                                         "suid",
                                                         "nosuid",
                                                         "dev",
                                                         "nodev",
                                                         "defaults",
                                                         "default_permissions"};

bool is_option(const CLI::App& command, const std::string& key) {
  return command.get_option_no_throw("--" + key) != nullptr;
}

// --- -o ----------------------------------------------------------------------------------------

/// A key with a value that is like one of the command's. FUSE has few such keys.
void require_no_near_option(const CLI::App& command, const std::string& word,
                            const std::string& key, bool has_value) {
  constexpr std::array<std::string_view, 6> kOfFuse{"fsname",   "subtype", "max-read",
                                                    "rootmode", "user-id", "group-id"};
  if (!has_value || is_option(command, key)) return;
  if (std::find(kOfFuse.begin(), kOfFuse.end(), key) != kOfFuse.end()) return;
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  const auto near = near_name(key, names);
  if (!near) return;
  throw Error(ErrorKind::kUsage, "there is no mount option '" + printable(word) + "'")
      .hint("did you mean '" + *near + "'?");
}

void append_mount_word(const CLI::App& command, const std::string& word,
                       std::vector<std::string>& out) {
  if (word.empty() || word.rfind("x-", 0) == 0 || word.rfind("comment=", 0) == 0) return;
  if (std::find(kIgnoredWords.begin(), kIgnoredWords.end(), word) != kIgnoredWords.end()) return;
  const std::size_t equals = word.find('=');
  std::string key = word.substr(0, equals);
  std::replace(key.begin(), key.end(), '_', '-');
  require_no_near_option(command, word.substr(0, equals), key, equals != std::string::npos);
  if (is_option(command, key)) {
    out.push_back("--" + key + (equals == std::string::npos ? "" : word.substr(equals)));
  } else {
    out.push_back("--fuse-option=" + word);
  }
}

void append_mount_options(const CLI::App& command, const std::string& list,
                          std::vector<std::string>& out) {
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) append_mount_word(command, word, out);
}

std::vector<std::string> expand_mount_options(const CLI::App& command,
                                              const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (!words[i].starts_with("-o")) {
      out.push_back(words[i]);
      continue;
    }
    const bool glued = words[i].size() > 2;
    if (!glued && i + 1 == words.size()) {
      throw Error(ErrorKind::kUsage, "-o needs a list of mount options, as in -o allow_other");
    }
    append_mount_options(command, glued ? words[i].substr(2) : words[i + 1], out);
    if (!glued) ++i;
  }
  return out;
}

// --- --config ----------------------------------------------------------------------------------

/// A command line taken apart as far as a configuration file needs it.
struct Words {
  std::vector<std::string> options;  ///< with their values, but without --config
  std::vector<std::string> arguments;
  std::set<const CLI::Option*> given;
  std::optional<std::string> config;
};

bool takes_value(const CLI::Option* option) {
  return option != nullptr && option->get_items_expected_max() > 0;
}

/// The option of a word whose value is the next one; a word has one letter for each of its flags.
const CLI::Option* note_option(const CLI::App& command, const std::string& word,
                               std::set<const CLI::Option*>& given) {
  if (word.starts_with("--")) {
    const std::size_t equals = word.find('=');
    const CLI::Option* option = command.get_option_no_throw(word.substr(0, equals));
    given.insert(option);
    return equals == std::string::npos && takes_value(option) ? option : nullptr;
  }
  for (std::size_t i = 1; i < word.size(); ++i) {
    const CLI::Option* option = command.get_option_no_throw(std::string("-") + word[i]);
    given.insert(option);
    if (takes_value(option)) return i + 1 == word.size() ? option : nullptr;
  }
  return nullptr;
}

Words take_apart(const CLI::App& command, const std::vector<std::string>& words) {
  constexpr std::string_view kConfig = "--config=";
  Words out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      out.arguments.insert(out.arguments.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                           words.end());
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      out.arguments.push_back(word);
    } else if (word.starts_with(kConfig)) {
      out.config = word.substr(kConfig.size());
    } else if (word == "--config" && i + 1 < words.size()) {
      out.config = words[++i];
    } else {
      const bool has_value = note_option(command, word, out.given) != nullptr;
      out.options.push_back(word);
      if (has_value && i + 1 < words.size()) out.options.push_back(words[++i]);
    }
  }
  return out;
}

/// The long names of all options of a command and those below it.
void add_option_names(const CLI::App& command, std::vector<std::string>& names) {
  for (const CLI::Option* option : command.get_options()) {
    const auto& long_names = option->get_lnames();
    names.insert(names.end(), long_names.begin(), long_names.end());
  }
  for (const CLI::App* inner : command.get_subcommands([](const CLI::App*) { return true; })) {
    add_option_names(*inner, names);
  }
}

bool says_log_level(const std::set<const CLI::Option*>& given) {
  return std::any_of(given.begin(), given.end(), [](const CLI::Option* option) {
    if (option == nullptr) return false;
    const auto& names = option->get_lnames();
    return std::any_of(names.begin(), names.end(), is_log_level_key);
  });
}

void append_key(const std::string& key, const ConfigValue& value, std::vector<std::string>& out) {
  if (value.flag) {
    if (*value.flag) out.push_back("--" + key);
    return;
  }
  for (const std::string& text : value.texts) out.push_back("--" + key + "=" + text);
}

/// The key that can stand in for an argument of a command.
std::string key_of(const CLI::Option& argument) {
  const std::string name = argument.get_name(/*positional=*/true);
  if (name == "SOURCE" || name == "PATH") return ConfigFile::kSource;
  return name == "MOUNTPOINT" ? ConfigFile::kMountpoint : "";
}

/// A mount that is handed over needs no mount point.
bool may_lack(const std::string& key, const std::set<const CLI::Option*>& given,
              const ConfigKeys& keys) {
  constexpr const char* kSocket = "fuse-socket";
  return key == ConfigFile::kMountpoint &&
         (keys.contains(kSocket) ||
          std::any_of(given.begin(), given.end(), [](const CLI::Option* option) {
            return option != nullptr && option->check_lname(kSocket);
          }));
}

/// The command's arguments: those of the command line, and for what is missing those of the file.
std::vector<std::string> fill_arguments(const std::vector<const CLI::Option*>& expected,
                                        const Words& words, const ConfigFile& file,
                                        const std::optional<std::string>& mount) {
  const std::vector<std::string>& given = words.arguments;
  const ConfigKeys keys = file.keys(mount);
  std::vector<std::string> out;
  std::size_t next = mount ? 1 : 0;  // the first one was the mount's name
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool named = mount && i == 0;
    if (!named && next < given.size()) {
      out.push_back(given[next++]);
      continue;
    }
    const std::string key = key_of(*expected[i]);
    const auto found = keys.find(key);
    if (found != keys.end() && !found->second.texts.empty()) {
      out.push_back(found->second.texts.back());
    } else if (may_lack(key, words.given, keys)) {
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
  out.insert(out.end(), given.begin() + static_cast<std::ptrdiff_t>(next), given.end());
  return out;
}

/// The first argument may be meant as the name of a mount, and be misspelt. A path that exists is
/// not, nor one of as many arguments as the command takes, unless it is like a name.
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

std::atomic<bool>& options_file_read() noexcept {
  static std::atomic<bool> read{false};
  return read;
}

ExpandedArguments apply_config(const CLI::App& app, const CLI::App& command, const Words& words) {
  std::vector<std::string> known;
  add_option_names(app, known);
  const ConfigFile file(*words.config, known);
  const std::vector<const CLI::Option*> expected =
      command.get_options([](const CLI::Option* option) { return option->get_positional(); });

  std::optional<std::string> mount;
  const bool may_name = !expected.empty() && !key_of(*expected.front()).empty();
  if (may_name && !words.arguments.empty() && file.has_mount(words.arguments.front())) {
    mount = words.arguments.front();
  } else if (may_name && !words.arguments.empty()) {
    require_mount(file, words.arguments.front(), words.arguments.size() >= expected.size());
  }
  const bool own_level = says_log_level(words.given);
  ExpandedArguments out;
  for (const auto& [key, value] : file.keys(mount)) {
    if (!is_option(command, key) || (own_level && is_log_level_key(key))) continue;
    append_key(key, value, out.words);
  }
  out.words.insert(out.words.end(), words.options.begin(), words.options.end());
  const auto arguments = fill_arguments(expected, words, file, mount);
  if (!arguments.empty()) out.words.emplace_back("--");
  out.words.insert(out.words.end(), arguments.begin(), arguments.end());
  if (!own_level) {
    out.reread_log_level = [path = file.path(), known, mount] {
      return config_log_level(ConfigFile(path, known).keys(mount));
    };
  }
  return out;
}

}  // namespace

bool has_options_file() noexcept {
  return options_file_read();
}

ExpandedArguments expand_arguments(const CLI::App& app, std::vector<std::string> arguments) {
  ExpandedArguments expanded{arguments, {}};
  if (arguments.empty()) return expanded;
  const auto commands = app.get_subcommands(
      [&](const CLI::App* candidate) { return candidate->get_name() == arguments.front(); });
  if (commands.empty()) return expanded;
  const CLI::App& command = *commands.front();

  std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  if (is_option(command, "fuse-option")) words = expand_mount_options(command, words);
  expanded.words = words;
  if (is_option(command, "config")) {
    const Words parts = take_apart(command, words);
    if (parts.config) expanded = apply_config(app, command, parts);
    if (parts.config) options_file_read() = true;
  }
  expanded.words.insert(expanded.words.begin(), arguments.front());
  return expanded;
}

}  // namespace reshardfs
