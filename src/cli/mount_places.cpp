// SPDX-License-Identifier: Apache-2.0
#include "cli/mount_places.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/process/mount_record.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "checkpoint/recognition.h"
#include "cli/advice/command_text.h"
#include "cli/advice/opened_source.h"
#include "cli/words/kept_opening.h"
#include "fuse/mounting/mountpoint.h"
#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

bool is_found_by_path(const MountArguments& arguments) {
  return !arguments.fuse_socket && !arguments.mountpoint.starts_with("/dev/fd/");
}

void refuse_inside(const MountArguments& arguments, const std::string& option,
                   const std::string& path) {
  const std::string& mountpoint = arguments.mountpoint;
  if (path.empty() || mountpoint.empty() || !is_found_by_path(arguments)) return;
  if (!is_inside(real_path(path), real_path(mountpoint))) return;
  throw Error(ErrorKind::kUsage,
              "lies inside the mount point " + printable(mountpoint) + ", which would hide it")
      .in_file(path)
      .hint(fmt::format("choose a --{} outside", option));
}

}  // namespace

std::string place_of(const MountArguments& arguments) {
  if (!arguments.mountpoint.empty()) return printable(arguments.mountpoint);
  return "the mount of " + printable(arguments.fuse_socket->path);
}

void name_mount(const MountArguments& arguments, const std::filesystem::path& source) {
  std::filesystem::path place = arguments.mountpoint;
  if (place.empty() && arguments.fuse_socket) place = arguments.fuse_socket->path;
  if (!place.empty()) place = std::filesystem::absolute(place);
  set_mount_name({.place = place.native(), .source = shown_location(source)});
}

std::vector<std::filesystem::path> paths_to_warm(const MountArguments& arguments) {
  if (arguments.warm.empty()) return {};
  if (!is_found_by_path(arguments)) {
    throw Error(ErrorKind::kUsage, "--warm needs a mount point that this process finds by its path")
        .hint("run 'reshardfs warm' where the mount is, when it is ready");
  }
  std::vector<std::filesystem::path> paths;
  for (const std::string& path : arguments.warm) {
    paths.push_back(std::filesystem::path(arguments.mountpoint) / path);
  }
  return paths;
}

void require_same_place(const std::string& asked, const HandoverState& state) {
  const std::vector<std::string>& words = state.trees.back().words;
  // The same words are the same mount, whatever was renamed or linked since.
  if (!words.empty() && read_mount_words(words, false).argument("MOUNTPOINT") == asked) return;
  const std::string& mounted = state.mountpoint;
  if (leads_to_mount(asked, mounted)) return;
  throw Error(ErrorKind::kUsage,
              "the mount point is now '" + printable(asked) + "', and a mount cannot move")
      .in_file(mounted)
      .hint("name " + printable(mounted) +
            " again, or unmount it with: " + command_line("umount", {mounted}));
}

void refuse_outputs_inside(const MountArguments& arguments) {
  for (const char* option : {"log-file", "cache-dir"}) {
    refuse_inside(arguments, option, arguments.given.text(option));
  }
}

void refuse_inputs_inside(const MountArguments& arguments) {
  for (const GivenOption& use : arguments.given.options) {
    if (names_path(use)) refuse_inside(arguments, use.option->name, use.text);
  }
}

void refuse_swapped_places(const Given& given) {
  const std::string source = given.argument("SOURCE");
  const std::string mountpoint = given.argument("MOUNTPOINT");
  std::error_code failed;
  const bool is_empty = std::filesystem::is_directory(source, failed) && !failed &&
                        std::filesystem::is_empty(source, failed) && !failed;
  if (!is_empty || !is_checkpoint(mountpoint)) return;
  Given corrected = given;
  std::swap(corrected.arguments[0], corrected.arguments[1]);
  throw Error(ErrorKind::kUsage,
              fmt::format("SOURCE and MOUNTPOINT look swapped: {} is empty and {} is a checkpoint",
                          printable(source), printable(mountpoint)))
      .hint("run: " + command_text(with_known_layout(std::move(corrected), 0, "src-strategy")));
}

}  // namespace reshardfs
