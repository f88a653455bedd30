// SPDX-License-Identifier: Apache-2.0
/// The kernel's end of a FUSE connection, for tests without a mount.
#pragma once

#include <linux/fuse.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "fuse/libfuse.h"
#include "protocol/bodies.h"

namespace reshardfs::test {

using testing_protocol::as;
using testing_protocol::bytes_of;

struct KernelAnswer {
  std::uint64_t unique = 0;
  int error = 0;      ///< an errno, positive
  std::string body;   ///< behind the header
  std::string whole;  ///< with the header
};

class FakeKernel {
 public:
  FakeKernel() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    kernel_ = Descriptor(ends[0]);
    device_ = Descriptor(ends[1]);
  }

  /// The daemon's end. libfuse closes what it gets.
  int device() const { return ::dup(device_.get()); }

  std::string request(std::uint32_t opcode, std::uint64_t node, std::string_view body = {}) {
    fuse_in_header header{};
    header.len = static_cast<std::uint32_t>(sizeof header + body.size());
    header.opcode = opcode;
    header.unique = unique_ += 2;
    header.nodeid = node;
    header.pid = static_cast<std::uint32_t>(::getpid());
    return bytes_of(header) + std::string(body);
  }
  static std::string init(std::uint32_t flags = 0, std::uint32_t flags2 = 0) {
    fuse_init_in in{};
    in.major = FUSE_KERNEL_VERSION;
    in.minor = FUSE_KERNEL_MINOR_VERSION;
    in.max_readahead = 1U << 17U;
    in.flags = flags;
    in.flags2 = flags2;
    return bytes_of(in);
  }

  void send(std::string_view bytes) {
    EXPECT_EQ(::send(kernel_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  /// The number of the next request.
  std::uint64_t next_unique() const noexcept { return unique_ + 2; }
  /// @return the request's number.
  std::uint64_t ask(std::uint32_t opcode, std::uint64_t node, std::string_view body = {}) {
    send(request(opcode, node, body));
    return unique_;
  }

  /// Waits for it.
  KernelAnswer answer() {
    std::string whole(std::size_t{1} << 17U, '\0');
    const ssize_t got = ::recv(kernel_.get(), whole.data(), whole.size(), 0);
    if (got < static_cast<ssize_t>(sizeof(fuse_out_header))) {
      ADD_FAILURE() << "no answer";
      return {};
    }
    whole.resize(static_cast<std::size_t>(got));
    const auto header = as<fuse_out_header>(whole);
    EXPECT_EQ(header.len, whole.size());
    return {header.unique, -header.error, whole.substr(sizeof header), whole};
  }
  bool has_answer() const {
    char byte = 0;
    return ::recv(kernel_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
  }

 private:
  Descriptor kernel_;
  Descriptor device_;
  std::uint64_t unique_ = 0;
};

/// A session of libfuse without a mount.
class BareSession {
 public:
  BareSession(const fuse_lowlevel_ops& operations, void* served) {
    fuse_args arguments{.argc = 0, .argv = nullptr, .allocated = 0};
    fuse_opt_add_arg(&arguments, "reshardfs");
    session_ = fuse_session_new(&arguments, &operations, sizeof operations, served);
    fuse_opt_free_args(&arguments);
    EXPECT_NE(session_, nullptr);
  }
  BareSession(const BareSession&) = delete;
  BareSession& operator=(const BareSession&) = delete;
  ~BareSession() { fuse_session_destroy(session_); }

  fuse_session* get() const { return session_; }

  /// Without a channel. @param device taken over
  void connect(int device) {
    fuse_custom_io io{};
    io.read = [](int from, void* buffer, std::size_t size, void*) {
      return ::read(from, buffer, size);
    };
    io.writev = [](int to, iovec* pieces, int count, void*) { return ::writev(to, pieces, count); };
    EXPECT_EQ(fuse_session_custom_io(session_, &io, device), 0);
  }
  /// Takes the next request and answers it on this thread.
  void process_one() {
    fuse_buf buffer{};
    EXPECT_GT(fuse_session_receive_buf(session_, &buffer), 0);
    fuse_session_process_buf(session_, &buffer);
    std::free(buffer.mem);
  }

 private:
  fuse_session* session_ = nullptr;
};

}  // namespace reshardfs::test
