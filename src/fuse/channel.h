// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>

#include "fuse/libfuse.h"
#include "fuse/request_table.h"

namespace reshardfs {

/// What the kernel and libfuse have agreed on when the mount began: bytes as they were.
struct Negotiation {
  std::string request;  ///< INIT
  std::string reply;

  bool is_done() const noexcept { return !reply.empty(); }
};

/// Between libfuse and /dev/fuse: keeps what another process needs to go on with the mount, and can
/// hold back all answers while that process does.
class Channel {
 public:
  /// While it lives and is_open(), an answer may be sent, and what goes with it is done in one
  /// piece with it. One thread may have several inside each other.
  class Pass {
   public:
    explicit Pass(Channel& channel) noexcept;
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass();
    bool is_open() const noexcept;

   private:
    Channel& channel_;
  };

  Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() = default;

  /// Between the session, whose user data is a ServedTree, and `device` from now on.
  /// @throws Error kIo
  void connect(fuse_session* session, int device);
  /// Instead of a table of its own; before the first request. @throws Error kIo
  void use_table(Descriptor memory);
  RequestTable& table() noexcept { return *table_; }

  /// Has the session agree with the kernel on what was agreed before, without telling the kernel.
  /// @return empty, or in what they would now differ.
  std::string replay(fuse_session* session, const Negotiation& before);
  /// Once INIT has been answered.
  const Negotiation& negotiation() const noexcept { return negotiation_; }

  /// Returns when no answer is on its way. From then on none is sent: libfuse is told that nobody
  /// waits for it.
  void close() noexcept;
  void open() noexcept;

 private:
  static ssize_t read(int device, void* buffer, std::size_t size, void* served) noexcept;
  static ssize_t write(int device, iovec* pieces, int count, void* served) noexcept;
  ssize_t receive(int device, void* buffer, std::size_t size) noexcept;
  ssize_t send(int device, const iovec* pieces, int count) noexcept;
  void note_init(const char* request, std::size_t size);

  std::unique_ptr<RequestTable> table_;
  std::shared_mutex answering_;
  bool closed_ = false;  ///< guarded by answering_
  // Of the thread that answers INIT.
  Negotiation negotiation_;
  std::optional<std::uint64_t> init_unique_;  ///< INIT has come, and is not answered
  bool replaying_ = false;
};

}  // namespace reshardfs
