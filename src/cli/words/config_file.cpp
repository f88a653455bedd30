// SPDX-License-Identifier: Apache-2.0
#include "cli/words/config_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "reshardfs/error.h"

#include "base/text/near_name.h"
#include "base/toml/toml_keys.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1 << 20;
constexpr std::string_view kMounts = "mount";
constexpr std::array<std::string_view, 3> kLogLevelKeys{"log-level", "verbose", "quiet"};

/// Reads one file's tables; knows its name for messages, and which keys there are.
class Reader {
 public:
  Reader(std::string file, const std::vector<std::string>& options)
      : file_(std::move(file)), known_(options) {
    // These say where and how to read this very file.
    for (const char* name : {"config", "help"}) std::erase(known_, name);
    known_.insert(known_.end(), {ConfigFile::kSource, ConfigFile::kMountpoint});
  }

  ConfigKeys read_keys(const toml::table& table) const {
    ConfigKeys keys;
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      require_known(name, node.source());
      keys.emplace(name, read_value(name, node));
    }
    return keys;
  }

  std::map<std::string, ConfigKeys> read_mounts(const toml::node& node) const {
    std::map<std::string, ConfigKeys> mounts;
    const toml::table* tables = node.as_table();
    if (tables == nullptr) fail(node.source(), "'mount' must be tables: [mount.NAME]");
    for (const auto& [key, inner] : *tables) {
      const std::string name(key.str());
      const toml::table* table = inner.as_table();
      if (table == nullptr) {
        fail(inner.source(),
             "'" + printable(name) + "' is in [mount]: give the mount a name, as in [mount.NAME]");
      }
      mounts.emplace(name, read_keys(*table));
    }
    return mounts;
  }

  [[noreturn]] void fail(const toml::source_region& where, const std::string& message) const {
    throw error(where, message);
  }

 private:
  Error error(const toml::source_region& where, const std::string& message) const {
    return Error(ErrorKind::kUsage, "line " + std::to_string(where.begin.line) + ": " + message)
        .in_file(file_);
  }

  void require_known(const std::string& key, const toml::source_region& where) const {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) return;
    Error unknown = error(where, "'" + printable(key) + "' is not an option of any command");
    std::vector<std::string> names = known_;
    names.emplace_back(kMounts);
    throw unknown.hint(did_you_mean(key, names)).hint("see reshardfs.toml(5)");
  }

  ConfigValue read_value(const std::string& key, const toml::node& node) const {
    ConfigValue value;
    if (const auto flag = node.value_exact<bool>()) {
      value.flag = *flag;
    } else if (const toml::array* list = node.as_array()) {
      for (const toml::node& item : *list) value.texts.push_back(value_text(key, item));
    } else {
      value.texts.push_back(value_text(key, node));
    }
    return value;
  }

  /// A TOML value as the text that the option would have on the command line.
  std::string value_text(const std::string& key, const toml::node& node) const {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto* number = node.as_integer()) {
      // The command line takes modes in octal, where TOML writes 0o440.
      const bool octal =
          (number->flags() & toml::value_flags::format_as_octal) != toml::value_flags::none;
      if (octal && key.ends_with("-mode")) return fmt::format("{:o}", number->get());
      return std::to_string(number->get());
    }
    fail(node.source(), "'" + printable(key) + "' must be a text, a number or a list");
  }

  std::string file_;
  std::vector<std::string> known_;
};

}  // namespace

ConfigFile::ConfigFile(const std::filesystem::path& path, const std::vector<std::string>& options)
    : path_(std::filesystem::absolute(path)) {
  if (path_kind(path_) == PathKind::kMissing) {
    throw Error(ErrorKind::kMissing, "no such file").in_file(path).hint("check --config");
  }
  const std::string text = read_small_file(path_, kMaxFileBytes);
  const Reader reader(path, options);
  try {
    refuse_deep_toml_keys(text);
    toml::table table = toml::parse(text, path.string());
    if (const toml::node* mounts = table.get(kMounts)) {
      mounts_ = reader.read_mounts(*mounts);
      table.erase(kMounts);
    }
    shared_ = reader.read_keys(table);
  } catch (const toml::parse_error& error) {
    reader.fail(error.source(), std::string(error.description()));
  } catch (Error& error) {
    error.in_file(path.string());
    throw;
  }
}

std::vector<std::string> ConfigFile::mounts() const {
  std::vector<std::string> names;
  for (const auto& [name, keys] : mounts_) names.push_back(name);
  return names;
}

std::string ConfigFile::mount_names() const {
  std::string names;
  for (const auto& [name, keys] : mounts_) names += (names.empty() ? "" : ", ") + printable(name);
  return names;
}

std::string ConfigFile::near_mount(const std::string& name) const {
  return did_you_mean(name, mounts());
}

ConfigKeys ConfigFile::keys(const std::optional<std::string>& mount) const {
  const auto found = mount ? mounts_.find(*mount) : mounts_.end();
  if (found == mounts_.end()) return shared_;
  ConfigKeys keys = found->second;
  const bool own_level = std::any_of(
      keys.begin(), keys.end(), [](const auto& entry) { return is_log_level_key(entry.first); });
  for (const auto& [key, value] : shared_) {
    if (!own_level || !is_log_level_key(key)) keys.emplace(key, value);
  }
  return keys;
}

bool is_log_level_key(const std::string& key) {
  return std::find(kLogLevelKeys.begin(), kLogLevelKeys.end(), key) != kLogLevelKeys.end();
}

std::string config_log_level(const ConfigKeys& keys) {
  const auto flag = [&](const char* key) {
    const auto found = keys.find(key);
    return found != keys.end() && found->second.flag == true;
  };
  const auto level = keys.find("log-level");
  if (level != keys.end() && !level->second.texts.empty()) return level->second.texts.back();
  if (flag("quiet")) return "error";
  return flag("verbose") ? "info" : "";
}

}  // namespace reshardfs
