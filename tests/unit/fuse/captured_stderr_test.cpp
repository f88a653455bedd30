// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/captured_stderr.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "fuse/mounting/own_namespaces.h"

namespace reshardfs {
namespace {

void write_line(const std::string& text) {
  EXPECT_EQ(::write(STDERR_FILENO, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(CapturedStderr, TakesWhatThisProcessAndOthersWrite) {
  testing::internal::CaptureStderr();
  std::string taken;
  {
    CapturedStderr captured;
    write_line("one\n");
    EXPECT_EQ(std::system("echo two >&2"), 0);
    taken = captured.finish();
    write_line("behind\n");
  }
  EXPECT_EQ(taken, "one\ntwo\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "behind\n");
}

TEST(CapturedStderr, LosesNothingThatNobodyTook) {
  testing::internal::CaptureStderr();
  {
    const CapturedStderr captured;
    write_line("one\n");
  }
  write_line("two\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\ntwo\n");
}

TEST(CapturedStderr, LeavesStandardErrorToProgramsThatAreStartedLater) {
  testing::internal::CaptureStderr();
  CapturedStderr captured;
  EXPECT_EQ(captured.finish(), "");
  EXPECT_EQ(captured.finish(), "");  // once more
  EXPECT_EQ(std::system("echo here >&2"), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "here\n");
}

TEST(CapturedStderr, KeepsApartWhatStandsInTheBufferOfStdio) {
  testing::internal::CaptureStderr();
  std::array<char, 4096> buffer{};
  ASSERT_EQ(std::setvbuf(stderr, buffer.data(), _IOFBF, buffer.size()), 0);
  std::fputs("before\n", stderr);
  CapturedStderr captured;
  std::fputs("meanwhile\n", stderr);
  const std::string taken = captured.finish();
  ASSERT_EQ(std::setvbuf(stderr, nullptr, _IONBF, 0), 0);
  EXPECT_EQ(taken, "meanwhile\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "before\n");
}

TEST(CapturedStderr, GivesTheFirstSixteenKibibytes) {
  CapturedStderr captured;
  write_line(std::string(std::size_t{40} << 10U, 'x'));
  EXPECT_EQ(captured.finish(), std::string(std::size_t{16} << 10U, 'x'));
}

TEST(CapturedStderr, TakesNothingWithoutDescriptors) {
  for (const int spare : {0, 1}) {
    SCOPED_TRACE(spare);
    testing::internal::CaptureStderr();
    const int next = ::dup(STDERR_FILENO);
    ::close(next);
    rlimit former{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &former), 0);
    rlimit tight = former;
    tight.rlim_cur = static_cast<rlim_t>(next + spare);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    {
      CapturedStderr captured;
      write_line("here\n");
      EXPECT_EQ(captured.finish(), "");
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &former), 0);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "here\n");
  }
}

TEST(CapturedStderr, WorksWithoutTheOtherStandardStreams) {
  const Descriptor input(::dup(STDIN_FILENO));
  const Descriptor output(::dup(STDOUT_FILENO));
  ::close(STDIN_FILENO);  // the captured text comes to lie there
  ::close(STDOUT_FILENO);
  bool is_closed = false;
  std::string taken;
  {
    CapturedStderr captured;
    write_line("one\n");
    is_closed = ::fcntl(STDOUT_FILENO, F_GETFD) < 0;
    taken = captured.finish();
  }
  ::dup2(input.get(), STDIN_FILENO);
  ::dup2(output.get(), STDOUT_FILENO);
  EXPECT_TRUE(is_closed) << "standard error as it was took the place of standard output";
  EXPECT_EQ(taken, "one\n");
}

TEST(CannotMount, SaysInOneLineWhatWasTold) {
  EXPECT_EQ(cannot_mount("fusermount3: one\n\n'two'\n").message(),
            "cannot mount here: fusermount3: one; \"two\"");
  EXPECT_EQ(cannot_mount("'\n").message(), "cannot mount here: \"");
  EXPECT_EQ(cannot_mount("").message(), "cannot mount here");
}

TEST(CannotMount, AnswersWhatItKnowsAndElseNamesTheWayWithoutAMount) {
  const std::string own = "choose a mount point that you own";
  EXPECT_EQ(cannot_mount("fusermount3: mountpoint /x not owned by user").hint(), own);
  EXPECT_EQ(cannot_mount("fusermount3: user has no write access to mountpoint /x").hint(), own);
  EXPECT_EQ(cannot_mount("fuse: failed to execute /bin/mount: gone").hint(),
            "install mount(8) (package mount), which libfuse runs");
  const std::string other = cannot_mount("something else").hint();
  const std::string way = std::string("; ") + kWithoutMount;
  ASSERT_GT(other.size(), way.size());
  EXPECT_EQ(other.substr(other.size() - way.size()), way);
}

TEST(CannotMount, TellsRootOfTheCapability) {
  const Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (::geteuid() != 0 || !device || mount_rights().ignores_set_user_id) {
    GTEST_SKIP() << "another answer comes first";
  }
  EXPECT_EQ(cannot_mount("").hint().rfind("root needs the capability SYS_ADMIN", 0), 0U);
}

TEST(UnknownMountOption, NamesTheWordAndTheNearestOne) {
  const Error error = unknown_mount_option("fuse: unknown option(s): `-o noatim'\n");
  EXPECT_EQ(error.message(), "there is no mount option 'noatim'");
  EXPECT_EQ(error.hint(), "did you mean 'noatime'?");
  const Error far = unknown_mount_option("fuse: unknown option(s): `-o qqqqqqqqqq'\n");
  EXPECT_EQ(far.message(), "there is no mount option 'qqqqqqqqqq'");
  EXPECT_EQ(far.hint().rfind("-o takes words of mount(8) and FUSE", 0), 0U);
}

TEST(UnknownMountOption, RepeatsAMessageOfAnotherForm) {
  const std::string refused = "the mount options are not understood";
  EXPECT_EQ(unknown_mount_option("").message(), refused);
  EXPECT_EQ(unknown_mount_option("no quotes").message(), refused + ": no quotes");
  EXPECT_EQ(unknown_mount_option("only 'quotes'").message(), refused + ": only \"quotes\"");
  EXPECT_EQ(unknown_mount_option("it begins: `-o x").message(), refused + ": it begins: `-o x");
  EXPECT_EQ(unknown_mount_option("it's: `-o x").message(), refused + ": it\"s: `-o x");
}

}  // namespace
}  // namespace reshardfs
