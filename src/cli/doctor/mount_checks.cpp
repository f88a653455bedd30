// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/mount_checks.h"

#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/checkpoint.h"
#include "reshardfs/conversion.h"
#include "reshardfs/error.h"

#include "base/posix/mount_table.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/series/step.h"
#include "cli/doctor/cache_check.h"
#include "cli/doctor/machine_checks.h"
#include "cli/doctor/server_checks.h"
#include "cli/mount_places.h"
#include "cli/words/check_given.h"
#include "cli/words/config_words.h"
#include "cli/words/conversion_words.h"
#include "cli/words/mount_arguments.h"
#include "cli/words/read_words.h"
#include "cli/words/shared_words.h"
#include "daemon/mount_tree.h"
#include "fuse/mounting/mountpoint.h"
#include "fuse/session.h"
#include "storage/local/directory.h"
#include "storage/local/file_system_type.h"
#include "storage/local/unmounted_place.h"
#include "storage/location.h"
#include "storage/near_path.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOptionsCheck = "options";
constexpr const char* kSourceCheck = "source";
constexpr const char* kStrategiesCheck = "strategies";
constexpr const char* kContentsCheck = "contents";
constexpr const char* kMountpointCheck = "mount-point";

bool is_good(const Findings& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.health == Health::kFailed; });
}

void add(Findings& to, Findings more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Opening the cache would make its directories.
Given without_cache(Given given) {
  std::erase_if(given.options,
                [](const GivenOption& use) { return use.option->name == "cache-dir"; });
  return given;
}

Findings source_there(const MountArguments& arguments, bool waits) {
  const fs::path source = absolute_source(arguments.source);
  const std::string shown = printable(source.string());
  if (path_kind(source) != PathKind::kMissing) {
    return {{.name = kSourceCheck,
             .message = shown + (is_far(source) ? " is there, on a network or FUSE file system"
                                                : " is there")}};
  }
  const std::string unmounted = unmounted_place(source);
  std::string remedy = unmounted.empty() ? did_you_mean_path(source) : mount_command(unmounted);
  if (remedy.empty()) remedy = "mount its file system, or correct the path";
  return {{.name = kSourceCheck,
           .health = waits ? Health::kWarning : Health::kFailed,
           .message = shown + ": no such file or directory" +
                      (unmounted.empty() ? "" : "; " + printable(unmounted) + " is not mounted") +
                      (waits ? "; the mount will wait for it" : ""),
           .remedy = remedy}};
}

Findings strategies_read(const Given& given) {
  conversion_options(without_cache(given));
  std::string named;
  for (const char* option : {"src-strategy", "dst-strategy"}) {
    if (!given.has(option)) continue;
    named += fmt::format("{}--{} {}", named.empty() ? "" : ", ", option,
                         printable(shown_location(given.text(option))));
  }
  if (named.empty()) return {skipped(kStrategiesCheck, "none is named")};
  return {{.name = kStrategiesCheck, .message = named}};
}

/// All that a mount checks before it is live.
Findings contents_open(const Given& given) {
  const ConversionOptions options = conversion_options(without_cache(given));
  if (options.source.step == kAllSteps) {
    all_steps_tree(options);
    return {{.name = kContentsCheck, .message = "all complete steps can be shown"}};
  }
  const Conversion conversion = Conversion::open(options);
  conversion_tree(conversion);
  Findings findings{
      {.name = kContentsCheck,
       .message = counted(static_cast<std::size_t>(conversion.rank_count()), "target rank") + ", " +
                  counted(conversion.parameter_count(), "parameter")}};
  for (const std::string& warning : conversion.warnings()) {
    findings.push_back({.name = kContentsCheck, .health = Health::kWarning, .message = warning});
  }
  return findings;
}

Findings place_free(const MountArguments& arguments) {
  const fs::path place = fs::absolute(arguments.mountpoint);
  const std::string shown = printable(place.string());
  if (const auto mount = find_mount(place); mount && is_reshardfs(*mount)) {
    struct statfs info {};
    if (::statfs(place.c_str(), &info) == 0) {
      return {{.name = kMountpointCheck, .message = shown + ": the mount is there, and answers"}};
    }
    return {{.name = kMountpointCheck,
             .health = Health::kFailed,
             .message = shown + ": the process of the mount here has ended",
             .remedy = command_line("umount", {place})}};
  }
  refuse_outputs_inside(arguments);
  refuse_inputs_inside(arguments);
  check_mountpoint(place, absolute_source(arguments.source), arguments.nonempty);
  return {{.name = kMountpointCheck, .message = shown + " can be mounted on"}};
}

/// libfuse knows which words of a mount there are.
void require_known_words(const MountArguments& arguments) {
  MountOptions options;
  options.fuse_options = arguments.fuse_options;
  if (arguments.allow_other) options.fuse_options.emplace_back("allow_other");
  require_known_options(options);
}

Findings what_it_asks_for(const MountArguments& arguments) {
  Findings findings;
  const bool is_root = ::geteuid() == 0;
  if (arguments.allow_other) findings.push_back(check_allow_other(is_root, true));
  if (arguments.passthrough) {
    findings.push_back(check_passthrough(kernel_release(), is_root, true));
  }
  if (!arguments.given.text("dec-key-file").empty()) {
    findings.push_back(check_locked_memory(hard_limit(RLIMIT_MEMLOCK)));
  }
  return findings;
}

Findings source_findings(const MountArguments& arguments, const BoundedChecks& bounded) {
  const std::string shown = shown_location(arguments.source);
  if (is_url(arguments.source)) {
    return check_server(without_cache(arguments.given), arguments.source, bounded);
  }
  const bool waits = arguments.given.has("wait-for-source");
  return bounded.run(kSourceCheck, shown, [&] { return source_there(arguments, waits); });
}

Findings contents_findings(const MountArguments& arguments, const BoundedChecks& bounded) {
  const std::string shown = shown_location(arguments.source);
  const Given& given = arguments.given;
  Findings findings = bounded.run(kStrategiesCheck, shown, [&] { return strategies_read(given); });
  if (!is_good(findings)) {
    findings.push_back(skipped(kContentsCheck, "the strategies cannot be read"));
    return findings;
  }
  add(findings, bounded.run(kContentsCheck, shown, [&] { return contents_open(given); }));
  return findings;
}

}  // namespace

