// SPDX-License-Identifier: Apache-2.0
#include "fuse/errno_mapping.h"

#include <cerrno>
#include <new>

namespace reshardfs {
namespace {

int passed_on(int os_error) noexcept {
  switch (os_error) {
    case ESTALE:
    case ETIMEDOUT:
    case ENOMEM:
    case EACCES:
    case EINTR:
      return os_error;
    default:
      return EIO;
  }
}

}  // namespace

int errno_of(const Error& error) noexcept {
  switch (error.kind()) {
    case ErrorKind::kMissing:
      return ENOENT;
    case ErrorKind::kUnsupported:
      return EOPNOTSUPP;
    case ErrorKind::kIo:
      return passed_on(error.os_error());
    case ErrorKind::kChanged:
      return ESTALE;
    case ErrorKind::kUsage:
    case ErrorKind::kBadInput:
    case ErrorKind::kInternal:
      return EIO;
  }
  return EIO;
}

int errno_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return errno_of(error);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (...) {
    return EIO;
  }
}

}  // namespace reshardfs
