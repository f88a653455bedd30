// SPDX-License-Identifier: Apache-2.0
#include "daemon/mount_role.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "daemon/keeping/service_manager.h"
#include "daemon/keeping/supervisor.h"

namespace reshardfs {
namespace {

/// Whether -o or --fuse-option has the word.
bool has_word(const std::vector<std::string>& options, std::string_view word) {
  return std::find(options.begin(), options.end(), word) != options.end();
}

}  // namespace

MountRole::MountRole(MountRoleChoices choices, ProgramStart successor,
                     std::unique_ptr<Takeover> takeover)
    : choices_(std::move(choices)),
      successor_(std::move(successor)),
      takeover_(std::move(takeover)) {
  if (choices_.supervise && choices_.passthrough) {
    throw Error(ErrorKind::kUsage, "--supervise and --passthrough exclude each other")
        .hint("if another process took over, files that the kernel reads itself would return EIO");
  }
  if (choices_.supervise && has_word(choices_.fuse_options, "auto_unmount")) {
    throw Error(ErrorKind::kUsage, "--supervise and auto_unmount exclude each other")
        .hint("the supervisor unmounts by itself if no process can take over");
  }
  by_manager_ = choices_.foreground && has_service_manager() && !choices_.supervise;
  if (by_manager_ && obstacle().empty()) {
    keeper_ = std::make_unique<ServiceManagerKeeper>();
  } else if (choices_.supervise) {
    keeper_ = std::make_unique<SupervisedKeeper>(Descriptor(-1));
  }
}

bool MountRole::wants_supervisor() const noexcept {
  return choices_.supervise && takeover_ == nullptr;
}

void MountRole::supervise_by(Descriptor connection) {
  keeper_->take_connection(std::move(connection));
}

std::string MountRole::obstacle() const {
  if (choices_.passthrough) {
    return "with --passthrough a mount cannot be handed over: files that the kernel reads itself "
           "would be answered with EIO";
  }
  if (has_word(choices_.fuse_options, "auto_unmount")) {
    return "with auto_unmount a mount cannot be handed over: it ends with its first process";
  }
  return "";
}

HandoverOptions MountRole::options() const {
  if (takeover_) {
    const auto& crashes = takeover_->state().record.crash_times_ms;
    if (by_manager_ && takeover_->after_crash() && crashes.size() > choices_.crash_limit) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("the process of the mount has crashed {} times within a minute",
                              crashes.size()))
          .in_file(takeover_->state().mountpoint);
    }
  }
  HandoverOptions options;
  options.successor = successor_;
  options.obstacle = obstacle();
  options.takeover = takeover_.get();
  options.keeper = keeper_.get();
  if (!by_manager_) {
    // The program's parent waits for its end if it runs in the foreground.
    if (choices_.foreground && !choices_.supervise && !takeover_) {
      options.after_hand_over = [](const WakePipe& events) {
        std::_Exit(wait_for_successors(events));
      };
    }
    return options;
  }
  // The manager would not listen to a process that is not the main one yet.
  options.is_kept = takeover_ != nullptr;
  options.on_reload = [] { notify_service_manager("RELOADING=1"); };
  options.on_refusal = [] { notify_service_manager("READY=1"); };
  options.on_successor = [](pid_t process) {
    notify_service_manager("MAINPID=" + std::to_string(process));
  };
  return options;
}

void MountRole::fail(const std::string& why) const noexcept {
  if (!takeover_) return;
  // First: what is kept of a mount that is taken away keeps its connection alive.
  if (by_manager_ && takeover_->after_crash() && keeper_) keeper_->release();
  takeover_->fail(why);
}

}  // namespace reshardfs
