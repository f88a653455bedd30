// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/fuse_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/posix/descriptor_message.h"
#include "base/posix/poll_until.h"
#include "base/process/resource_limits.h"
#include "fuse/event_log.h"
#include "fuse/mounting/fuse_descriptor.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListen = "listen:";
/// How often it is looked whether to stop, and whether the other side is there by now: the first
/// connections to a socket that is about to be made are refused, and nothing tells of its making.
constexpr std::chrono::milliseconds kLook{50};

Error failure(const FuseSocket& socket, const std::string& what) {
  return Error(ErrorKind::kIo, what).in_file(socket.path);
}

/// The time that is left, and whether to wait at all.
class Wait {
 public:
  Wait(const FuseSocket& socket, std::chrono::seconds patience, const std::atomic<bool>& stop)
      : socket_(socket), patience_(patience), deadline_(deadline_after(patience)), stop_(stop) {}

  /// @throws Error kIo if it is over.
  /// @param missing what is waited for, for the message.
  void require_time(const char* missing) const {
    if (stop_) throw failure(socket_, "a signal ended the mount before it was ready");
    if (PollClock::now() < deadline_) return;
    throw failure(socket_, std::string(missing) + " within " + std::to_string(patience_.count()) +
                               (patience_.count() == 1 ? " second" : " seconds"))
        .hint("start the program that hands the descriptor over, or raise --fuse-socket-wait");
  }

 private:
  const FuseSocket& socket_;
  std::chrono::seconds patience_;
  PollClock::time_point deadline_;
  const std::atomic<bool>& stop_;
};

/// Where a socket is. A path that is too long for an address is reached through its directory.
class Address {
 public:
  /// @throws Error kIo if that directory is not there.
  explicit Address(const FuseSocket& socket) {
    std::string name = socket.path.native();
    if (name.size() >= sizeof(address_.sun_path)) {
      const fs::path parent = socket.path.parent_path();
      directory_.emplace(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!*directory_) throw io_error("enter", parent, errno);
      name = "/proc/self/fd/" + std::to_string(directory_->get()) + "/" +
             socket.path.filename().native();
    }
    if (name.size() >= sizeof(address_.sun_path)) {
      throw Error(ErrorKind::kUsage, "the name is too long for a socket").in_file(socket.path);
    }
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path, name.data(), name.size());
  }

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address_); }
  static socklen_t size() noexcept { return sizeof(sockaddr_un); }

 private:
  sockaddr_un address_{};
  std::optional<Descriptor> directory_;
};

Descriptor new_socket() {
  Descriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) throw io_error("make a socket", "", errno);
  return made;
}

// --- who listens ---------------------------------------------------------------------------------

/// No process listens yet, or the queue of connections is full.
bool may_come(int error) {
  return error == ENOENT || error == ECONNREFUSED || error == EAGAIN;
}

/// @return 0 or the error number.
int try_to_connect(const FuseSocket& socket, const Descriptor& connection) {
  try {
    const Address address(socket);
    return ::connect(connection.get(), address.get(), Address::size()) == 0 ? 0 : errno;
  } catch (const Error& error) {
    if (error.os_error() == 0) throw;
    return error.os_error();
  }
}

Descriptor connect_to(const FuseSocket& socket, const Wait& wait) {
  for (;; std::this_thread::sleep_for(kLook)) {
    wait.require_time("nobody listened on this socket");
    Descriptor connection = new_socket();
    const int error = try_to_connect(socket, connection);
    if (error == 0) return connection;
    if (!may_come(error)) throw io_error("connect to the socket", socket.path, error);
  }
}

