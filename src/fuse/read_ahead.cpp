// SPDX-License-Identifier: Apache-2.0
#include "fuse/read_ahead.h"

#include <exception>
#include <fstream>
#include <string>

#include <spdlog/spdlog.h>

#include "fuse/mount_table.h"

namespace reshardfs {

void set_read_ahead(const std::filesystem::path& mountpoint, unsigned kib) noexcept {
  try {
    const auto mount = mount_at(mountpoint);
    if (!mount || mount->type != kMountType) return;
    const std::string setting = "/sys/class/bdi/" + mount->device + "/read_ahead_kb";
    std::ofstream file(setting);
    file << kib << std::flush;
    if (!file) {
      spdlog::info(
          "read-ahead is left at the kernel's default; for faster reading, as root: "
          "echo {} > {}",
          kib, setting);
    }
  } catch (const std::exception& error) {
    spdlog::info("read-ahead is left at the kernel's default: {}", error.what());
  }
}

}  // namespace reshardfs
