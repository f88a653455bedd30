// SPDX-License-Identifier: Apache-2.0
/// Requests that wait for storage, and the programs behind them that may be killed meanwhile.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>

#include "fuse/kill_watch.h"
#include "fuse/libfuse.h"

namespace reshardfs {

/// A request whose answer may take long. The kernel keeps even a killed program until the requests
/// that it waits for are answered: so when that happens, this one is answered at once with EINTR,
/// which nobody sees. A program that has merely got a signal is not answered: few expect EINTR from
/// a file. But from then on it is watched, as it may be killed yet.
///
/// From watch() on there are several that may answer, and the one who is first takes it all:
/// without having claimed it, nobody may touch the request, which libfuse may have freed.
class KillableRequest : public std::enable_shared_from_this<KillableRequest> {
 public:
  using Ptr = std::shared_ptr<KillableRequest>;
  /// Whether a thread (by its number, as fuse_ctx has it) has been killed.
  using IsKilled = bool (*)(pid_t thread) noexcept;

  /// @param kill_watch of the request's session.
  /// @throws std::bad_alloc; then the request is as it was.
  static Ptr watch(fuse_req_t request, IsKilled is_killed, KillWatch& kill_watch);

  KillableRequest(IsKilled is_killed, KillWatch& kill_watch) noexcept
      : is_killed_(is_killed), kill_watch_(kill_watch) {}
  KillableRequest(const KillableRequest&) = delete;
  KillableRequest& operator=(const KillableRequest&) = delete;
  ~KillableRequest() = default;

  /// Asks for the right to answer; nobody may ask again. nullptr: it has been answered.
  fuse_req_t claim() noexcept;
  /// Whether it has been answered, so that there is nothing to do any more.
  bool is_over() const noexcept { return state_ == State::kGivenUp; }
  /// Gives the request up if the program has been killed.
  /// @return whether it is over, or about to be.
  bool is_over_or_given_up() noexcept;

 private:
  enum class State : std::uint8_t {
    kRegistering,
    kInterrupted,  ///< while it was being registered
    kWaiting,
    kClaimed,
    kGivenUp,
  };

  static void interrupted(fuse_req_t request, void* data) noexcept;
  void start(fuse_req_t request) noexcept;
  bool change(State from, State to) noexcept { return state_.compare_exchange_strong(from, to); }

  void give_up() noexcept;

  const IsKilled is_killed_;
  KillWatch& kill_watch_;
  fuse_req_t request_ = nullptr;
  pid_t thread_ = 0;
  std::atomic<State> state_ = State::kRegistering;
};

/// Whether a SIGKILL, or a signal that ends a program like one, is under way to the thread. False
/// if that cannot be found out.
bool is_killed(pid_t thread) noexcept;

/// The same from the text of /proc/<thread>/status.
bool tells_of_kill(const char* status) noexcept;

}  // namespace reshardfs
