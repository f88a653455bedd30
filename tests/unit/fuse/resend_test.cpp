// SPDX-License-Identifier: Apache-2.0
#include "fuse/resend.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"

namespace reshardfs {
namespace {

TEST(Resend, IsAMessageWithoutABody) {
  const Pipe pipe(O_NONBLOCK);
  EXPECT_TRUE(resend_requests(pipe.writer.get()));
  fuse_out_header message{};
  EXPECT_EQ(::read(pipe.reader.get(), &message, sizeof message),
            static_cast<ssize_t>(sizeof message));
  EXPECT_EQ(message.len, sizeof message);
  EXPECT_EQ(message.error, 7) << "FUSE_NOTIFY_RESEND";
  EXPECT_EQ(message.unique, 0U);
  EXPECT_FALSE(resend_requests(pipe.reader.get())) << "what an older kernel says to it";
}

}  // namespace
}  // namespace reshardfs
