// SPDX-License-Identifier: Apache-2.0
#include "storage/local/unmounted_place.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>

#include <mntent.h>

#include "base/text/file_name.h"
#include "base/text/shell_text.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

struct EndList {
  void operator()(std::FILE* list) const noexcept { ::endmntent(list); }
};

/// Of a list that is not there, none.
void for_each_mount_point(const fs::path& file, const std::function<void(const fs::path&)>& visit) {
  const std::unique_ptr<std::FILE, EndList> list(::setmntent(file.c_str(), "re"));
  if (!list) return;
  std::array<char, 16 << 10> line{};
  mntent entry{};
  while (::getmntent_r(list.get(), &entry, line.data(), static_cast<int>(line.size())) != nullptr) {
    visit(without_trailing_slash(fs::path(entry.mnt_dir).lexically_normal()));
  }
}

}  // namespace

std::string unmounted_place(const fs::path& path, const fs::path& fstab,
                            const fs::path& mounts) noexcept {
  try {
    const fs::path named = without_trailing_slash(fs::absolute(path).lexically_normal());
    const fs::path real = without_trailing_slash(real_path(path));
    fs::path innermost;
    for_each_mount_point(fstab, [&](const fs::path& place) {
      const bool has_it = is_inside_by_name(named, place) || is_inside_by_name(real, place);
      if (has_it && place.has_relative_path() &&
          place.native().size() > innermost.native().size()) {
        innermost = place;
      }
    });
    if (innermost.empty()) return "";
    // Only this one is looked at: another may be on a server that does not answer.
    const fs::path place = without_trailing_slash(real_path(innermost));
    if (!is_inside_by_name(real, place)) return "";
    bool is_known = false;
    bool is_mounted = false;
    for_each_mount_point(mounts, [&](const fs::path& mounted) {
      is_known = true;
      is_mounted |= mounted == place;
    });
    return is_known && !is_mounted ? innermost.string() : std::string();
  } catch (const std::exception&) {
    return "";
  }
}

std::string mount_command(const std::string& place) {
  return (::geteuid() == 0 ? "mount " : "sudo mount ") + shell_word(place);
}

std::string mount_it_first(const fs::path& path) {
  const std::string place = unmounted_place(path);
  if (place.empty()) return "";
  return "its file system is in /etc/fstab, but not mounted: " + mount_command(place);
}

}  // namespace reshardfs
