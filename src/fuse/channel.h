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

/// The agreement of the kernel and libfuse at the beginning of the mount, as the original bytes.
struct Negotiation {
  std::string request;  ///< INIT
  std::string reply;

  bool is_done() const noexcept { return !reply.empty(); }
};

/// A layer between libfuse and /dev/fuse. It keeps what another process needs to take over the
/// mount, and can hold back all answers while that process does.
class Channel {
 public:
  /// While it exists and is_open(), an answer may be sent, and actions that belong to the answer
  /// are atomic with it. A thread may nest several.
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

  /// Connects the session, whose user data is a ServedTree, with `device`.
  /// @throws Error kIo
  void connect(fuse_session* session, int device);
  /// Uses this table instead of its own. Call this before the first request. @throws Error kIo
  void use_table(Descriptor memory);
  RequestTable& table() noexcept { return *table_; }

  /// Makes the session repeat an earlier agreement with the kernel, without telling the kernel.
  /// @return the differences from a new agreement; empty: none.
  std::string replay(fuse_session* session, const Negotiation& before);
  /// Valid after INIT has been answered.
  const Negotiation& negotiation() const noexcept { return negotiation_; }

  /// Returns when no answer is being sent. Later answers are dropped: libfuse gets the error that
  /// the request no longer exists.
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
