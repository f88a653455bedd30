// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>

#include <toml++/toml.h>

#include "reshardfs/error.h"

#include "storage/directory.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 1 << 20;

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

[[noreturn]] void fail_at(const std::string& file, const toml::source_region& where,
                          const std::string& message) {
  throw Error(ErrorKind::kUsage, "line " + std::to_string(where.begin.line) + ": " + message)
      .in_file(file);
}

/// A TOML value as the text that the option would have on the command line.
std::string value_text(const std::string& file, const std::string& key, const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  fail_at(file, node.source(), "'" + printable(key) + "' must be a text, a number or a list");
}

void append_key(const CLI::App& command, const std::string& file, const std::string& key,
                const toml::node& node, std::vector<std::string>& out) {
  if (!is_option(command, key) || key == "config" || key == "help") {
    fail_at(file, node.source(),
            "'" + printable(key) + "' is no option of 'reshardfs " + command.get_name() + "'");
  }
  if (const auto flag = node.value_exact<bool>()) {
    if (*flag) out.push_back("--" + key);
    return;
  }
  if (const toml::array* list = node.as_array()) {
    for (const toml::node& item : *list) {
      out.push_back("--" + key + "=" + value_text(file, key, item));
    }
    return;
  }
  out.push_back("--" + key + "=" + value_text(file, key, node));
}

std::vector<std::string> config_arguments(const CLI::App& command, const std::string& file) {
  if (path_kind(file) == PathKind::kMissing) {
    throw Error(ErrorKind::kMissing, "there is no such file").in_file(file).hint("check --config");
  }
  const std::string text = read_small_file(file, kMaxConfigBytes);
  std::vector<std::string> out;
  try {
    const toml::table table = toml::parse(text, file);
    for (const auto& [key, node] : table) {
      append_key(command, file, std::string(key.str()), node, out);
    }
  } catch (const toml::parse_error& error) {
    fail_at(file, error.source(), std::string(error.description()));
  }
  return out;
}

void append_mount_word(const CLI::App& command, const std::string& word,
                       std::vector<std::string>& out) {
  if (word.empty() || word.rfind("x-", 0) == 0 || word.rfind("comment=", 0) == 0) return;
  if (std::find(kIgnoredWords.begin(), kIgnoredWords.end(), word) != kIgnoredWords.end()) return;
  const std::size_t equals = word.find('=');
  std::string key = word.substr(0, equals);
  std::replace(key.begin(), key.end(), '_', '-');
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

/// The value of `name VALUE` or `name=VALUE` at position i, which moves to its last word.
std::optional<std::string> take_value(const std::vector<std::string>& arguments, std::size_t& i,
                                      const std::string& name) {
  if (arguments[i] == name && i + 1 < arguments.size()) return arguments[++i];
  if (arguments[i].rfind(name + "=", 0) == 0) return arguments[i].substr(name.size() + 1);
  return std::nullopt;
}

}  // namespace

std::vector<std::string> expand_arguments(const CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.empty()) return arguments;
  const auto commands = app.get_subcommands(
      [&](const CLI::App* candidate) { return candidate->get_name() == arguments.front(); });
  if (commands.empty()) return arguments;
  const CLI::App* command = commands.front();
  const bool takes_mount_words = is_option(*command, "fuse-option");
  const bool takes_config = is_option(*command, "config");

  std::vector<std::string> from_config;
  std::vector<std::string> rest;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--") {
      rest.insert(rest.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
      break;
    }
    if (takes_config) {
      if (const auto file = take_value(arguments, i, "--config")) {
        const auto more = config_arguments(*command, *file);
        from_config.insert(from_config.end(), more.begin(), more.end());
        continue;
      }
    }
    if (takes_mount_words && arguments[i].rfind("-o", 0) == 0) {
      const bool glued = arguments[i].size() > 2;
      if (!glued && i + 1 == arguments.size()) {
        throw Error(ErrorKind::kUsage, "-o needs a list of mount options, as in -o allow_other");
      }
      append_mount_options(*command, glued ? arguments[i].substr(2) : arguments[i + 1], rest);
      if (!glued) ++i;
      continue;
    }
    rest.push_back(arguments[i]);
  }
  std::vector<std::string> expanded{arguments.front()};
  expanded.insert(expanded.end(), from_config.begin(), from_config.end());
  expanded.insert(expanded.end(), rest.begin(), rest.end());
  return expanded;
}

}  // namespace reshardfs
