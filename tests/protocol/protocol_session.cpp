// SPDX-License-Identifier: Apache-2.0
#include "protocol/protocol_session.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace reshardfs::testing_protocol {
namespace {

ssize_t read_request(int socket, void* buffer, std::size_t size, void*) {
  unsigned failing = failing_receives();
  while (failing > 0 && !failing_receives().compare_exchange_weak(failing, failing - 1)) {
  }
  if (failing > 0) {
    errno = receive_error();
    return -1;
  }
  const ssize_t got = ::recv(socket, buffer, size, 0);
  if (got == 0 || (got < 0 && errno == ECONNRESET)) {
    errno = ENODEV;  // what /dev/fuse says when the mount is gone
    return -1;
  }
  return got;
}

ssize_t write_reply(int socket, iovec* pieces, int count, void*) {
  fuse_out_header header{};
  std::memcpy(&header, pieces[0].iov_base, sizeof header);
  std::uint64_t refused = header.unique;
  if (refused != 0 && refused_reply().compare_exchange_strong(refused, 0)) {
    errno = ENOENT;
    return -1;
  }
  std::string message;
  for (const iovec& piece : std::span(pieces, static_cast<std::size_t>(count))) {
    message.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  }
  if (!send_reply(socket, message)) {
    errno = ENOENT;  // nobody is there: libfuse says nothing
    return -1;
  }
  return static_cast<ssize_t>(message.size());
}

std::array<int, 2> make_sockets() {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    throw std::runtime_error("socketpair");
  }
  return sockets;
}

}  // namespace

ProtocolSession::ProtocolSession(TreeSource& source, MountOptions options)
    : options_(std::move(options)),
      signals_(events_, Hangup::kEnds),
      served_(source, options_),
      session_(options_, served_) {
  const std::array<int, 2> sockets = make_sockets();
  kernel_ = std::make_unique<FakeKernel>(sockets[0]);
  fuse_custom_io io{};
  io.read = read_request;
  io.writev = write_reply;
  if (fuse_session_custom_io(session_.get(), &io, sockets[1]) != 0) {
    throw std::runtime_error("fuse_session_custom_io");
  }
  served_.passthrough.device = fuse_session_fd(session_.get());
  workers_ = std::make_unique<WorkerThreads>(session_.get(), served_, events_);
  workers_->start();
}

ProtocolSession::~ProtocolSession() {
  kernel_->close();
  if (stop()) return;
  std::fputs("threads of a session do not end\n", stderr);
  std::abort();
}

void ProtocolSession::init() {
  const Reply reply = kernel_->call(FUSE_INIT, 0, FakeKernel::init_body());
  if (reply.error != 0) throw std::runtime_error("INIT was refused");
}

bool ProtocolSession::stop(Milliseconds limit) {
  if (!workers_->stop(limit)) return false;
  served_.storage.stop();
  return true;
}

std::size_t thread_count() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

}  // namespace reshardfs::testing_protocol
