// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "base/posix/descriptor.h"
#include "base/posix/descriptor_message.h"
#include "base/posix/read_write.h"

namespace reshardfs {
namespace {

/// The journal takes the descriptor of a sealed file in memory instead of what is larger than a
/// datagram.
bool send_in_file(int socket, const std::string& entry) noexcept {
  const Descriptor file(::memfd_create("journal-entry", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0 || write_all(file.get(), entry) != 0) return false;
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return false;
  const int number = file.get();
  return send_message(socket, {}, std::span(&number, 1)) == 0;
}

}  // namespace

bool Journal::is_there() const noexcept {
  return connect_datagrams(path_).get() >= 0;
}

bool Journal::send(const std::string& entry) const noexcept {
  const Descriptor socket = connect_datagrams(path_);
  if (socket.get() < 0) return false;
  // A journal that hangs must not block the threads that log.
  constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  const int failed = send_message(socket.get(), entry, {});
  if (failed == EMSGSIZE || failed == ENOBUFS) return send_in_file(socket.get(), entry);
  return failed == 0;
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
