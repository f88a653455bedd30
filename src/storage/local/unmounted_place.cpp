// SPDX-License-Identifier: Apache-2.0
#include "storage/local/unmounted_place.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>

#include <mntent.h>

#include "base/text/file_name.h"
#include "base/text/shell_text.h"

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
  constexpr std::size_t kLine = 1 << 14;
  std::array<char, kLine> line{};
  mntent entry{};
  while (::getmntent_r(list.get(), &entry, line.data(), static_cast<int>(line.size())) != nullptr) {
    visit(without_trailing_slash(fs::path(entry.mnt_dir).lexically_normal()));
  }
}

bool is_below(const fs::path& path, const fs::path& place) {
  return std::mismatch(place.begin(), place.end(), path.begin(), path.end()).first == place.end();
}

}  // namespace

std::string unmounted_place(const fs::path& path, const fs::path& fstab,
                            const fs::path& mounts) noexcept {
  try {
    const fs::path whole = without_trailing_slash(fs::absolute(path).lexically_normal());
    fs::path innermost;
    for_each_mount_point(fstab, [&](const fs::path& place) {
      if (place.is_absolute() && place.has_relative_path() && is_below(whole, place) &&
          place.native().size() > innermost.native().size()) {
        innermost = place;
      }
    });
    bool is_known = false;
    bool is_mounted = false;
    for_each_mount_point(mounts, [&](const fs::path& place) {
      is_known = true;
      is_mounted |= place == innermost;
    });
    return is_known && !is_mounted ? innermost.string() : std::string();
  } catch (const std::exception&) {
    return "";
  }
}

std::string mount_it_first(const fs::path& path) noexcept {
  try {
    const std::string place = unmounted_place(path);
    if (place.empty()) return "";
    return "its file system is in /etc/fstab, but not mounted: mount " + shell_word(place);
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace reshardfs
