// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/mount_options.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>

#include "reshardfs/error.h"

#include "base/text/url_path.h"
#include "storage/local/file_system_type.h"

namespace reshardfs {
namespace {

constexpr std::string_view kAlways = "ro,nosuid,nodev,default_permissions,subtype=reshardfs";

/// Words that would undo a promise, or that name what reshardfs names itself.
void check_word(const std::string& word) {
  constexpr std::array<std::string_view, 3> kForbidden = {"rw", "suid", "dev"};
  constexpr std::array<std::string_view, 2> kOwn = {"fsname=", "subtype="};
  const bool forbidden =
      std::any_of(kForbidden.begin(), kForbidden.end(), [&](auto w) { return word == w; }) ||
      std::any_of(kOwn.begin(), kOwn.end(), [&](auto w) { return word.starts_with(w); });
  if (forbidden || word.empty()) {
    throw Error(ErrorKind::kUsage, "mount option '" + printable(word) + "' cannot be used")
        .hint("a mount is always " + std::string(kAlways));
  }
}

}  // namespace

std::string escape_option_value(std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\\' || c == ',') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string mount_words(const MountOptions& options) {
  std::string words;
  for (const std::string& word : options.fuse_options) {
    check_word(word);
    words += escape_option_value(word) + ",";
  }
  const std::string source = options.source_name.empty() ? "reshardfs" : options.source_name;
  return words + std::string(kAlways) + ",fsname=" + escape_option_value(source);
}

namespace {

constexpr unsigned kLocalKib = 1024;
constexpr unsigned kRemoteKib = 4096;

}  // namespace

unsigned read_ahead_for(const std::filesystem::path& source) noexcept {
  if (is_url(source)) return kRemoteKib;
  struct statfs info {};  // stays without a type if it cannot be examined
  ::statfs(source.c_str(), &info);
  return is_remote_type(type_of(info)) ? kRemoteKib : kLocalKib;
}

}  // namespace reshardfs
