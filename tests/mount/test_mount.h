// SPDX-License-Identifier: Apache-2.0
/// A mount of in-memory files, served by a child process, that is gone at the end of a test
/// whatever the test did.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reshardfs/virtual_file.h"

#include "daemon/serve.h"
#include "vfs/tree_source.h"

namespace reshardfs::testing_mount {

namespace fs = std::filesystem;

/// The byte that every PatternFile has at `offset`.
std::byte pattern_byte(std::uint64_t offset);

/// A file whose bytes tell their own offset.
class PatternFile : public VirtualFile {
 public:
  explicit PatternFile(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::uint64_t size_;
};

/// A PatternFile with something that happens before each read, in the serving process.
class HookedFile : public PatternFile {
 public:
  HookedFile(std::uint64_t size, std::function<void(std::uint64_t offset)> hook)
      : PatternFile(size), hook_(std::move(hook)) {}
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    hook_(offset);
    PatternFile::read_at(offset, out);
  }

 private:
  std::function<void(std::uint64_t)> hook_;
};

/// Counters and switches that the test and the serving process share.
struct Shared {
  std::atomic<int> waiting = 0;  ///< reads that wait for `released` now
  std::atomic<bool> released = false;
  std::atomic<int> reads = 0;
};

/// A HookedFile that waits for shared.released.
std::shared_ptr<const VirtualFile> stalling_file(Shared& shared, std::uint64_t size);

/// Memory shared with processes forked later.
class SharedMemory {
 public:
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared& operator*() const { return *shared_; }
  Shared* operator->() const { return shared_; }

 private:
  Shared* shared_;
};

/// A temporary directory, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class TestMount {
 public:
  using Fill = std::function<void(TreeBuilder&)>;
  using MakeSource = std::function<std::unique_ptr<TreeSource>()>;

  /// Returns when the mount is live (or its process has ended: see live()).
  /// @param user serve as this user instead; 0: as the user of the test.
  /// @param before_live runs in the serving process, before the test learns that it is live.
  explicit TestMount(
      const Fill& fill, ServeOptions options = {}, uid_t user = 0,
      std::function<void()> before_live = [] {});
  /// Of a tree that changes; `make` runs in the serving process.
  explicit TestMount(const MakeSource& make, ServeOptions options = {});
  ~TestMount();
  TestMount(const TestMount&) = delete;
  TestMount& operator=(const TestMount&) = delete;

  bool live() const { return live_; }
  const fs::path& path() const { return directory_.path(); }
  fs::path operator/(const std::string& name) const { return path() / name; }
  pid_t pid() const { return pid_; }

  bool is_mounted() const;
  void send(int signal) const;
  /// The exit code, or 128 + signal, or -1 if the process has not ended within `limit`. How long
  /// the end takes is the kernel's affair: its umount(2) took over a minute on a virtual machine
  /// whose processors were all busy. Whoever asks how long readers wait asks the readers.
  int wait_for_exit(std::chrono::milliseconds limit = std::chrono::minutes(3));

 private:
  using OnLive = std::function<void()>;
  using Serve = std::function<void(const ServeOptions& options, const OnLive& on_live)>;

  void start(const Serve& serve_it, ServeOptions options, uid_t user, const OnLive& before_live);

  TemporaryDirectory directory_;
  pid_t pid_ = -1;
  bool live_ = false;
  int exit_code_ = -1;
};

/// All bytes of a file; sets errno and returns less if a read fails.
std::string read_file(const fs::path& path);
/// errno of reading the file to its end, or 0.
int errno_of_reading(const fs::path& path);
/// Whether `bytes` are those of a PatternFile from `offset` on.
bool is_pattern(std::string_view bytes, std::uint64_t offset);

/// Waits until `condition` holds; false if it does not within `limit`.
bool eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds limit = std::chrono::seconds(60));

}  // namespace reshardfs::testing_mount

/// Skips a test where nothing can be mounted.
#define SKIP_WITHOUT_FUSE()                                                 \
  do {                                                                      \
    const int fuse_fd = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);            \
    if (fuse_fd < 0) GTEST_SKIP() << "/dev/fuse: " << std::strerror(errno); \
    ::close(fuse_fd);                                                       \
  } while (false)