/// A socket at a path, which is removed at the end.
class Listener {
 public:
  explicit Listener(const FuseSocket& socket) : path_(socket.path), socket_(new_socket()) {
    const Address address(socket);
    while (!bind_to(address)) remove_leftover(socket);
    if (::listen(socket_.get(), SOMAXCONN) != 0) {
      const int error = errno;
      ::unlink(path_.c_str());
      throw io_error("listen on the socket", path_, error);
    }
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { ::unlink(path_.c_str()); }

  int get() const noexcept { return socket_.get(); }

 private:
  /// Only this user and root may connect, because the other side decides which users see the
  /// checkpoint.
  /// @return whether nothing was at the path.
  bool bind_to(const Address& address) {
    const mode_t mask = ::umask(0177);
    const bool bound = ::bind(socket_.get(), address.get(), Address::size()) == 0;
    const int error = errno;
    ::umask(mask);
    if (!bound && error != EADDRINUSE) throw io_error("make the socket", path_, error);
    return bound;
  }

  /// Of a process that was killed.
  /// @throws Error kUsage if it is something else.
  void remove_leftover(const FuseSocket& socket) const {
    struct stat stat {};
    const bool is_socket = ::lstat(path_.c_str(), &stat) == 0 && S_ISSOCK(stat.st_mode);
    if (is_socket && try_to_connect(socket, new_socket()) == ECONNREFUSED &&
        ::unlink(path_.c_str()) == 0) {
      return;
    }
    throw Error(ErrorKind::kUsage, is_socket ? "another process listens on this socket"
                                             : "something that is no socket is here already")
        .in_file(path_)
        .hint("choose another path for --fuse-socket");
  }

  fs::path path_;
  Descriptor socket_;
};

// --- what comes ---------------------------------------------------------------------------------

/// What a message says besides is skipped.
constexpr std::size_t kSkippedBytes = 4096;

/// @throws Error kIo
std::optional<DescriptorMessage> receive(const FuseSocket& socket, int connection) {
  try {
    return receive_message(connection, kSkippedBytes);
  } catch (Error& error) {
    throw error.in_file(socket.path);
  }
}

/// The descriptor of a message that has any.
/// @throws Error if it is not the one of a live mount.
int only_descriptor(const FuseSocket& socket, const DescriptorMessage& message) {
  if (message.is_truncated) {
    throw failure(socket, "what was handed over has not all arrived")
        .hint(limit_hint(Resource::kOpenFiles));
  }
  if (message.descriptors.size() > 1) {
    throw failure(socket, std::to_string(message.descriptors.size()) +
                              " descriptors were handed over, but a mount has one")
        .hint("hand over the descriptor that was mounted, without clones of it");
  }
  // The message closes its own, which may have the number of a standard stream.
  Descriptor kept(::fcntl(message.descriptors.front().get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!kept) throw io_error("keep the descriptor of", socket.path, errno);
  if (const std::string fault = fault_of_fuse_descriptor(kept.get()); !fault.empty()) {
    throw Error(ErrorKind::kUsage, fault)
        .in_file(socket.path)
        .hint("hand over a descriptor of /dev/fuse that was mounted with mount(2)");
  }
  return kept.release();
}

/// A listening socket may also get connections from programs that do not have the descriptor.
HandedDescriptor take(const FuseSocket& socket, std::vector<Descriptor> connections,
                      const Listener* listener, const Wait& wait) {
  for (;;) {
    wait.require_time("no descriptor came through this socket");
    std::vector<pollfd> polls;
    polls.reserve(connections.size() + 1);
    for (const Descriptor& each : connections) polls.push_back({each.get(), POLLIN, 0});
    if (listener != nullptr) polls.push_back({listener->get(), POLLIN, 0});
    if (!poll_until(polls, deadline_after(kLook))) continue;
    std::vector<Descriptor> open;
    for (Descriptor& connection : connections) {
      const auto message = receive(socket, connection.get());
      if (message && (!message->descriptors.empty() || message->is_truncated)) {
        return {only_descriptor(socket, *message), std::move(connection)};
      }
      if (!message || !message->is_end) open.push_back(std::move(connection));
    }
    if (open.empty() && listener == nullptr) {
      throw failure(socket, "the connection was closed without a descriptor");
    }
    if (open.size() < connections.size()) {
      log_warning(LogEvent::kSocketIgnored, "{}: a connection was closed without a descriptor",
                  socket.path.native());
    }
    connections = std::move(open);
    if (listener == nullptr) continue;
    Descriptor accepted(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted) connections.push_back(std::move(accepted));
  }
}

}  // namespace

FuseSocket parse_fuse_socket(const std::string& text) {
  FuseSocket socket;
  socket.listens = text.starts_with(kListen);
  socket.path = socket.listens ? text.substr(kListen.size()) : text;
  if (socket.path.filename().empty()) {
    throw Error(ErrorKind::kUsage, "--fuse-socket needs the path of a socket");
  }
  return socket;
}

HandedDescriptor receive_fuse_descriptor(const FuseSocket& socket, std::chrono::seconds patience,
                                         const std::atomic<bool>& stop) {
  const Wait wait(socket, patience, stop);
  std::vector<Descriptor> connections;
  if (!socket.listens) {
    connections.push_back(connect_to(socket, wait));
    return take(socket, std::move(connections), nullptr, wait);
  }
  const Listener listener(socket);
  return take(socket, std::move(connections), &listener, wait);
}

}  // namespace reshardfs
