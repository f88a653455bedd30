// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "base/process/counters.h"
#include "fuse/buffer_pool.h"
#include "fuse/libfuse.h"

namespace reshardfs {

/// Counts one read, from its arrival to its answer. A read that is neither delivered nor failed
/// counts as given up.
class ReadTally {
 public:
  /// @param view of the file.
  explicit ReadTally(ViewNumber view) noexcept : view_(view) { counters().read_began(); }
  ReadTally(ReadTally&& other) noexcept
      : arrived_(other.arrived_), view_(other.view_), open_(std::exchange(other.open_, false)) {}
  ReadTally& operator=(ReadTally&&) = delete;
  ~ReadTally() { failed(EINTR); }

  /// Call this before the program gets the bytes.
  void delivers(std::uint64_t bytes) noexcept {
    if (!std::exchange(open_, false)) return;
    counters().read_delivers(view_, bytes);
    counters().read_done(Clock::now() - arrived_);
  }
  /// Call this before the program gets the errno.
  void failed(int error) noexcept {
    if (std::exchange(open_, false)) counters().read_failed(error, Clock::now() - arrived_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point arrived_ = Clock::now();
  ViewNumber view_;
  bool open_ = true;
};

/// The answer to a request. The operation makes it, on any thread, and the thread with the right to
/// answer sends it. A reply that is not sent only undoes what it would have reported.
class Reply {
 public:
  /// @param error an errno; 0: done.
  static Reply error(int error) { return Reply(Error{error}); }
  /// The bytes of a file. The tally ends with them.
  static Reply bytes(BufferPool::Lease lease, ReadTally tally) {
    return Reply(Bytes{std::move(lease), std::move(tally)});
  }
  /// Nothing of a file: its end.
  static Reply end_of_file(ReadTally tally) { return Reply(EndOfFile{std::move(tally)}); }
  /// A listing, or an attribute's value.
  static Reply data(std::string data) { return Reply(Data{std::move(data)}); }
  /// How many bytes an attribute's value has, or all their names.
  static Reply data_size(std::size_t bytes) { return Reply(DataSize{bytes}); }
  static Reply entry(const fuse_entry_param& entry) { return Reply(entry); }
  /// @param seconds for how long the kernel may keep them.
  static Reply attributes(const struct stat& stat, double seconds) {
    return Reply(Attributes{stat, seconds});
  }
  static Reply link(std::string target) { return Reply(Link{std::move(target)}); }
  static Reply statistics(const struct statvfs& statistics) { return Reply(statistics); }
  /// What became of an opening.
  enum class Outcome : std::uint8_t {
    kOpen,
    kWasOpen,  ///< told after kOpen: a process before this one has noted it, too
    kNot,      ///< the kernel has not heard of it, or has no use for it any more, and will not ask
               ///< to close it
  };
  /// @param tree of which it is, for the table of openings.
  /// @param settle is told once. Must not throw.
  static Reply opened(const fuse_file_info& info, std::uint64_t tree,
                      std::function<void(Outcome)> settle) {
    return Reply(Opened{info, tree, Settling(std::move(settle))});
  }

  /// Answers the request, once.
  // NOLINTNEXTLINE(bugprone-exception-escape): value_ is never without a value
  void send(fuse_req_t request) noexcept;

 private:
  struct Error {
    int number;
  };
  struct Bytes {
    BufferPool::Lease lease;
    ReadTally tally;
  };
  struct EndOfFile {
    ReadTally tally;
  };
  struct Data {
    std::string data;
  };
  struct DataSize {
    std::size_t bytes;
  };
  struct Attributes {
    struct stat stat;
    double seconds;
  };
  struct Link {
    std::string target;
  };
  class Settling {
   public:
    explicit Settling(std::function<void(Outcome)> settle) : settle_(std::move(settle)) {}
    Settling(Settling&& other) noexcept : settle_(std::exchange(other.settle_, nullptr)) {}
    Settling& operator=(Settling&&) = delete;
    ~Settling() {
      if (settle_ && !settled_) settle_(Outcome::kNot);
    }
    void settle(Outcome outcome) noexcept {
      settled_ = true;
      settle_(outcome);
    }

   private:
    bool settled_ = false;
    std::function<void(Outcome)> settle_;
  };
  struct Opened {
    fuse_file_info info;
    std::uint64_t tree;
    Settling settling;
  };
  using Value = std::variant<Error, Bytes, EndOfFile, Data, DataSize, fuse_entry_param, Attributes,
                             Link, struct statvfs, Opened>;

  explicit Reply(Value&& value) : value_(std::move(value)) {}

  static void send(fuse_req_t request, const Error& error) noexcept;
  static void send(fuse_req_t request, Bytes& bytes) noexcept;
  static void send(fuse_req_t request, EndOfFile& end) noexcept;
  static void send(fuse_req_t request, const Data& data) noexcept;
  static void send(fuse_req_t request, const DataSize& size) noexcept;
  static void send(fuse_req_t request, const fuse_entry_param& entry) noexcept;
  static void send(fuse_req_t request, const Attributes& attributes) noexcept;
  static void send(fuse_req_t request, const Link& link) noexcept;
  static void send(fuse_req_t request, const struct statvfs& statistics) noexcept;
  static void send(fuse_req_t request, Opened& opened) noexcept;

  Value value_;
};

}  // namespace reshardfs
