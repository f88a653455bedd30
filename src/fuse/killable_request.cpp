// SPDX-License-Identifier: Apache-2.0
#include "fuse/killable_request.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace reshardfs {

KillableRequest::Ptr KillableRequest::watch(fuse_req_t request, IsKilled is_killed,
                                            KillWatch& kill_watch) {
  auto watched = std::make_shared<KillableRequest>(is_killed, kill_watch);
  watched->start(request);
  return watched;
}

void KillableRequest::start(fuse_req_t request) noexcept {
  request_ = request;
  thread_ = fuse_req_ctx(request)->pid;
  // If the interrupt has come already, libfuse calls interrupted() right here, with the request's
  // lock held: an answer would then free that lock under libfuse. So it is only noted, and followed
  // afterwards.
  fuse_req_interrupt_func(request, interrupted, this);
  if (change(State::kRegistering, State::kWaiting)) return;
  // The kernel interrupts a request once, so nobody else is at it now.
  if (!is_killed_(thread_)) {
    state_ = State::kWaiting;
    kill_watch_.add(weak_from_this());
    return;
  }
  state_ = State::kGivenUp;
  give_up();
}

/// For whoever has made the state kGivenUp, but not from interrupted().
void KillableRequest::give_up() noexcept {
  // Waits for an interrupted() that another thread may still be in.
  fuse_req_interrupt_func(request_, nullptr, nullptr);
  fuse_reply_err(request_, EINTR);
}

bool KillableRequest::is_over_or_given_up() noexcept {
  if (state_ != State::kWaiting) return true;
  if (!is_killed_(thread_)) return false;
  if (change(State::kWaiting, State::kGivenUp)) give_up();
  return true;
}

void KillableRequest::interrupted(fuse_req_t request, void* data) noexcept {
  auto& self = *static_cast<KillableRequest*>(data);
  if (self.change(State::kRegistering, State::kInterrupted)) return;
  if (!self.is_killed_(self.thread_)) {
    self.kill_watch_.add(self.weak_from_this());
    return;
  }
  // Once it is given up, `self` may vanish at any time; `request` is libfuse's until this returns.
  if (self.change(State::kWaiting, State::kGivenUp)) fuse_reply_err(request, EINTR);
}

fuse_req_t KillableRequest::claim() noexcept {
  if (!change(State::kWaiting, State::kClaimed)) return nullptr;
  // Waits for an interrupted() that came second; then there will be no other.
  fuse_req_interrupt_func(request_, nullptr, nullptr);
  return request_;
}

bool tells_of_kill(const char* status) noexcept {
  for (const char* const name : {"\nSigPnd:", "\nShdPnd:"}) {
    const char* const line = std::strstr(status, name);
    if (line == nullptr) continue;
    const unsigned long long signals = std::strtoull(line + std::strlen(name), nullptr, 16);
    if ((signals >> (SIGKILL - 1) & 1) != 0) return true;
  }
  return false;
}

bool is_killed(pid_t thread) noexcept {
  // A thread of another process namespace has number 0.
  if (thread <= 0) return false;
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/status", static_cast<int>(thread));
  const int file = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  // What is looked for stands in the first two KiB, unless the thread has very many groups.
  std::array<char, 8192> text{};
  std::size_t used = 0;
  while (used + 1 < text.size()) {
    const ssize_t got = ::read(file, text.data() + used, text.size() - 1 - used);
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
  }
  ::close(file);
  return tells_of_kill(text.data());
}

}  // namespace reshardfs
