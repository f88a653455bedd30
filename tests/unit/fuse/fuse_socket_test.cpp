// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/fuse_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/posix/descriptor_message.h"
#include "base/process/child_process.h"
#include "support/awaited_call.h"
#include "support/errors.h"
#include "support/recorded_log.h"
#include "unit/fuse/own_mounts.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::expect_error;
using test::in_child;
using test::refuse_call;
using test::TempDir;
using testing::HasSubstr;

/// What is thrown.
std::string failure(const FuseSocket& socket, std::chrono::seconds patience, bool stopped = false,
                    ErrorKind kind = ErrorKind::kIo) {
  const std::atomic<bool> stop = stopped;
  try {
    ::close(receive_fuse_descriptor(socket, patience, stop).fuse);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "received";
}

sockaddr_un address_of(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

int new_socket() {
  return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

bool connect_to(const Descriptor& socket, const fs::path& path) {
  const sockaddr_un address = address_of(path);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// A connection to a socket that may not be there yet.
Descriptor connected(const fs::path& path) {
  Descriptor socket(new_socket());
  while (!connect_to(socket, path)) std::this_thread::yield();
  return socket;
}

/// A socket at a path that belongs to the test.
struct BoundSocket : Descriptor {
  explicit BoundSocket(const fs::path& path) : Descriptor(new_socket()) {
    const sockaddr_un address = address_of(path);
    EXPECT_EQ(::bind(get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
};

/// Another process, which hands something over.
class OtherProcess {
 public:
  explicit OtherProcess(const std::function<void()>& work) : process_(::fork()) {
    if (process_ == 0) {
      work();
      ::_exit(0);
    }
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() { EXPECT_EQ(wait_for_end(process_, "wait for it", ""), 0); }

 private:
  const pid_t process_;
};

class FuseSocketTest : public test::OwnMounts {
 protected:
  void SetUp() override {}

  /// Of what listens, and accepts one connection to send this.
  std::string failure_after(
      const std::vector<int>& descriptors, const std::function<void()>& before = [] {},
      ErrorKind kind = ErrorKind::kIo) const {
    fs::remove(path_);
    const BoundSocket listener(path_);
    ::listen(listener.get(), 1);
    const OtherProcess other([&] {
      const Descriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!descriptors.empty()) send_message(accepted.get(), "words", descriptors);
    });
    before();
    return failure({path_, false}, 1h, false, kind);
  }

  static std::ptrdiff_t open_descriptors() {
    return std::distance(fs::directory_iterator("/proc/self/fd"), {});
  }
  /// The number of the next file that is opened.
  static int next_descriptor() { return Descriptor(::dup(STDERR_FILENO)).get(); }

  const fs::path path_ = root_ / "s";
  const Descriptor null_{::open("/dev/null", O_RDWR | O_CLOEXEC)};
};

/// With a mount.
class HandedOver : public FuseSocketTest {
 protected:
  void SetUp() override { OwnMounts::SetUp(); }

  void expect_received(const FuseSocket& socket, int device) {
    const auto before = open_descriptors();
    {
      const std::atomic<bool> stop = false;
      const HandedDescriptor handed = receive_fuse_descriptor(socket, 1h, stop);
      const Descriptor fuse(handed.fuse);
      EXPECT_GT(fuse.get(), STDERR_FILENO);
      EXPECT_NE(fuse.get(), device);
      EXPECT_EQ(fuse.status()->st_rdev, Descriptor(::dup(device)).status()->st_rdev);
      for (const int file : {fuse.get(), handed.connection.get()}) {
        EXPECT_EQ(::fcntl(file, F_GETFD), FD_CLOEXEC);
      }
      EXPECT_EQ(open_descriptors(), before + 2);
    }
    EXPECT_EQ(open_descriptors(), before);
  }

  const fs::path place_ = directory("mnt");
};

TEST_F(FuseSocketTest, SaysWhoListens) {
  EXPECT_EQ(parse_fuse_socket("/run/s").path, "/run/s");
  EXPECT_FALSE(parse_fuse_socket("/run/s").listens);
  EXPECT_EQ(parse_fuse_socket("listen:/run/s").path, "/run/s");
  EXPECT_TRUE(parse_fuse_socket("listen:/run/s").listens);
  EXPECT_FALSE(parse_fuse_socket("./listen:/run/s").listens);
  for (const char* nothing : {"", "listen:", "/", "listen:/run/"}) {
    EXPECT_THROW(parse_fuse_socket(nothing), Error) << nothing;
  }
}

TEST_F(FuseSocketTest, EndsWithoutPatience) {
  EXPECT_THAT(failure({path_, false}, 0s),
              HasSubstr("nobody listened on this socket within 0 sec"));
  EXPECT_THAT(failure({path_, true}, 0s), HasSubstr("no descriptor came through this socket"));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FuseSocketTest, EndsWhenItIsStopped) {
  for (const bool listens : {false, true}) {
    EXPECT_THAT(failure({path_, listens}, 1h, true), HasSubstr("a signal ended the mount"));
  }
}

TEST_F(FuseSocketTest, LeavesTheFileModeMaskAsItWas) {
  const mode_t before = ::umask(0022);
  failure({path_, true}, 0s);
  EXPECT_EQ(::umask(before), 0022U);
}

TEST_F(FuseSocketTest, NeedsADirectory) {
  EXPECT_THAT(failure({root_ / "none/s", true}, 0s), HasSubstr("make the socket"));
  const auto too_long = root_ / std::string(120, 'd') / "s";
  EXPECT_THAT(failure({too_long, true}, 0s), HasSubstr("enter: No such file"));
  // Who listens may make it.
  EXPECT_THAT(failure({too_long, false}, 1s), HasSubstr("nobody listened on this socket within 1 "
                                                        "second; start"));
}

TEST_F(FuseSocketTest, NeedsANameThatFitsIntoAnAddress) {
  // The directory is opened after the socket.
  const Descriptor first(::dup(STDERR_FILENO));
  const std::string way = "/proc/self/fd/" + std::to_string(next_descriptor()) + "/";
  const fs::path deep = directory(std::string(100, 'd'));
  const fs::path fits = deep / std::string(sizeof(sockaddr_un::sun_path) - 1 - way.size(), 'n');
  const fs::path does_not = fits.string() + "n";
  ::close(first.get());
  for (const bool listens : {false, true}) {
    EXPECT_THAT(failure({does_not, listens}, 1h, false, ErrorKind::kUsage),
                HasSubstr("the name is too long for a socket"));
  }
  EXPECT_THAT(failure({fits, true}, 0s), HasSubstr("no descriptor came"));
  EXPECT_FALSE(fs::exists(fits));
}

TEST_F(FuseSocketTest, WaitsForWhoWillListen) {
  const BoundSocket bound(root_ / "bound");
  const BoundSocket full(root_ / "full");
  ASSERT_EQ(::listen(full.get(), 0), 0);
  const Descriptor queued = connected(root_ / "full");
  for (const char* name : {"none", "bound", "full"}) {
    SCOPED_TRACE(name);
    std::atomic<bool> stop = false;
    const pid_t thread = ::gettid();
    const std::jthread other([&] {
      test::wait_until_in_call(thread, SYS_clock_nanosleep);
      stop = true;
    });
    expect_error(ErrorKind::kIo, {"a signal ended the mount"}, [&] {
      receive_fuse_descriptor({root_ / name, false}, 1h, stop);
    });
  }
  fs::create_symlink("round", root_ / "round");
  EXPECT_THAT(failure({root_ / "round", false}, 1h), HasSubstr("connect to the socket"));
}

TEST_F(FuseSocketTest, TakesOnlyTheOneDescriptorOfALiveMount) {
  const int null = null_.get();
  EXPECT_THAT(failure_after({}), HasSubstr("the connection was closed without a descriptor"));
  EXPECT_THAT(failure_after({null, null}), HasSubstr("2 descriptors were handed over"));
  const std::string refusal = failure_after(
      {null}, [] {}, ErrorKind::kUsage);
  EXPECT_THAT(refusal, HasSubstr("this descriptor does not refer to /dev/fuse"));
  EXPECT_THAT(refusal, HasSubstr("was mounted with mount(2)"));
  in_child([&] {
    const auto no_receiving = [] { refuse_call(SYS_recvmsg, EIO); };
    EXPECT_THAT(failure_after({null}, no_receiving), HasSubstr(path_.string()));
  });
}

TEST_F(FuseSocketTest, NeedsDescriptors) {
  const int null = null_.get();
  const auto room_for_two = [] { test::limit_descriptors(2); };
  in_child([&] {  // of the connection, and of one that has come
    EXPECT_THAT(failure_after({null, null}, room_for_two),
                HasSubstr("what was handed over has not all arrived; raise"));
  });
  in_child([&] {
    EXPECT_THAT(failure_after({null}, room_for_two), HasSubstr("keep the descriptor of"));
  });
  in_child([&] {
    refuse_call(SYS_socket, EMFILE);
    EXPECT_THAT(failure({path_, false}, 1h), HasSubstr("make a socket"));
  });
}

TEST_F(FuseSocketTest, DoesNotMistakeItForAStandardStreamThatIsClosed) {
  in_child([&] {
    std::array<int, 3> former{};
    const std::string refusal = failure_after(
        {null_.get()},
        [&] {
          for (int stream = 0; stream < 3; ++stream) {
            former.at(static_cast<std::size_t>(stream)) = ::fcntl(stream, F_DUPFD_CLOEXEC, 10);
            ::close(stream);
          }
        },
        ErrorKind::kUsage);
    for (int stream = 0; stream < 3; ++stream) {
      ::dup2(former.at(static_cast<std::size_t>(stream)), stream);
    }
    EXPECT_THAT(refusal, HasSubstr("does not refer to /dev/fuse"));
  });
}

TEST_F(FuseSocketTest, ListensOnlyWhereNobodyElseDoes) {
  {
    std::ofstream(path_) << "keep";
    EXPECT_THAT(failure({path_, true}, 1h, false, ErrorKind::kUsage),
                HasSubstr("something that is no socket is here already"));
    EXPECT_EQ(fs::file_size(path_), 4U);
    fs::remove(path_);
  }
  {
    const BoundSocket listening(path_);
    ASSERT_EQ(::listen(listening.get(), 0), 0);
    const std::string refusal = "another process listens on this socket";
    EXPECT_THAT(failure({path_, true}, 1h, false, ErrorKind::kUsage), HasSubstr(refusal));
    // Its queue is full now.
    EXPECT_THAT(failure({path_, true}, 1h, false, ErrorKind::kUsage), HasSubstr(refusal));
    EXPECT_TRUE(fs::exists(path_));
  }
  // Now nobody does.
  EXPECT_THAT(failure({path_, true}, 0s), HasSubstr("no descriptor came"));
  EXPECT_FALSE(fs::exists(path_));
  in_child([&] {
    refuse_call(SYS_listen, EOPNOTSUPP);
    EXPECT_THAT(failure({path_, true}, 1h), HasSubstr("listen on the socket: Operation not supp"));
    EXPECT_FALSE(fs::exists(path_));
  });
}

TEST_F(HandedOver, ByWhoListens) {
  inside([this] {
    const test::UnservedMount mount(place_);
    const BoundSocket listener(path_);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    const OtherProcess other([&] {
      const Descriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      send_message(accepted.get(), std::string(10'000, 'w'), {});
      const std::array<int, 1> device{mount.device()};
      send_message(accepted.get(), std::string(10'000, 'w'), device);
      // It is told when nobody serves the mount any more.
      std::array<char, 1> nothing{};
      if (::recv(accepted.get(), nothing.data(), 1, 0) > 0) ::_exit(1);
    });
    expect_received({path_, false}, mount.device());
  });
}

TEST_F(HandedOver, ByOneOfThoseThatConnect) {
  inside([this] {
    const test::UnservedMount mount(place_);
    const test::CaughtLog log;
    const OtherProcess other([&] {
      const Descriptor silent = connected(path_);
      struct stat status {};
      if (::stat(path_.c_str(), &status) != 0 || (status.st_mode & 0777) != 0600) ::_exit(1);
      ::close(connected(path_).release());
      const Descriptor connection = connected(path_);
      send_message(connection.get(), "words", {});
      const std::array<int, 1> device{mount.device()};
      send_message(connection.get(), "words", device);
      std::array<char, 1> nothing{};
      if (::recv(connection.get(), nothing.data(), 1, 0) > 0) ::_exit(2);
    });
    expect_received({path_, true}, mount.device());
    EXPECT_FALSE(fs::exists(path_));
    EXPECT_EQ(log.text(),
              "warning: " + path_.string() + ": a connection was closed without a descriptor\n");
  });
}

}  // namespace
}  // namespace reshardfs
