// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/fuse_socket.h"

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using namespace std::chrono_literals;
using test::TempDir;
using testing::HasSubstr;

/// What it throws.
std::string failure(const FuseSocket& socket, std::chrono::seconds patience, bool stopped = false) {
  const std::atomic<bool> stop = stopped;
  try {
    receive_fuse_descriptor(socket, patience, stop);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    return error.what();
  }
  return "received";
}

TEST(FuseSocket, SaysWhoListens) {
  EXPECT_EQ(parse_fuse_socket("/run/s").path, "/run/s");
  EXPECT_FALSE(parse_fuse_socket("/run/s").listens);
  EXPECT_EQ(parse_fuse_socket("listen:/run/s").path, "/run/s");
  EXPECT_TRUE(parse_fuse_socket("listen:/run/s").listens);
  EXPECT_FALSE(parse_fuse_socket("./listen:/run/s").listens);
  for (const char* nothing : {"", "listen:", "/", "listen:/run/"}) {
    EXPECT_THROW(parse_fuse_socket(nothing), Error) << nothing;
  }
}

TEST(FuseSocket, EndsWithoutPatience) {
  const TempDir directory;
  const auto path = directory.path() / "s";
  EXPECT_THAT(failure({path, false}, 0s), HasSubstr("nobody listened on this socket within 0 sec"));
  EXPECT_THAT(failure({path, true}, 0s), HasSubstr("no descriptor came through this socket"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(FuseSocket, EndsWhenItIsStopped) {
  const TempDir directory;
  const auto path = directory.path() / "s";
  for (const bool listens : {false, true}) {
    EXPECT_THAT(failure({path, listens}, 1h, true), HasSubstr("a signal ended the mount"));
  }
}

TEST(FuseSocket, LeavesTheFileModeMaskAsItWas) {
  const TempDir directory;
  const mode_t before = ::umask(0022);
  failure({directory.path() / "s", true}, 0s);
  EXPECT_EQ(::umask(before), 0022U);
}

TEST(FuseSocket, NeedsADirectory) {
  const TempDir directory;
  EXPECT_THAT(failure({directory.path() / "none/s", true}, 0s), HasSubstr("No such file"));
  const auto too_long = directory.path() / std::string(120, 'd') / "s";
  EXPECT_THAT(failure({too_long, true}, 0s), HasSubstr("No such file"));
  // Who listens may make it.
  EXPECT_THAT(failure({too_long, false}, 1s), HasSubstr("nobody listened"));
}

}  // namespace
}  // namespace reshardfs
