// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <utility>

namespace reshardfs {

/// A file descriptor that is closed at the end of its scope, which leaves errno as it is.
class Descriptor {
 public:
  /// @param fd below zero: none.
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  explicit operator bool() const noexcept { return fd_ >= 0; }
  int get() const noexcept { return fd_; }
  /// It stays open, as the caller's.
  int release() noexcept { return std::exchange(fd_, -1); }
  /// Nothing, with errno, if the system does not tell.
  std::optional<struct stat> status() const noexcept;

 private:
  int fd_;
};

/// Opens a file in a directory, close-on-exec, without following a link and without waiting for
/// what is no file.
/// @param directory AT_FDCWD: the working directory.
/// @return none, with errno, if that fails.
Descriptor open_in(int directory, const char* name, int flags, mode_t mode = 0) noexcept;

/// A pipe, close-on-exec.
struct Pipe {
  /// @param flags O_NONBLOCK, or 0. @throws Error kIo
  explicit Pipe(int flags = 0);

  Descriptor reader;
  Descriptor writer;
};

}  // namespace reshardfs
