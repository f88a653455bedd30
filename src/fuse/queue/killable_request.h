// SPDX-License-Identifier: Apache-2.0
/// Requests that wait for storage, and the programs behind them that may be killed meanwhile.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "fuse/libfuse.h"
#include "fuse/queue/asker.h"

namespace reshardfs {

/// A request whose answer may take long. The kernel keeps even a killed program until its requests
/// are answered. So if its program is killed, the request is answered at once with EINTR, which the
/// program never sees. Other signals do not end the request, because few programs expect EINTR from
/// a file. The kernel reports only the first signal, and none if a program reads directly
/// (O_DIRECT). So the code that holds waiting requests must also check their programs from time to
/// time.
///
/// From watch() on, several threads may want to answer. Only the thread that claims the request may
/// use it; for all others, libfuse may have freed it.
class KillableRequest {
 public:
  using Ptr = std::shared_ptr<KillableRequest>;
  /// Whether a thread (by its number, as fuse_ctx has it) has been killed.
  using IsKilled = bool (*)(pid_t thread) noexcept;

  /// @throws std::bad_alloc; then the request is unchanged.
  static Ptr watch(fuse_req_t request, IsKilled is_killed, const Asked& asked);

  KillableRequest(IsKilled is_killed, const Asked& asked) noexcept
      : asked_(asked), is_killed_(is_killed) {}
  KillableRequest(const KillableRequest&) = delete;
  KillableRequest& operator=(const KillableRequest&) = delete;
  ~KillableRequest() = default;

  /// Takes the right to answer, once. nullptr: it has been answered.
  fuse_req_t claim() noexcept;
  /// Whether it has been given up, so that its work is no longer needed.
  bool is_over() const noexcept { return state_ == State::kGivenUp; }
  const Asked& asked() const noexcept { return asked_; }
  /// The thread that waits, as fuse_ctx has it.
  pid_t thread() const noexcept { return asked_.asker.thread; }
  bool has_lost_its_program() const noexcept { return is_killed_(thread()); }
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

  const Asked asked_;
  const IsKilled is_killed_;
  fuse_req_t request_ = nullptr;
  std::atomic<State> state_ = State::kRegistering;
};

/// Whether a SIGKILL, or a signal that ends a program like one, is under way to the thread, or the
/// thread is on its way out. False if that cannot be found out.
bool is_killed(pid_t thread) noexcept;

/// The beginning of /proc/<thread>/<name>, ended by a NUL. Files for which the kernel takes no lock
/// of the process's memory, as a page of that may be this mount's: "status", "stat", "cgroup".
/// @return false if it cannot be read, or is empty.
using ProcText = std::array<char, 8192>;
bool read_proc(pid_t thread, const char* name, ProcText& text) noexcept;

/// The first from the text of /proc/<thread>/status, the second from that of /proc/<thread>/stat.
bool tells_of_kill(const char* status) noexcept;
bool tells_of_exit(const char* stat) noexcept;

}  // namespace reshardfs
