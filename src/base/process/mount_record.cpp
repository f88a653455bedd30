// SPDX-License-Identifier: Apache-2.0
#include "base/process/mount_record.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "base/process/process_state.h"

namespace reshardfs {
namespace {

MountRecord record_of_process;  // read and written under a ForkLock

std::atomic<bool> telling_kernel = false;

}  // namespace

MountRecord mount_record() {
  const ForkLock lock;
  return record_of_process;
}

void set_mount_record(MountRecord record) {
  const ForkLock lock;
  std::swap(record_of_process, record);
}

bool is_telling_kernel() {
  return telling_kernel;
}

void set_telling_kernel(bool telling) {
  telling_kernel = telling;
}

std::string mount_metrics() {
  const MountRecord record = mount_record();
  return fmt::format(
      "# HELP reshardfs_upgrades_total Times that another process has taken the mount over.\n"
      "# TYPE reshardfs_upgrades_total counter\n"
      "reshardfs_upgrades_total {}\n"
      "# HELP reshardfs_crash_restarts_total Times that the mount went on after a crash.\n"
      "# TYPE reshardfs_crash_restarts_total counter\n"
      "reshardfs_crash_restarts_total {}\n"
      "# HELP reshardfs_replacements_total Times that other contents were shown in the same "
      "mount.\n"
      "# TYPE reshardfs_replacements_total counter\n"
      "reshardfs_replacements_total {}\n"
      "# HELP reshardfs_reloads_total Attempts to hand the mount over, failed ones too.\n"
      "# TYPE reshardfs_reloads_total counter\n"
      "reshardfs_reloads_total {}\n",
      record.upgrades, record.crashes, record.replaced, record.reloads);
}

}  // namespace reshardfs
