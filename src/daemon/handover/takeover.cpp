// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/takeover.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <exception>
#include <utility>

#include "reshardfs/error.h"

#include "base/version.h"
#include "daemon/process/caller.h"
#include "fuse/mounting/unmount.h"

namespace reshardfs {
namespace {

/// The other process answers from memory.
constexpr std::chrono::seconds kAnswerPatience{30};

Error gone() {
  return Error(ErrorKind::kIo, "the process that served the mount has gone, or keeps it");
}

HandoverMessage next(const HandoverSocket& socket, HandoverStep step, std::size_t descriptors) {
  auto message = socket.receive(kAnswerPatience);
  if (!message) throw gone();
  if (message->step == HandoverStep::kFailed) throw Error(ErrorKind::kUnsupported, message->text);
  if (message->step != step || message->descriptors.size() < descriptors) {
    throw Error(ErrorKind::kIo, "the process that serves the mount hands over something else");
  }
  return std::move(*message);
}

std::int64_t milliseconds_since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

Takeover::Takeover(Descriptor socket) : socket_(std::move(socket)) {
  // Processes that this one starts must not inherit it.
  static_cast<void>(::fcntl(socket_->get(), F_SETFD, FD_CLOEXEC));
  socket_->send({.step = HandoverStep::kHello, .versions = handover_versions(), .text = kVersion});
  HandoverMessage offer = next(*socket_, HandoverStep::kOffer, 1);
  after_crash_ = offer.after_crash;
  record_.emplace(std::move(offer.descriptors.front()));
  replace_ = offer.replace;
  if (offer.descriptors.size() > 1) names_.emplace(std::move(offer.descriptors[1]));
  read_state();
}

Takeover::Takeover(MountDescriptors kept) : kept_(std::move(kept)), after_crash_(true) {
  record_.emplace(std::move(kept_->state));
  read_state();
}

void Takeover::read_state() {
  constexpr std::int64_t kMinute = 60'000;
  state_ = decode_state(record_->read());
  openings_.emplace(record_->openings());
  ++state_.processes;
  MountRecord& record = state_.record;
  record.last_at = static_cast<std::int64_t>(std::time(nullptr));
  record.last_program = state_.program;
  if (!after_crash_) {
    ++record.upgrades;
    ++record.reloads;
    return;
  }
  record.requests.forget_unanswered();
  ++record.crashes;
  std::vector<std::int64_t>& times = record.crash_times_ms;
  const std::int64_t now = milliseconds_since_boot();
  std::erase_if(times, [now](std::int64_t time) { return time < now - kMinute; });
  times.push_back(now);
  // At once: this process may crash, too.
  record_->write(encode(state_));
}

std::vector<KnownName> Takeover::names() const {
  return names_ ? decode_names(names_->read()) : std::vector<KnownName>();
}

void Takeover::show(std::vector<MountedTree> trees, bool is_new, bool replaced) {
  state_.trees = std::move(trees);
  state_.is_new = is_new;
  if (replaced) ++state_.record.replaced;
}

MountDescriptors Takeover::take() {
  is_taken_ = true;
  if (!socket_) return std::move(*kept_);
  // From here on, the socket shows when the other process ends.
  outlive_parent();
  socket_->send({.step = HandoverStep::kReady});
  HandoverMessage mount = next(*socket_, HandoverStep::kMount, 2);
  if (!after_crash_) {
    // With those that the other process has taken meanwhile: they are this one's now.
    state_.record.requests = decode_state(record_->read()).record.requests;
    state_.record.requests.grant(replace_);
  }
  // Before the first answer, so that a process that resumes the mount after a crash of this one
  // counts it.
  record_->write(encode(state_));
  MountDescriptors taken;
  const std::array<Descriptor*, kHandedNames.size()> places = {
      &taken.fuse, &taken.requests, &taken.texts, &taken.keeper, &taken.connection};
  std::size_t at = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool comes = mount.text.find(kHandedNames[i]) != std::string::npos;
    if (!comes || at == mount.descriptors.size()) continue;
    *places[i] = std::move(mount.descriptors[at++]);
  }
  return taken;
}

void Takeover::live() noexcept {
  if (socket_) socket_->send({.step = HandoverStep::kLive});
}

void Takeover::wait_for_end() noexcept {
  if (!socket_) return;
  try {
    static_cast<void>(socket_->receive(kAnswerPatience));
  } catch (const std::exception&) {
    // The other process has ended, or sends nothing more.
  }
  socket_.reset();
}

void Takeover::fail(const std::string& why) noexcept {
  if (socket_) {
    socket_->send({.step = HandoverStep::kFailed, .text = why});
    return;
  }
  try {
    const auto mount = state_.mount ? found_again(*state_.mount) : std::nullopt;
    if (mount) detach_mount(mount->mountpoint);
  } catch (const std::exception&) {
    // It may be left there; 'reshardfs umount' takes it away.
  }
}

}  // namespace reshardfs
