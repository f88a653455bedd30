// SPDX-License-Identifier: Apache-2.0
#include "cli/words/mount_arguments.h"

#include <sys/stat.h>
#include <unistd.h>

#include "reshardfs/error.h"

#include "cli/options/value_checks.h"
#include "cli/words/check_given.h"
#include "cli/words/read_words.h"
#include "cli/words/shared_words.h"

namespace reshardfs {
namespace {

constexpr mode_t kRead = S_IRUSR | S_IRGRP | S_IROTH;
constexpr mode_t kSearch = S_IXUSR | S_IXGRP | S_IXOTH;

}  // namespace

mode_t file_mode_of(mode_t mode) {
  return mode & kRead;
}

mode_t dir_mode_of(mode_t mode) {
  return (mode & (kRead | kSearch)) | ((mode & kRead) >> 2);
}

MountArguments mount_arguments(const Given& given) {
  MountArguments arguments;
  arguments.given = given;
  arguments.log = log_settings(given);
  arguments.source = given.argument("SOURCE");
  arguments.mountpoint = given.argument("MOUNTPOINT");
  if (given.has("fuse-socket")) {
    arguments.fuse_socket = parse_fuse_socket(given.text("fuse-socket"));
  }
  arguments.fuse_socket_wait = given.number_as<unsigned>("fuse-socket-wait");
  arguments.fuse_options = given.texts("fuse-option");
  arguments.foreground = given.flag("foreground");
  arguments.check_only = given.flag("check-only");
  if (given.has("wait-for-source")) {
    arguments.wait_for_source = duration_of(given.text("wait-for-source"));
  }
  arguments.nonempty = given.flag("nonempty");
  arguments.allow_other = given.flag("allow-other");
  arguments.direct_io = given.flag("direct-io");
  arguments.passthrough = given.flag("passthrough");
  arguments.supervise = given.flag("supervise");
  arguments.crash_limit = given.number_as<unsigned>("crash-limit");
  if (given.has("read-ahead-kb")) {
    arguments.read_ahead_kb = given.number_as<unsigned>("read-ahead-kb");
  }
  arguments.warm = given.texts("warm");
  arguments.uid = given.has("uid") ? user_number(given.text("uid")).value() : ::getuid();
  arguments.gid = given.has("gid") ? group_number(given.text("gid")).value() : ::getgid();
  arguments.file_mode = file_mode_of(octal_mode(given.text("file-mode")).value());
  arguments.dir_mode = dir_mode_of(octal_mode(given.text("dir-mode")).value());
  return arguments;
}

Given read_mount_words(const std::vector<std::string>& words, bool from_file) {
  try {
    Given given = read_words(words);
    check_given(given);
    given.from_file = from_file;
    return given;
  } catch (const Error& error) {
    throw Error(
        ErrorKind::kUnsupported,
        std::string("this version does not take the options of the mount: ") + error.what());
  }
}

}  // namespace reshardfs
