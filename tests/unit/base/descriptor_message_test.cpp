// SPDX-License-Identifier: Apache-2.0
#include "base/posix/descriptor_message.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

constexpr std::size_t kMostText = 100;

TEST(DescriptorMessage, ComesBeforeTheEnd) {
  auto [own, other] = message_sockets();
  EXPECT_FALSE(receive_message(own.get(), kMostText));
  ASSERT_EQ(send_message(other.get(), "a reason", {}), 0);
  other = Descriptor(-1);
  EXPECT_EQ(receive_message(own.get(), kMostText)->text, "a reason");
  EXPECT_TRUE(receive_message(own.get(), kMostText)->is_end);
}

/// The kernel reports a connection reset then, ahead of what was sent.
TEST(DescriptorMessage, ComesBeforeTheEndOfOneThatHasNotReadAll) {
  auto [own, other] = message_sockets();
  ASSERT_EQ(send_message(own.get(), "an offer", {}), 0);
  ASSERT_EQ(send_message(other.get(), "a reason", {}), 0);
  other = Descriptor(-1);
  const auto reason = receive_message(own.get(), kMostText);
  ASSERT_TRUE(reason);
  EXPECT_FALSE(reason->is_end);
  EXPECT_EQ(reason->text, "a reason");
  EXPECT_TRUE(receive_message(own.get(), kMostText)->is_end);
}

}  // namespace
}  // namespace reshardfs
