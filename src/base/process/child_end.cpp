// SPDX-License-Identifier: Apache-2.0
#include "base/process/child_end.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "reshardfs/error.h"

namespace reshardfs {

int wait_for_end(pid_t child, const std::string& action, const std::string& program) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw io_error(action, program, errno);
  }
  return status;
}

bool read_byte(int file) noexcept {
  char byte = 0;
  ssize_t count = 0;
  do {
    count = ::read(file, &byte, 1);
  } while (count < 0 && errno == EINTR);
  return count == 1;
}

}  // namespace reshardfs