bool is_far(const std::string& source) {
  if (is_url(source)) return true;
  struct statfs info {};
  return ::statfs(source.c_str(), &info) == 0 && is_remote_type(type_of(info));
}

Given read_mount(const std::vector<std::string>& words) {
  Given given = read_words(words);
  add_config_words(given);
  check_given(given);
  return given;
}

Findings check_mount(const std::vector<std::string>& words, const BoundedChecks& bounded) {
  std::optional<MountArguments> arguments;
  // Reading them looks at files, and asks who a user is. Here that has ended before.
  Findings findings = bounded.run(kOptionsCheck, "the options", [&] {
    require_known_words(mount_arguments(read_mount(words)));
    return Findings{{.name = kOptionsCheck, .message = "all options are known"}};
  });
  if (!is_good(findings)) return findings;
  try {
    arguments = mount_arguments(read_mount(words));
  } catch (const Error& error) {
    return {failed(kOptionsCheck, error)};
  }
  Findings source = source_findings(*arguments, bounded);
  // One that is waited for is a warning.
  const bool is_there = is_good(source) && (source.front().name != kSourceCheck ||
                                            source.front().health != Health::kWarning);
  add(findings, std::move(source));
  if (is_there) {
    add(findings, contents_findings(*arguments, bounded));
  } else {
    findings.push_back(skipped(kStrategiesCheck, "the source is not there"));
    findings.push_back(skipped(kContentsCheck, "the source is not there"));
  }
  if (arguments->fuse_socket) {
    findings.push_back(
        skipped(kMountpointCheck, "another program mounts, and hands the mount over"));
  } else {
    add(findings, bounded.run(kMountpointCheck, arguments->mountpoint,
                              [&] { return place_free(*arguments); }));
  }
  if (const std::string cache = arguments->given.text("cache-dir"); !cache.empty()) {
    const std::uint64_t bytes = arguments->given.size("cache-size");
    add(findings, bounded.run("cache-directory", cache, [&] { return check_cache(cache, bytes); }));
  }
  add(findings, what_it_asks_for(*arguments));
  return findings;
}

Findings check_source(const std::string& source, const BoundedChecks& bounded) {
  return bounded.run(kSourceCheck, shown_location(source), [&] {
    const CheckpointContents contents = read_contents({.path = source});
    std::uint64_t bytes = 0;
    for (const CheckpointFile& file : contents.files) bytes += file.bytes;
    return Findings{{.name = kSourceCheck,
                     .message = fmt::format("readable; files: {}, kinds of parameters: {}, {}",
                                            contents.files.size(), contents.parameters.size(),
                                            human_bytes(bytes))}};
  });
}

}  // namespace reshardfs
