// SPDX-License-Identifier: Apache-2.0
/// A TOML file with options: keys that hold for all commands and mounts, and tables [mount.NAME]
/// with those of one mount.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reshardfs {

/// What a key says. A key of a file is the long option of that name, without its dashes.
struct ConfigValue {
  /// true or false: the option is a flag, and has no texts.
  std::optional<bool> flag;
  /// One text for each time that the option is given.
  std::vector<std::string> texts;
};

using ConfigKeys = std::map<std::string, ConfigValue>;

class ConfigFile {
 public:
  /// Keys that are no options, but stand for the arguments of that name.
  static constexpr const char* kSource = "source";
  static constexpr const char* kMountpoint = "mountpoint";

  /// @param path made absolute.
  /// @param options the long names of all commands' options; other names are refused everywhere.
  /// @throws Error kMissing, kIo, or kUsage with the line and, if there is one, a name that is
  /// near.
  ConfigFile(const std::filesystem::path& path, const std::vector<std::string>& options);

  const std::filesystem::path& path() const noexcept { return path_; }
  bool has_mounts() const noexcept { return !mounts_.empty(); }
  bool has_mount(const std::string& name) const { return mounts_.contains(name); }
  /// The names, in their alphabetical order.
  std::vector<std::string> mounts() const;
  /// The same with ", " between.
  std::string mount_names() const;
  /// "did you mean 'tp4'?" where a name is like that of a mount; else empty.
  std::string near_mount(const std::string& name) const;
  /// All that holds for a mount: its own keys, and of those for all the ones it has not. Without a
  /// name, or those for all if no mount has that name.
  ConfigKeys keys(const std::optional<std::string>& mount) const;

 private:
  std::filesystem::path path_;
  ConfigKeys shared_;
  std::map<std::string, ConfigKeys> mounts_;
};

/// "error", "warning", "info" or "debug", as log-level, verbose and quiet say; empty: none of them
/// is there.
std::string config_log_level(const ConfigKeys& keys);
/// Whether the key is one of these three. They are one setting: a mount that has one of them has
/// none of those for all.
bool is_log_level_key(const std::string& key);

}  // namespace reshardfs
