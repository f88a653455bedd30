// SPDX-License-Identifier: Apache-2.0
#include "cli/options/groups.h"
#include "cli/options/value_checks.h"

namespace reshardfs {

using namespace commands;

namespace {

constexpr std::int64_t kMostUnsigned = std::numeric_limits<unsigned>::max();
constexpr std::int64_t kSecondsOfADay = 86400;
constexpr std::int64_t kMostJobs = 1024;

}  // namespace

std::vector<Option> mount_group() {
  return {
      {.name = "foreground", .letter = 'f', .help = "Stay in the foreground", .commands = kMount},
      {.name = "check-only",
       .help = "Run all checks of a mount without mounting",
       .commands = kMount},
      {.name = "wait-for-source",
       .takes = Takes::kText,
       .type = "TIME",
       .help = "Wait this long, e.g. 90s or 10m, until the source and its strategies are there, "
               "complete, and "
               "can be read",
       .check = check_duration,
       .commands = kMount},
      {.name = "nonempty", .help = "Allow a mount point that is not empty", .commands = kMount},
      {.name = "allow-other", .help = "Let other users read the mount", .commands = kMount},
      {.name = "uid",
       .takes = Takes::kText,
       .type = "USER",
       .help = "Owner of the files, by name or number",
       .check = check_user,
       .commands = kMount},
      {.name = "gid",
       .takes = Takes::kText,
       .type = "GROUP",
       .help = "Group of the files, by name or number",
       .check = check_group,
       .commands = kMount},
      {.name = "file-mode",
       .takes = Takes::kText,
       .type = "MODE",
       .help = "Read permissions of files, in octal; other bits are ignored",
       .fallback = "0444",
       .check = check_mode,
       .commands = kMount},
      {.name = "dir-mode",
       .takes = Takes::kText,
       .type = "MODE",
       .help = "Permissions of directories, in octal: a user who may list one may also enter it",
       .fallback = "0555",
       .check = check_mode,
       .commands = kMount},
      {.name = "fuse-socket",
       .takes = Takes::kText,
       .type = "PATH",
       .help = "Serve a mount whose FUSE descriptor another program hands over through this Unix "
               "socket; with listen:PATH, make the socket instead of connecting to it",
       .commands = kMount},
      {.name = "fuse-socket-wait",
       .takes = Takes::kNumber,
       .type = "SECONDS",
       .help = "How long to wait for the descriptor",
       .fallback = "60",
       .least = 1,
       .most = kSecondsOfADay,
       .commands = kMount},
      {.name = "supervise",
       .help = "Keep the mount when its process crashes: a small second process starts another "
               "one, which takes over",
       .commands = kMount},
      {.name = "crash-limit",
       .takes = Takes::kNumber,
       .type = "NUMBER",
       .help = "Crashes within a minute that the mount survives",
       .fallback = "5",
       .least = 0,
       .most = std::numeric_limits<unsigned>::max(),
       .commands = kMount},
      {.name = "fuse-option",
       .takes = Takes::kTexts,
       .type = "TEXT",
       .help = "Mount option to pass to FUSE and the kernel (repeatable)",
       .commands = kMount},
  };
}

std::vector<Option> speed_group() {
  return {
      {.name = "jobs",
       .letter = 'j',
       .takes = Takes::kNumber,
       .type = "UINT",
       .help = "Number of threads; by default, one per processor, or at least 16 for s3://",
       .least = 1,
       .most = kMostJobs,
       .commands = kExport},
      {.name = "jobs",
       .letter = 'j',
       .takes = Takes::kNumber,
       .type = "UINT",
       .help = "Number of threads; by default, one per processor",
       .least = 1,
       .most = kMostJobs,
       .commands = kHash},
      {.name = "jobs",
       .letter = 'j',
       .takes = Takes::kNumber,
       .type = "NUMBER",
       .help = "Number of threads; 0 to choose one for this machine",
       .fallback = "0",
       .least = 0,
       .most = kMostJobs,
       .commands = kInspect | kVerify | kDiff | kWarm},
      {.name = "memory",
       .takes = Takes::kSize,
       .type = "SIZE",
       .help = "Memory for all read buffers together",
       .fallback = "256MiB",
       .small_sizes = true,
       .commands = kExport},
      {.name = "warm",
       .takes = Takes::kTexts,
       .type = "PATH",
       .help = "Once mounted, read this file or directory into the page cache, e.g. rank_3 "
               "(repeatable)",
       .check = check_path_in_mount,
       .excludes = {"direct-io", "check-only"},
       .commands = kMount},
      {.name = "direct-io",
       .help = "Bypass the kernel's page cache: saves memory, slows down small reads, and rules "
               "out shared memory maps",
       .commands = kMount},
      {.name = "read-ahead-kb",
       .takes = Takes::kNumber,
       .type = "KIB",
       .help =
           "Kernel read-ahead of the mount in KiB; 0 keeps the kernel's default; by default, 1024, "
           "or 4096 if the source is on a network or FUSE file system",
       .least = 0,
       .most = kMostUnsigned,
       .commands = kMount},
      {.name = "passthrough",
       .help = "Let the kernel serve files that equal a source file, without checking for changes "
               "while they are open (root, Linux 6.9)",
       .commands = kMount},
  };
}

std::vector<Option> server_group() {
  std::vector<Option> rows{
      {.name = "s3-endpoint",
       .takes = Takes::kText,
       .type = "URL",
       .help = "S3-compatible store of s3:// URLs; by default, that of $AWS_ENDPOINT_URL_S3, "
               "$AWS_ENDPOINT_URL or the profile, or Amazon's"},
      {.name = "s3-region",
       .takes = Takes::kText,
       .type = "NAME",
       .help = "Region that requests are signed for; by default, that of $AWS_REGION, "
               "$AWS_DEFAULT_REGION or the profile, or us-east-1"},
      {.name = "s3-profile",
       .takes = Takes::kText,
       .type = "NAME",
       .help = "Profile of ~/.aws/credentials and ~/.aws/config to take keys from; by default, "
               "$AWS_PROFILE, or 'default'"},
      {.name = "s3-addressing",
       .takes = Takes::kText,
       .type = "path|host",
       .help = "Where the bucket's name stands in a request: in the path or in the host name; by "
               "default, in the path if there is an endpoint, and otherwise in the host name",
       .choices = {"path", "host"}},
      {.name = "s3-anonymous",
       .help = "Send s3:// requests without a signature, for public buckets"},
      {.name = "ca-file",
       .takes = Takes::kText,
       .type = "FILE",
       .help = "Certificates of the authorities to trust for https, in PEM; by default, those of "
               "$AWS_CA_BUNDLE for S3, and the system's"},
      {.name = "remote-timeout",
       .takes = Takes::kNumber,
       .type = "SECONDS",
       .help = "Time after which a request to a server that keeps failing is an error",
       .fallback = "60",
       .least = 1,
       .most = 3600},
      {.name = "prefetch-memory",
       .takes = Takes::kSize,
       .type = "SIZE",
       .help = "Memory for data that is fetched ahead of readers from servers and slow file "
               "systems, e.g. 64MiB or 1GiB; 0 reads slow file systems like local disks",
       .fallback = "256MiB"},
      {.name = "cache-dir",
       .takes = Takes::kText,
       .type = "DIR",
       .help = "Keep data fetched from servers and network file systems in this directory, for "
               "later reads and other mounts"},
      {.name = "cache-size",
       .takes = Takes::kSize,
       .type = "SIZE",
       .help = "Disk space that the cache may take, e.g. 500GiB; when it is full, the blocks that "
               "were not used for the longest time are removed",
       .fallback = "32GiB"},
  };
  for (Option& row : rows) row.commands = kConversions | kInspect | kVerify | kDiff;
  return rows;
}

std::vector<Option> log_group() {
  constexpr Commands kLogging =
      kConversionPrograms | kInspect | kVerify | kDiff | kMapList | kMapCheck | kMapShow;
  return {
      {.name = "verbose",
       .letter = 'v',
       .help = "Report what was found and chosen",
       .excludes = {"quiet"},
       .commands = kLogging},
      {.name = "quiet", .letter = 'q', .help = "Report errors only", .commands = kLogging},
      {.name = "quiet",
       .letter = 'q',
       .help = "Print neither questions nor the summary",
       .commands = kStrategyGuess},
      {.name = "quiet", .letter = 'q', .help = "Print errors and warnings only", .commands = kWarm},
      {.name = "log-level",
       .takes = Takes::kText,
       .type = "error|warning|info|debug",
       .help = "Log level; -v is info, -q is error",
       .fallback = "warning",
       .choices = {"error", "warning", "info", "debug"},
       .commands = kLogging},
      {.name = "log-format",
       .takes = Takes::kText,
       .type = "text|json",
       .help = "Form of the log's lines: json has one object a line, with the event, the file and "
               "what else is known as fields",
       .fallback = "text",
       .choices = {"text", "json"},
       .commands = kLogging},
      {.name = "log-file",
       .takes = Takes::kText,
       .type = "FILE",
       .help = "Write the log to this file; by default, to standard error, and from the background "
               "to the system log",
       .commands = kLogging},
  };
}

}  // namespace reshardfs
