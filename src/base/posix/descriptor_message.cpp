// SPDX-License-Identifier: Apache-2.0
#include "base/posix/descriptor_message.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// What the kernel lets one message carry (SCM_MAX_FD). With room for all of them none is lost
/// unseen.
constexpr std::size_t kMostDescriptors = 253;
constexpr std::size_t kControlBytes = CMSG_SPACE(kMostDescriptors * sizeof(int));

}  // namespace

std::optional<DescriptorMessage> receive_message(int socket, std::size_t most) {
  DescriptorMessage message;
  message.text.resize(most);
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
  iovec place{.iov_base = message.text.data(), .iov_len = message.text.size()};
  msghdr header{};
  header.msg_iov = &place;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t count = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  // Told once where the other side has ended without reading all: what it sent before comes next.
  if (count < 0 && errno == ECONNRESET) {
    count = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (count < 0 && errno != ECONNRESET) throw io_error("receive from a socket", "", errno);
  message.is_end = count <= 0;
  message.text.resize(message.is_end ? 0 : static_cast<std::size_t>(count));
  if (message.is_end) return message;
  message.is_truncated = (header.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t bytes = part->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + at, sizeof(int));
      message.descriptors.emplace_back(descriptor);
    }
  }
  return message;
}

int send_message(int socket, const std::string& text, std::span<const int> descriptors) noexcept {
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
  iovec place{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  msghdr header{};
  header.msg_iov = &place;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  while (::sendmsg(socket, &header, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

Descriptor connect_datagrams(std::string_view path) noexcept {
  sockaddr_un address{};
  // Its last byte stays zero, as the end of a path.
  if (path.size() < 2 || path.size() >= sizeof(address.sun_path)) {
    errno = EINVAL;
    return Descriptor(-1);
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  // An abstract socket: its name begins with a zero byte, and has no end but its length.
  if (path[0] == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return socket;
  const auto* const place = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(socket.get(), place, length) == 0 ? std::move(socket) : Descriptor(-1);
}

std::pair<Descriptor, Descriptor> message_sockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw io_error("make a socket pair", "", errno);
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace reshardfs
