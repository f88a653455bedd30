// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/captured_stderr.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <span>

#include "base/posix/read_write.h"

namespace reshardfs {
namespace {

/// More than any program has to tell here.
constexpr std::size_t kMostBytes = std::size_t{16} << 10U;

}  // namespace

CapturedStderr::CapturedStderr() noexcept : text_(::memfd_create("stderr", MFD_CLOEXEC)) {
  static_cast<void>(std::fflush(stderr));
  if (text_.get() < 0) return;
  former_.emplace(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (former_->get() < 0 || ::dup2(text_.get(), STDERR_FILENO) < 0) former_.reset();
}

CapturedStderr::~CapturedStderr() {
  try {
    static_cast<void>(write_all(STDERR_FILENO, finish()));
  } catch (const std::exception&) {
    // Without memory for the text; standard error is as it was by now.
  }
}

void CapturedStderr::restore() noexcept {
  static_cast<void>(std::fflush(stderr));
  ::dup2(former_->get(), STDERR_FILENO);
  former_.reset();
}

std::string CapturedStderr::finish() {
  if (!former_) return "";
  restore();
  std::string text(kMostBytes, '\0');
  const auto got = read_fully(text_.get(), 0, std::as_writable_bytes(std::span(text)));
  text.resize(got.value_or(0));
  return text;
}

}  // namespace reshardfs
