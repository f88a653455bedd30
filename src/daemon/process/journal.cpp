// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace reshardfs {
namespace {

/// @return an empty address if the path is too long for one.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& path) noexcept {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return {address, 0};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1)};
}

}  // namespace

Journal::Journal(std::string socket)
    : path_(std::move(socket)), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  // A journal that hangs must not hold up who logs.
  constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
}

bool Journal::is_there() const noexcept {
  const auto [address, size] = address_of(path_);
  if (size == 0) return false;
  const Descriptor probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0;
}

bool Journal::send(const std::string& entry) const noexcept {
  const auto [address, size] = address_of(path_);
  if (size == 0) return false;
  if (::sendto(socket_.get(), entry.data(), entry.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), size) >= 0) {
    return true;
  }
  // Larger than a datagram.
  return (errno == EMSGSIZE || errno == ENOBUFS) && send_in_file(entry);
}

/// The journal takes the descriptor of a sealed file in memory instead.
bool Journal::send_in_file(const std::string& entry) const noexcept {
  const Descriptor file(::memfd_create("journal-entry", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) return false;
  std::size_t written = 0;
  while (written < entry.size()) {
    const ssize_t count = ::write(file.get(), entry.data() + written, entry.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    written += static_cast<std::size_t>(count);
  }
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return false;
  auto [address, size] = address_of(path_);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = size;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = file.get();
  std::memcpy(CMSG_DATA(header), &number, sizeof number);
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) >= 0;
}

bool error_output_is_journal() {
  const char* journal = std::getenv("JOURNAL_STREAM");
  struct stat stat {};
  if (journal == nullptr || ::fstat(STDERR_FILENO, &stat) != 0) return false;
  return fmt::format("{}:{}", stat.st_dev, stat.st_ino) == journal;
}

bool system_log_is_journal() {
  std::error_code failed;
  const std::filesystem::path log = std::filesystem::canonical("/dev/log", failed);
  return !failed && log == "/run/systemd/journal/dev-log";
}

}  // namespace reshardfs
