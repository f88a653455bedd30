// SPDX-License-Identifier: Apache-2.0
/// Messages with descriptors over Unix sockets (SCM_RIGHTS).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/posix/descriptor.h"

namespace reshardfs {

struct DescriptorMessage {
  bool is_end = false;        ///< the other side has closed the connection; there is no message
  bool is_truncated = false;  ///< not all descriptors have come: a limit of open files
  std::string text;
  std::vector<Descriptor> descriptors;  ///< close-on-exec
};

/// What has come, or nothing if nothing has. Does not wait.
/// @param most bytes of text that are taken of one message.
/// @throws Error kIo
std::optional<DescriptorMessage> receive_message(int socket, std::size_t most);

/// Sends a message. @return 0, or an errno.
int send_message(int socket, const std::string& text, std::span<const int> descriptors) noexcept;

/// A socket whose messages go to the datagram socket at a path ("@name": an abstract one).
/// @return no descriptor (-1), with errno, if nobody listens there.
Descriptor connect_datagrams(std::string_view path) noexcept;

/// Two ends of a connection that keeps messages apart. @throws Error kIo
std::pair<Descriptor, Descriptor> message_sockets();

}  // namespace reshardfs
