// SPDX-License-Identifier: Apache-2.0
#include "cli/words/access_arguments.h"

#include <pwd.h>
#include <sys/stat.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <grp.h>

namespace reshardfs {
namespace {

constexpr mode_t kRead = S_IRUSR | S_IRGRP | S_IROTH;
constexpr mode_t kSearch = S_IXUSR | S_IXGRP | S_IXOTH;
constexpr int kOctal = 8;
/// Room for an entry of the user database; entries of directory services can be long.
constexpr std::size_t kEntryBytes = 64 << 10;

std::optional<std::uint32_t> number(const std::string& text, int base) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<std::uint32_t> user_number(const std::string& name) {
  std::vector<char> buffer(kEntryBytes);
  passwd entry{};
  passwd* found = nullptr;
  ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) return {};
  return found->pw_uid;
}

std::optional<std::uint32_t> group_number(const std::string& name) {
  std::vector<char> buffer(kEntryBytes);
  group entry{};
  group* found = nullptr;
  ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) return {};
  return found->gr_gid;
}

using NameLookup = std::optional<std::uint32_t> (*)(const std::string& name);

/// A number, or a name that becomes one. The highest number means "none" to the system.
CLI::Validator identity(const std::string& what, NameLookup lookup) {
  return {[what, lookup](std::string& text) {
            auto id = number(text, 10);
            if (!id) id = lookup(text);
            if (!id || *id == std::numeric_limits<std::uint32_t>::max()) {
              return "there is no " + what + " " + text;
            }
            text = std::to_string(*id);
            return std::string();
          },
          "", what};
}

CLI::Validator octal_mode(mode_t (*meaning)(mode_t)) {
  return {[meaning](std::string& text) {
            constexpr std::uint32_t kPermissions = 0777;
            const auto mode = number(text, kOctal);
            if (!mode || *mode > kPermissions) {
              return text + " is not an octal mode such as 0440";
            }
            text = std::to_string(meaning(*mode));
            return std::string();
          },
          "", "octal mode"};
}

}  // namespace

mode_t file_mode_of(mode_t mode) {
  return mode & kRead;
}

mode_t dir_mode_of(mode_t mode) {
  return (mode & (kRead | kSearch)) | ((mode & kRead) >> 2);
}

void AccessArguments::add_to(CLI::App& command) {
  command.add_option("--uid", uid, "Owner of the files, by name or number")
      ->type_name("USER")
      ->transform(identity("user", user_number))
      ->take_last();
  command.add_option("--gid", gid, "Group of the files, by name or number")
      ->type_name("GROUP")
      ->transform(identity("group", group_number))
      ->take_last();
  command
      .add_option("--file-mode", file_mode,
                  "Read permissions of files, in octal; other bits are ignored")
      ->type_name("MODE")
      ->transform(octal_mode(file_mode_of))
      ->default_str("0444")
      ->take_last();
  command
      .add_option("--dir-mode", dir_mode,
                  "Permissions of directories, in octal: whoever may list one may also enter it")
      ->type_name("MODE")
      ->transform(octal_mode(dir_mode_of))
      ->default_str("0555")
      ->take_last();
}

}  // namespace reshardfs
