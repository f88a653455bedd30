// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/killable_request.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/text/numbers.h"

namespace reshardfs {

KillableRequest::Ptr KillableRequest::watch(fuse_req_t request, IsKilled is_killed,
                                            const Asked& asked) {
  auto watched = std::make_shared<KillableRequest>(is_killed, asked);
  watched->start(request);
  return watched;
}

void KillableRequest::start(fuse_req_t request) noexcept {
  request_ = request;
  // If the interrupt has come already, libfuse calls interrupted() right here, with the request's
  // lock held: an answer would then free that lock under libfuse. So it is only noted, and followed
  // afterwards.
  fuse_req_interrupt_func(request, interrupted, this);
  if (change(State::kRegistering, State::kWaiting)) return;
  // The kernel interrupts a request once, so no other thread is doing this now.
  if (!has_lost_its_program()) {
    state_ = State::kWaiting;
    return;
  }
  state_ = State::kGivenUp;
  answer_given_up();
}

/// For the thread that has set the state to kGivenUp, but not from interrupted().
void KillableRequest::answer_given_up() noexcept {
  // Waits for an interrupted() that another thread may still be in.
  fuse_req_interrupt_func(request_, nullptr, nullptr);
  fuse_reply_err(request_, EINTR);
}

void KillableRequest::give_up() noexcept {
  if (change(State::kWaiting, State::kGivenUp)) answer_given_up();
}

void KillableRequest::interrupted(fuse_req_t request, void* data) noexcept {
  auto& self = *static_cast<KillableRequest*>(data);
  if (self.change(State::kRegistering, State::kInterrupted)) return;
  if (!self.has_lost_its_program()) return;
  // Once it is given up, `self` may vanish at any time; `request` is libfuse's until this returns.
  if (self.change(State::kWaiting, State::kGivenUp)) fuse_reply_err(request, EINTR);
}

fuse_req_t KillableRequest::claim() noexcept {
  if (!change(State::kWaiting, State::kClaimed)) return nullptr;
  // Waits for an interrupted() that came second; then there will be no other.
  fuse_req_interrupt_func(request_, nullptr, nullptr);
  return request_;
}

namespace {

/// 0 if there is none.
std::uint64_t number_behind_blanks(std::string_view text, int base) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return take_number<std::uint64_t>(text, base).value_or(0);
}

}  // namespace

bool tells_of_kill(const char* status) noexcept {
  constexpr std::array kMasks{"\nSigPnd:", "\nShdPnd:"};
  return std::any_of(kMasks.begin(), kMasks.end(), [status](const char* name) {
    const char* const line = std::strstr(status, name);
    if (line == nullptr) return false;
    return (number_behind_blanks(line + std::strlen(name), 16) >> (SIGKILL - 1) & 1) != 0;
  });
}

bool tells_of_exit(const char* stat) noexcept {
  constexpr std::uint64_t kExiting = 0x4;  // PF_EXITING of the kernel's include/linux/sched.h
  // "number (name) state parent group session terminal its-group flags": the name may hold
  // anything.
  const char* at = std::strrchr(stat, ')');
  for (int field = 0; at != nullptr && field < 7; ++field) at = std::strchr(at + 1, ' ');
  return at != nullptr && (number_behind_blanks(at, 10) & kExiting) != 0;
}

bool read_proc(pid_t thread, const char* name, ProcText& text) noexcept {
  std::array<char, 40> path{};
  static_cast<void>(
      std::snprintf(path.data(), path.size(), "/proc/%d/%s", static_cast<int>(thread), name));
  const int file = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::size_t used = 0;
  while (used + 1 < text.size()) {
    const ssize_t got = ::read(file, text.data() + used, text.size() - 1 - used);
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
  }
  ::close(file);
  text[used] = '\0';
  return used > 0;
}

bool is_killed(pid_t thread) noexcept {
  // A thread of another process namespace has number 0.
  if (thread <= 0) return false;
  // What is looked for stands in the first two KiB, unless the thread has very many groups.
  ProcText text;
  if (read_proc(thread, "status", text) && tells_of_kill(text.data())) return true;
  // A killed program that reads asynchronously waits for its reads on its way out, and there has
  // taken the signal already.
  return read_proc(thread, "stat", text) && tells_of_exit(text.data());
}

}  // namespace reshardfs
