// SPDX-License-Identifier: Apache-2.0
#include "base/process/mount_record.h"

#include <atomic>
#include <utility>

#include "base/process/process_state.h"
#include "base/text/metrics_text.h"
#include "base/version.h"

namespace reshardfs {
namespace {

AcrossForks<MountName> name_of_process;

}  // namespace

MountName mount_name() {
  return name_of_process.get();
}

void set_mount_name(MountName name) {
  name_of_process.set(std::move(name));
}

namespace {

AcrossForks<MountRecord> record_of_process;

std::atomic<bool> telling_kernel = false;

}  // namespace

MountRecord mount_record() {
  return record_of_process.get();
}

void set_mount_record(MountRecord record) {
  record_of_process.set(std::move(record));
}

bool is_telling_kernel() {
  return telling_kernel;
}

void set_telling_kernel(bool telling) {
  telling_kernel = telling;
}

void write_mount_metrics(MetricsText& text) {
  const MountRecord record = mount_record();
  text.family("build_info", "gauge", "Always 1; the label is the version that serves the mount.");
  text.sample(1, {{"version", kVersion}});
  if (record.mounted_at != 0) {
    text.family("mounted_timestamp_seconds", "gauge",
                "When the mount was made, in seconds since the epoch; hand-overs keep it.");
    text.sample(static_cast<std::uint64_t>(record.mounted_at));
  }
  text.family("upgrades_total", "counter", "Times that another process has taken the mount over.");
  text.sample(record.upgrades);
  text.family("crash_restarts_total", "counter", "Times that the mount went on after a crash.");
  text.sample(record.crashes);
  text.family("replacements_total", "counter",
              "Times that the mount was switched to other contents.");
  text.sample(record.replaced);
  text.family("reloads_total", "counter", "Attempts to hand the mount over, failed ones too.");
  text.sample(record.reloads);
  text.family("reload_refused", "gauge", "Whether the last attempt to hand the mount over failed.");
  text.sample(record.refusal.empty() ? 0 : 1);
}

}  // namespace reshardfs
