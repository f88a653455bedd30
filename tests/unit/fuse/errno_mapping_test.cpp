// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <map>
#include <new>
#include <stdexcept>

#include <gtest/gtest.h>

#include "fuse/request.h"

namespace reshardfs {
namespace {

/// A switch without default: a new kind does not compile here until it has been thought of.
int expected(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kBadInput:
    case ErrorKind::kIo:
    case ErrorKind::kInternal:
      return EIO;
    case ErrorKind::kMissing:
      return ENOENT;
    case ErrorKind::kUnsupported:
      return EOPNOTSUPP;
    case ErrorKind::kChanged:
      return ESTALE;
  }
  return -1;
}

TEST(ErrnoMapping, EveryKindHasAPositiveErrno) {
  for (int i = 0; i <= static_cast<int>(ErrorKind::kInternal); ++i) {
    const auto kind = static_cast<ErrorKind>(i);
    EXPECT_EQ(errno_of(Error(kind, "x")), expected(kind)) << i;
    EXPECT_GT(errno_of(Error(kind, "x")), 0) << i;
  }
}

TEST(ErrnoMapping, PassesOnOnlyErrnosThatTellSomethingAboutTheRequest) {
  for (const int number : {EIO, ESTALE, ETIMEDOUT, ENOMEM, EACCES, EINTR}) {
    EXPECT_EQ(errno_of(Error(ErrorKind::kIo, "x").os_error(number)), number);
  }
  // ENOENT of a source would look as if the file in the mount were gone; the others likewise.
  for (const int number : {0, -1, -EIO, ENOENT, EBADF, EAGAIN, ENOSYS, EROFS, EMFILE, 100000}) {
    EXPECT_EQ(errno_of(Error(ErrorKind::kIo, "x").os_error(number)), EIO) << number;
  }
  EXPECT_EQ(errno_of(Error(ErrorKind::kChanged, "x").os_error(EACCES)), ESTALE);
}

template <typename Thrown>
int errno_when_thrown(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return errno_of_current_exception();
  }
}

TEST(ErrnoMapping, CoversWhateverIsThrown) {
  EXPECT_EQ(errno_when_thrown(Error(ErrorKind::kChanged, "x")), ESTALE);
  EXPECT_EQ(errno_when_thrown(std::bad_alloc()), ENOMEM);
  EXPECT_EQ(errno_when_thrown(std::runtime_error("x")), EIO);
  EXPECT_EQ(errno_when_thrown(42), EIO);
}

}  // namespace
}  // namespace reshardfs
