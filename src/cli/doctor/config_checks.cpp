// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/config_checks.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/doctor/mount_checks.h"
#include "cli/words/config_file.h"
#include "cli/words/config_words.h"

namespace reshardfs {
namespace {

constexpr const char* kConfigCheck = "config-file";

Findings file_findings(const ConfigFile& config) {
  const bool is_one_mount = config.keys({}).contains(ConfigFile::kSource);
  if (config.has_mounts()) {
    return {{.name = kConfigCheck, .message = "has the mounts " + config.mount_names()}};
  }
  if (is_one_mount) return {{.name = kConfigCheck, .message = "has one mount without a name"}};
  return {{.name = kConfigCheck,
           .health = Health::kWarning,
           .message = "has options, but no mount with a 'source'",
           .remedy = "add a table [mount.NAME] with 'source' and 'mountpoint'"}};
}

/// Takes the names of tables out of the arguments.
std::vector<std::string> take_names(const ConfigFile& config, std::vector<std::string>& names) {
  std::vector<std::string> taken;
  std::erase_if(names, [&](const std::string& name) {
    if (!config.has_mount(name)) return false;
    taken.push_back(name);
    return true;
  });
  return taken;
}

bool is_bare_word_of_no_file(const std::string& name) {
  std::error_code failed;
  return name.find('/') == std::string::npos &&
         !std::filesystem::exists(std::filesystem::symlink_status(name, failed));
}

}  // namespace

Findings check_config(const std::string& file, std::vector<std::string>& names,
                      const BoundedChecks& bounded) {
  const std::string path = std::filesystem::absolute(file).string();
  const auto read = [&] { return ConfigFile(path, names_of_all_options()); };
  Findings findings =
      about(path, bounded.run(kConfigCheck, path, [&] { return file_findings(read()); }));
  if (findings.front().health != Health::kOk) {
    // Which words are names of its mounts is not known then.
    std::erase_if(names, is_bare_word_of_no_file);
    return findings;
  }
  const ConfigFile config = read();
  const auto add = [&](const std::string& subject, const std::vector<std::string>& words) {
    Findings more = about(subject, check_mount(words, bounded));
    findings.insert(findings.end(), more.begin(), more.end());
  };
  if (!config.has_mounts()) {
    add(path, {"mount", "--config", path});
    return findings;
  }
  std::vector<std::string> chosen = take_names(config, names);
  // A word without a slash that is no table and no file is a table that is misspelt.
  std::erase_if(names, [&](const std::string& name) {
    const bool is_name = is_bare_word_of_no_file(name);
    if (is_name) {
      const std::string near = config.near_mount(name);
      findings.push_back(
          {.name = kConfigCheck,
           .health = Health::kFailed,
           .message = "there is no [mount." + printable(name) + "]",
           .remedy = near.empty() ? "name one of its mounts: " + config.mount_names() : near,
           .subject = path});
    }
    return is_name;
  });
  const bool all = chosen.empty() && findings.size() == 1;
  for (const std::string& name : all ? config.mounts() : chosen) {
    add("mount." + name, {"mount", "--config", path, name});
  }
  return findings;
}

}  // namespace reshardfs
