// SPDX-License-Identifier: Apache-2.0
#include "cli/words/mount_helper.h"

#include <filesystem>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

constexpr const char* kHelperName = "mount.reshardfs";

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kUsage, what)
      .hint("this is the helper of mount(8): use 'mount -t reshardfs', or 'reshardfs mount'");
}

/// Flags without a value that say nothing to a file system of this kind: -s (tolerate unknown
/// options), -n (no mtab), -r (read-only, which it is).
bool is_ignored_flag(char flag) {
  return flag == 's' || flag == 'n' || flag == 'r';
}

}  // namespace

std::optional<std::vector<std::string>> mount_helper_arguments(
    const std::string& program, const std::vector<std::string>& arguments) {
  if (std::filesystem::path(program).filename() != kHelperName) return std::nullopt;
  std::vector<std::string> out{"mount"};
  std::vector<std::string> places;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.size() < 2 || word[0] != '-') {
      places.push_back(word);
      continue;
    }
    const auto value = [&] {
      if (word.size() > 2) return word.substr(2);
      if (i + 1 == arguments.size()) refuse("'" + printable(word) + "' needs a value");
      return arguments[++i];
    };
    if (word[1] == 'o') {
      out.push_back("-o");
      out.push_back(value());
    } else if (word[1] == 't') {
      static_cast<void>(value());
    } else if (word[1] == 'N' || word[1] == 'w') {
      refuse("'" + printable(word) + "' is not supported");
    } else {
      for (const char flag : word.substr(1)) {
        if (flag == 'v') {
          out.emplace_back("--verbose");
        } else if (flag == 'f') {
          out.emplace_back("--check-only");
        } else if (!is_ignored_flag(flag)) {
          refuse("there is no flag '-" + std::string(1, flag) + "'");
        }
      }
    }
  }
  if (places.size() != 2) refuse("a source and a mount point are needed");
  out.insert(out.end(), {"--", places[0], places[1]});
  return out;
}

}  // namespace reshardfs
