// SPDX-License-Identifier: Apache-2.0
/// The program as it was or will be: with other versions of the hand-over, or on a kernel before
/// Linux 6.9. It is told so by a file "stand-in" beside the name by which it is started:
/// "OLDEST NEWEST RESEND", the last one 0 or 1.
#include <linux/fuse.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "daemon/handover/handover_state.h"
#include "fuse/resend.h"

namespace reshardfs {
namespace {

struct StandIn {
  HandoverVersions versions{2, 2};
  bool resends = true;
};

StandIn read_stand_in() {
  StandIn told;
  std::ifstream file(std::filesystem::path(program_invocation_name).parent_path() / "stand-in");
  file >> told.versions.oldest >> told.versions.newest >> told.resends;
  return told;
}

/// What it was told when it was started.
const StandIn& stand_in() {
  static const StandIn told = read_stand_in();
  return told;
}

[[maybe_unused]] const StandIn& at_start = stand_in();

}  // namespace

HandoverVersions handover_versions() noexcept {
  return stand_in().versions;
}

bool resend_requests(int fuse) noexcept {
  if (!stand_in().resends) return false;
  constexpr int kResend = 7;  // FUSE_NOTIFY_RESEND
  fuse_out_header message{};
  message.len = sizeof message;
  message.error = kResend;
  return ::write(fuse, &message, sizeof message) == sizeof message;
}

}  // namespace reshardfs
