// SPDX-License-Identifier: Apache-2.0
/// Requests that wait for storage, and the programs behind them that may be killed meanwhile.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "fuse/libfuse.h"

namespace reshardfs {

/// A request whose answer may take long. The kernel keeps even a killed program until the requests
/// that it waits for are answered: so when that happens, this one is answered at once with EINTR,
/// which nobody sees. A program that has merely got a signal is not answered: few expect EINTR from
/// a file. The kernel tells of the first signal alone, and of none where a program reads directly
/// (O_DIRECT): so whoever holds requests that wait asks for their programs now and then, too.
///
/// From watch() on there are several that may answer, and the one who is first takes it all:
/// without having claimed it, nobody may touch the request, which libfuse may have freed.
class KillableRequest {
 public:
  using Ptr = std::shared_ptr<KillableRequest>;
  /// Whether a thread (by its number, as fuse_ctx has it) has been killed.
  using IsKilled = bool (*)(pid_t thread) noexcept;

  /// @throws std::bad_alloc; then the request is as it was.
  static Ptr watch(fuse_req_t request, IsKilled is_killed);

  explicit KillableRequest(IsKilled is_killed) noexcept : is_killed_(is_killed) {}
  KillableRequest(const KillableRequest&) = delete;
  KillableRequest& operator=(const KillableRequest&) = delete;
  ~KillableRequest() = default;

  /// Asks for the right to answer; nobody may ask again. nullptr: it has been answered.
  fuse_req_t claim() noexcept;
  /// Whether it has been given up, so that there is nothing to do any more.
  bool is_over() const noexcept { return state_ == State::kGivenUp; }
  /// The thread that waits, as fuse_ctx has it.
  pid_t thread() const noexcept { return thread_; }
  bool has_lost_its_program() const noexcept { return is_killed_(thread_); }
  /// Gives the request up, unless it is being answered: the program has been killed.
  void give_up() noexcept;

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

  void answer_given_up() noexcept;

  const IsKilled is_killed_;
  fuse_req_t request_ = nullptr;
  pid_t thread_ = 0;
  std::atomic<State> state_ = State::kRegistering;
};

/// Whether a SIGKILL, or a signal that ends a program like one, is under way to the thread, or the
/// thread is on its way out. False if that cannot be found out.
bool is_killed(pid_t thread) noexcept;

/// The first from the text of /proc/<thread>/status, the second from that of /proc/<thread>/stat.
bool tells_of_kill(const char* status) noexcept;
bool tells_of_exit(const char* stat) noexcept;

}  // namespace reshardfs
