// SPDX-License-Identifier: Apache-2.0
#include "cli/systemd_generator.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "reshardfs/error.h"

#include "cli/app.h"
#include "cli/words/config_file.h"
#include "cli/words/config_words.h"
#include "cli/write_file.h"

namespace reshardfs {
namespace {

constexpr const char* kGeneratorName = "reshardfs-generator";
constexpr const char* kConfig = "/etc/reshardfs.toml";
/// Keys whose values may be paths that a mount reads.
constexpr std::array<const char*, 3> kPathKeys{ConfigFile::kSource, "src-strategy", "dst-strategy"};

/// Whether a unit can have the name as its instance.
bool is_instance(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char letter) {
    return std::isalnum(letter) != 0 ||
           std::string_view(":-_.\\@").find(static_cast<char>(letter)) != std::string_view::npos;
  });
}

/// As systemd reads a word. Empty: it cannot be said.
std::string quoted(const std::string& path) {
  std::string out = "\"";
  for (const char letter : path) {
    if (std::iscntrl(static_cast<unsigned char>(letter)) != 0) return "";
    if (letter == '"' || letter == '\\') out += '\\';
    if (letter == '%') out += '%';
    out += letter;
  }
  return out + '"';
}

std::vector<std::string> paths_of(const ConfigKeys& keys) {
  std::vector<std::string> paths;
  for (const char* key : kPathKeys) {
    if (const auto found = keys.find(key); found != keys.end()) {
      paths.insert(paths.end(), found->second.texts.begin(), found->second.texts.end());
    }
  }
  return paths;
}

/// The value of RequiresMountsFor=. What is not an absolute path, or cannot be said there, is left
/// out.
std::string required_mounts(const std::vector<std::string>& paths) {
  std::vector<std::string> words;
  for (const std::string& path : paths) {
    // A service runs in /, but what is not absolute may be sizes, "none" or a URL.
    if (!path.starts_with('/')) continue;
    const std::string word = quoted(path);
    if (!word.empty() && std::find(words.begin(), words.end(), word) == words.end()) {
      words.push_back(word);
    }
  }
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

void write_drop_in(const std::filesystem::path& units, const std::string& name,
                   const std::string& mounts) {
  const std::filesystem::path folder = units / ("reshardfs@" + name + ".service.d");
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw io_error("create", folder, failed.value());
  write_file(folder / "source.conf",
             "# Written by reshardfs-generator: what /etc/reshardfs.toml "
             "names.\n[Unit]\nRequiresMountsFor=" +
                 mounts + "\n",
             true);
}

}  // namespace

bool run_systemd_generator(const std::string& program, const std::vector<std::string>& arguments) {
  if (std::filesystem::path(program).filename() != kGeneratorName) return false;
  if (arguments.empty()) {
    throw Error(ErrorKind::kUsage, "the directory for units is missing")
        .hint("this is a generator of systemd, which runs it");
  }
  const std::filesystem::path config = arguments.size() > 3 ? arguments[3] : kConfig;
  // A pipe would be waited for.
  if (std::error_code failed; !std::filesystem::is_regular_file(config, failed)) return true;
  try {
    const ConfigFile file(config, names_of_all_options());
    for (const std::string& name : file.mounts()) {
      const std::string mounts = required_mounts(paths_of(file.keys(name)));
      if (is_instance(name) && !mounts.empty()) write_drop_in(arguments.front(), name, mounts);
    }
  } catch (const Error& error) {
    // A generator that fails must not look like a boot that fails.
    complain(error.what());
  }
  return true;
}

}  // namespace reshardfs
