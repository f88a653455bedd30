// SPDX-License-Identifier: Apache-2.0
#include "cli/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace reshardfs {

void notify_service_manager(const std::string& state) noexcept {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr) return;
  const std::string_view path = name;
  sockaddr_un address{};
  // Its last byte stays zero, as the end of a path.
  if (path.size() < 2 || path.size() >= sizeof(address.sun_path)) return;
  if (path[0] != '/' && path[0] != '@') return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  // An abstract socket: its name begins with a zero byte, and has no end but its length.
  if (path[0] == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  static_cast<void>(::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), length));
  ::close(socket);
}

}  // namespace reshardfs
