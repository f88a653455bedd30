// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/json/json_copy.h"
#include "base/text/shell_text.h"
#include "cli/app.h"
#include "cli/command.h"
#include "daemon/status/mount_status.h"
#include "report/text/json_output.h"
#include "report/text/terminal.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

const char* state_name(const MountStatus& status) {
  const bool changed = status.state == MountState::kLive && !status.changed_file.empty();
  return changed ? "source changed" : name_of(status.state);
}

/// "; 2 upgrades, 1 crash, last 5 min ago, reshardfs 0.1.0": what has become of a mount, if
/// anything.
std::string handover_text(const JsonValue& mount) {
  const std::uint64_t upgrades = mount["upgrades"].count();
  const std::uint64_t crashes = mount["crash_restarts"].count();
  const std::uint64_t replaced = mount["replacements"].count();
  if (upgrades + crashes == 0) return "";
  const auto ago = static_cast<std::uint64_t>(std::time(nullptr)) - mount["handed_over_at"].count();
  const auto version = mount["version"].text();
  const std::string contents =
      replaced == 0 ? "" : fmt::format(" ({} with other contents)", replaced);
  return fmt::format("; {}{}, {}, last {} ago, version {}", counted(upgrades, "upgrade"), contents,
                     crashes == 1 ? "1 crash" : std::to_string(crashes) + " crashes",
                     duration_text(ago), version ? printable(std::string(*version)) : "unknown");
}

std::string state_text(const MountStatus& status) {
  switch (status.state) {
    case MountState::kLive:
      if (!status.changed_file.empty()) return "source changed: " + printable(status.changed_file);
      return "live" + handover_text(status.json.value()["mount"]);
    case MountState::kDead:
      return "dead: " + command_line("umount", {status.mount.mountpoint});
    case MountState::kStalled:
      return "stalled: it does not answer";
    case MountState::kUnreadable:
      break;
  }
  return status.error == 0 ? "unreadable status: it is not one of reshardfs"
                           : std::string("cannot be asked: ") + std::strerror(status.error);
}

bool is_foreign(const MountStatus& status) {
  return is_foreign(status.state, status.error);
}

/// The last part of a path, which is what tells strategies apart; other texts as they are.
std::string strategy_text(const JsonValue& json, const char* key) {
  const auto text = json[key].text();
  if (!text) return "none";
  const std::filesystem::path path = *text;
  return printable(path.is_absolute() ? path.filename().string() : path.string());
}

std::string number_text(const JsonValue& json, const char* key) {
  const auto number = json[key].unsigned_integer();
  return number ? std::to_string(*number) : "-";
}

std::uint64_t error_count(const JsonValue& activity) {
  std::uint64_t count = 0;
  for (const JsonValue value : activity["read_errors"]) count += value.count();
  return count;
}

/// The kernel knows only what was mounted first.
std::string source_text(const MountStatus& status) {
  return printable(std::string(status.json.value()["source"].text().value_or(status.mount.source)));
}

std::vector<std::string> row(const MountStatus& status) {
  const JsonValue json = status.json.value();
  std::vector<std::string> cells{printable(status.mount.mountpoint), source_text(status)};
  if (status.state == MountState::kLive) {
    const JsonValue activity = json["activity"];
    cells.insert(cells.end(), {fmt::format("{} -> {}", strategy_text(json, "src_strategy"),
                                           strategy_text(json, "dst_strategy")),
                               number_text(json, "shown_ranks"), number_text(json, "pid"),
                               duration_text(json["uptime_seconds"].count()),
                               human_bytes(activity["bytes_delivered"].count()),
                               std::to_string(error_count(activity))});
  } else {
    cells.insert(cells.end(), {"-", "-", "-", "-", "-", "-"});
  }
  cells.push_back(state_text(status));
  return cells;
}

/// The same as a row, in lines of at most `columns` where its paths allow it.
std::string block(const MountStatus& status, std::size_t columns) {
  const std::vector<std::string> cells = row(status);
  std::string out = cells[0] + "  " + cells.back() + "\n";
  out += wrapped("    source " + cells[1], columns, 4) + "\n";
  if (status.state != MountState::kLive) return out;
  const std::string text =
      fmt::format("    {}, {}, process {}, up {}, {} read, {}", cells[2],
                  cells[3] == "1" ? "1 rank" : cells[3] + " ranks", cells[4], cells[5], cells[6],
                  cells[7] == "1" ? "1 error" : cells[7] + " errors");
  return out + wrapped(text, columns, 4) + "\n";
}

void print_text(const std::vector<MountStatus>& statuses) {
  if (statuses.empty()) {
    std::cout << "no checkpoint is mounted\n";
    return;
  }
  TextTable table(
      {"MOUNTPOINT", "SOURCE", "STRATEGIES", "RANKS", "PID", "UPTIME", "READ", "ERRORS", "STATE"},
      {3, 4, 5, 6, 7});
  std::vector<std::string> foreign;
  for (const MountStatus& status : statuses) {
    if (is_foreign(status) && statuses.size() > 1) {
      foreign.push_back(printable(status.mount.mountpoint));
    } else {
      table.add_row(row(status));
    }
  }
  const std::size_t columns = output_columns();
  if (foreign.size() < statuses.size()) {
    const std::string text = table.str();
    if (widest_line(text) <= columns) {
      std::cout << text;
    } else {
      for (const MountStatus& status : statuses) {
        if (!is_foreign(status)) std::cout << block(status, columns);
      }
    }
  }
  if (foreign.empty()) return;
  std::cout << wrapped(fmt::format("{} of other users, which only they can ask: {}",
                                   counted(foreign.size(), "mount"), fmt::join(foreign, ", ")),
                       columns, 4)
            << "\n";
}

void print_json(const std::vector<MountStatus>& statuses) {
  write_json([&](JsonWriter& json) {
    json.objects("mounts", statuses, [&](const MountStatus& status) {
      json.member("mountpoint", status.mount.mountpoint);
      json.member("source", status.mount.source);
      json.member("state", state_name(status));
      json.key("status");
      JsonReader reader(status.text);
      copy_json(reader, json);
    });
  });
}

/// The one line of a probe.
int tell_readiness(const std::string& mountpoint) {
  require_mount_path(mountpoint);
  const Readiness readiness = mount_readiness(mountpoint);
  std::cout << printable(mountpoint) << ": "
            << (readiness.ready ? "ready" : "not ready: " + readiness.why) << "\n";
  return readiness.ready ? kExitDone : kExitDifference;
}

}  // namespace

int run_status(const Given& given) {
  const std::string mountpoint = given.argument("MOUNTPOINT");
  if (given.flag("ready")) return tell_readiness(mountpoint);
  const auto mounts = given.has_argument("MOUNTPOINT") ? std::vector{bounded_find_mount(mountpoint)}
                                                       : reshardfs_mounts();
  if (given.flag("metrics")) {
    // Success even with dead mounts: the metrics state them, and the collector gets all there is.
    std::cout << mount_metrics(mounts);
    return kExitDone;
  }
  const std::vector<MountStatus> statuses = examined_mounts(mounts);
  if (given.flag("json")) {
    print_json(statuses);
  } else {
    print_text(statuses);
  }
  int code = kExitDone;
  for (const MountStatus& status : statuses) {
    if (status.state == MountState::kDead || status.state == MountState::kStalled ||
        !status.changed_file.empty()) {
      code = kExitDifference;
    }
  }
  return code;
}

}  // namespace reshardfs
