// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/bounded_task.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/posix/directory_stream.h"
#include "base/posix/poll_until.h"
#include "base/posix/read_write.h"
#include "base/process/resource_limits.h"

namespace reshardfs {
namespace {

/// Closes all descriptors of the parent: the task may never end, and a reader of the parent's
/// output, or a process that waits for its lock, waits until the last descriptor is closed.
/// @return `pipe` under its new number.
int keep_only(int pipe) {
  constexpr int kOwn = STDERR_FILENO + 1;
  const int null = ::open("/dev/null", O_RDWR);
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (null >= 0) {
      ::dup2(null, stream);
    } else {
      ::close(stream);
    }
  }
  if (pipe != kOwn) ::dup2(pipe, kOwn);
  for (const int number : open_descriptors()) {
    if (number > kOwn) ::close(number);
  }
  return kOwn;
}

/// The error number, then the text. Nothing of this process's own end is run: no destructors, no
/// flushing of what the parent has buffered.
[[noreturn]] void run_child(int pipe, const std::function<TaskResult()>& work) {
  // It outlives neither its parent, if the kernel can end it, nor holds the parent's terminal.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setsid();
  TaskResult result;
  try {
    pipe = keep_only(pipe);
    result = work();
  } catch (const Error& error) {
    result.error = error.os_error() != 0 ? error.os_error() : EIO;
  } catch (const std::exception&) {
    result.error = EIO;
  }
  std::array<char, sizeof(int)> number{};
  std::memcpy(number.data(), &result.error, number.size());
  const bool told =
      write_all(pipe, {number.data(), number.size()}) == 0 && write_all(pipe, result.text) == 0;
  ::_exit(told ? EXIT_SUCCESS : EXIT_FAILURE);
}

/// Adds all that comes until the other end is closed. @return false if that takes too long.
bool read_all(int pipe, BoundedTask::Clock::time_point deadline, std::string& bytes) {
  std::array<char, 4096> buffer{};
  for (;;) {
    if (!wait_readable(pipe, deadline)) return false;
    const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

BoundedTask::BoundedTask(const std::function<TaskResult()>& work) {
  Pipe pipe;
  child_ = ::fork();
  if (child_ < 0) {
    throw io_error("start a process", "", errno).hint(limit_hint(Resource::kThreads));
  }
  if (child_ == 0) run_child(pipe.writer.get(), work);
  pipe_ = std::move(pipe.reader);
}

BoundedTask::BoundedTask(BoundedTask&& other) noexcept
    : child_(std::exchange(other.child_, -1)),
      pipe_(std::move(other.pipe_)),
      bytes_(std::move(other.bytes_)),
      has_ended_(other.has_ended_) {}

BoundedTask::~BoundedTask() {
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  // It may not die. Then the process that inherits it waits for it.
  ::waitpid(child_, nullptr, WNOHANG);
}

std::optional<TaskResult> BoundedTask::wait_until(Clock::time_point deadline) {
  has_ended_ = read_all(pipe_.get(), deadline, bytes_);
  TaskResult result;
  if (!has_ended_ || bytes_.size() < sizeof(result.error)) return {};
  ::waitpid(child_, nullptr, 0);  // it has closed its end, so it is ending
  child_ = -1;
  std::memcpy(&result.error, bytes_.data(), sizeof(result.error));
  result.text = bytes_.substr(sizeof(result.error));
  return result;
}

}  // namespace reshardfs
