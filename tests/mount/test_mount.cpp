// SPDX-License-Identifier: Apache-2.0
#include "test_mount.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>

#include <grp.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include "base/posix/mount_table.h"
#include "fuse/mounting/unmount.h"

namespace reshardfs::testing_mount {

using namespace std::chrono_literals;

std::byte pattern_byte(std::uint64_t offset) {
  // The high bits take part, so that a page too far looks different.
  return static_cast<std::byte>((offset * 31 + (offset >> 8) * 7 + (offset >> 20)) & 0xff);
}

void PatternFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset + out.size() > size_) throw std::logic_error("read beyond the end");
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = pattern_byte(offset + i);
}

std::shared_ptr<const VirtualFile> stalling_file(Shared& shared, std::uint64_t size) {
  return std::make_shared<HookedFile>(size, [&shared](std::uint64_t) {
    ++shared.waiting;
    while (!shared.released) std::this_thread::sleep_for(2ms);
    --shared.waiting;
    ++shared.reads;
  });
}

SharedMemory::SharedMemory() {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  shared_ = new (memory) Shared;
}

SharedMemory::~SharedMemory() {
  ::munmap(shared_, sizeof(Shared));
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = fs::temp_directory_path() / "reshardfs-mount-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  // Not remove_all(): should something still be mounted, it must not be walked into.
  ::rmdir(path_.c_str());
}

namespace {

[[noreturn]] void serve_in_child(uid_t user, const std::function<void()>& serve_it) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  spdlog::set_level(spdlog::level::off);
  if (user != 0 && (::setgroups(0, nullptr) != 0 || ::setresgid(user, user, user) != 0 ||
                    ::setresuid(user, user, user) != 0)) {
    std::_Exit(99);
  }
  int exit_code = 0;
  try {
    serve_it();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "server: %s\n", error.what());
    exit_code = 3;
  }
  std::exit(exit_code);  // not _Exit: sanitizers report leaks here
}

}  // namespace

TestMount::TestMount(const Fill& fill, ServeOptions options, uid_t user,
                     std::function<void()> before_live) {
  const auto serve_it = [&](const ServeOptions& mount, const OnLive& on_live) {
    TreeBuilder builder;
    fill(builder);
    const Tree tree = std::move(builder).build();
    serve(tree, mount, on_live);
  };
  start(serve_it, std::move(options), user, before_live);
}

TestMount::TestMount(const MakeSource& make, ServeOptions options) {
  const auto serve_it = [&](const ServeOptions& mount, const OnLive& on_live) {
    const std::unique_ptr<TreeSource> source = make();
    serve(*source, mount, on_live);
  };
  start(serve_it, std::move(options), 0, [] {});
}

void TestMount::start(const Serve& serve_it, ServeOptions options, uid_t user,
                      const OnLive& before_live) {
  if (options.mountpoint.empty()) options.mountpoint = path();
  if (user != 0 && ::chown(path().c_str(), user, user) != 0) throw std::runtime_error("chown");
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) {
    ::close(pipe[0]);
    serve_in_child(user, [&] {
      serve_it(options, [&] {
        before_live();
        if (::write(pipe[1], "", 1) != 1) std::_Exit(98);
      });
    });
  }
  ::close(pipe[1]);
  char byte = 0;
  live_ = ::read(pipe[0], &byte, 1) == 1;
  ::close(pipe[0]);
}

bool TestMount::is_mounted() const {
  const auto mount = mount_at(path());
  return mount && mount->type == kMountType;
}

void TestMount::send(int signal) const {
  ::kill(pid_, signal);
}

int TestMount::wait_for_exit(std::chrono::milliseconds limit) {
  if (pid_ < 0) return exit_code_;
  int status = 0;
  if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, limit)) return -1;
  pid_ = -1;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return exit_code_;
}

TestMount::~TestMount() {
  if (pid_ >= 0) send(SIGTERM);
  if (wait_for_exit() < 0 && pid_ >= 0) {
    send(SIGKILL);
    wait_for_exit();
  }
  for (int i = 0; i < 3 && mount_at(path()); ++i) {
    if (::umount2(path().c_str(), MNT_DETACH) != 0) detach_mount(path());
  }
}

std::string read_file(const fs::path& path) {
  std::string content;
  std::string buffer(1 << 20, '\0');
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return content;
  for (;;) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count <= 0) break;
    content.append(buffer, 0, static_cast<std::size_t>(count));
  }
  const int saved = errno;
  ::close(fd);
  errno = saved;
  return content;
}

int errno_of_reading(const fs::path& path) {
  errno = 0;
  read_file(path);
  return errno;
}

bool is_pattern(std::string_view bytes, std::uint64_t offset) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (static_cast<std::byte>(bytes[i]) != pattern_byte(offset + i)) return false;
  }
  return true;
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

}  // namespace reshardfs::testing_mount
