// SPDX-License-Identifier: Apache-2.0
/// The kernel's side of the FUSE protocol, without a kernel: raw requests over a socket that keeps
/// messages apart, as /dev/fuse does.
#pragma once

#include <linux/fuse.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/bodies.h"

namespace reshardfs::testing_protocol {

using Milliseconds = std::chrono::milliseconds;
/// How long a test waits for what must come, so that a busy machine is no failure.
inline constexpr Milliseconds kPatience{60'000};

struct Reply {
  std::uint64_t unique = 0;
  int error = 0;  ///< an errno, or 0
  std::string body;
};

/// Whether the protocol has no answer to it. INTERRUPT may have one: EAGAIN.
bool is_unanswered(std::uint32_t opcode) noexcept;

/// Sends a reply as FakeKernel takes it in: its length, and then its bytes in messages of a size
/// that every user may send.
/// @return whether there is somebody to take it.
bool send_reply(int socket, std::string_view reply);

/// The request whose reply the device refuses (ENOENT), as the kernel does where a program was
/// killed.
std::atomic<std::uint64_t>& refused_reply() noexcept;

/// How many of the next attempts to take a request fail.
std::atomic<unsigned>& failing_receives() noexcept;
/// Their error: ENOMEM, unless a test states another one.
std::atomic<int>& receive_error() noexcept;

/// Sends requests and collects the replies, and holds each reply against what the real kernel
/// demands: otherwise it would refuse it, or misread it. For one thread.
class FakeKernel {
 public:
  /// @param socket SOCK_SEQPACKET; taken over.
  explicit FakeKernel(int socket);
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;
  ~FakeKernel();

  /// The flags that a kernel of 2023 sends with INIT, as far as they concern a read-only mount.
  static std::string init_body(std::uint32_t major = FUSE_KERNEL_VERSION);

  /// @return the number of the request.
  std::uint64_t send(std::uint32_t opcode, std::uint64_t node, std::string_view body = {},
                     pid_t caller = 0);
  /// The number of the next request.
  std::uint64_t next_unique() const noexcept { return last_ + 2; }
  /// The other side may end at any time: @return whether it has taken the message.
  bool send_raw(std::string_view message);
  /// Says that `unique` shall be given up.
  void interrupt(std::uint64_t unique, pid_t caller = 0);
  /// The next request will have been given up when it is answered. It stays out of pending().
  void refuse_next_reply();

  /// A reply that has come or comes within `limit`; each can be taken once.
  std::optional<Reply> wait_for(std::uint64_t unique, Milliseconds limit = kPatience);
  /// Any reply.
  std::optional<Reply> take_any(Milliseconds limit);
  /// send() and wait_for(). @throws std::runtime_error if there is no reply.
  Reply call(std::uint32_t opcode, std::uint64_t node, std::string_view body = {},
             pid_t caller = 0);
  /// The number of a name. @throws std::runtime_error if there is none.
  std::uint64_t lookup(std::uint64_t directory, std::string_view name);

  /// Takes in what comes until no reply is due. @return whether it came to that.
  bool settle(Milliseconds limit = kPatience);
  /// The requests that have no reply, for messages: " 7 (opcode 15) 8 (opcode 3)".
  std::string unanswered() const;
  /// Takes in what has come.
  void drain();
  void close();

  /// Requests that wait for their reply.
  std::size_t pending() const noexcept { return asked_.size(); }
  /// What was wrong with replies, the first few: second ones, or those to nothing; lengths.
  const std::vector<std::string>& problems() const noexcept { return problems_; }
  /// Replies that have come.
  std::uint64_t replies() const noexcept { return replies_; }

 private:
  struct Asked {
    std::uint32_t opcode = 0;
    /// Of what is asked for; nothing if the request is too short to say it.
    std::optional<std::uint32_t> size;
  };

  bool receive(Milliseconds limit);
  void take_in(std::string_view message);
  void problem(const std::string& what);

  int socket_;
  std::uint64_t last_ = 0;
  std::uint64_t replies_ = 0;
  std::map<std::uint64_t, Asked> asked_;
  std::multiset<std::uint64_t> interrupts_;
  std::map<std::uint64_t, Reply> arrived_;
  std::vector<std::string> problems_;
  std::string buffer_;
};

}  // namespace reshardfs::testing_protocol
