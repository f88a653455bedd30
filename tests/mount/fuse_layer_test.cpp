// SPDX-License-Identifier: Apache-2.0
/// What programs see in a mount: names, attributes, bytes and errors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/posix/mount_table.h"
#include "test_mount.h"

namespace reshardfs::testing_mount {
namespace {

using namespace std::chrono_literals;
using testing::UnorderedElementsAre;

constexpr std::uint64_t kBigBytes = (5ULL << 20) + 12345;

std::shared_ptr<const VirtualFile> throwing(std::function<void()> what) {
  return std::make_shared<HookedFile>(10000, [what](std::uint64_t) { what(); });
}

void fill(TreeBuilder& builder) {
  builder.add_file("rank_0/checkpoint_0.ckpt", std::make_shared<PatternFile>(kBigBytes));
  builder.add_file("rank_1/checkpoint_1.ckpt", std::make_shared<PatternFile>(4096));
  builder.add_file("empty", std::make_shared<PatternFile>(0));
  builder.add_file(".reshardfs/version", std::make_shared<PatternFile>(5));
  builder.hide(".reshardfs");
  builder.add_file("errors/io", throwing([] { throw Error(ErrorKind::kIo, "x").os_error(5); }));
  builder.add_file("errors/changed", throwing([] { throw Error(ErrorKind::kChanged, "x"); }));
  builder.add_file("errors/memory", throwing([] { throw std::bad_alloc(); }));
  builder.add_file("errors/unknown", throwing([] { throw 1; }));
  builder.add_file("errors/good", std::make_shared<PatternFile>(10000));
}

class FuseLayer : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_FUSE();
    ServeOptions options;
    options.source_name = "/data/with,comma and\\more";
    options.uid = 123;
    options.gid = 456;
    options.mtime_ns = 1'700'000'000'123'456'789;
    mount = std::make_unique<TestMount>(fill, options);
    ASSERT_TRUE(mount->live());
  }

  fs::path at(const std::string& name) const { return *mount / name; }
  struct stat stat_of(const std::string& name) const {
    struct stat stat {};
    EXPECT_EQ(::lstat(at(name).c_str(), &stat), 0) << name << ": " << std::strerror(errno);
    return stat;
  }

  std::unique_ptr<TestMount> mount;
};

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

TEST_F(FuseLayer, ListsWhatIsNotHidden) {
  for (int round = 0; round < 2; ++round) {  // the second time from the kernel's cache
    EXPECT_THAT(names_in(mount->path()),
                UnorderedElementsAre("rank_0", "rank_1", "empty", "errors"));
    EXPECT_THAT(names_in(at("rank_0")), UnorderedElementsAre("checkpoint_0.ckpt"));
  }
  EXPECT_THAT(names_in(at(".reshardfs")), UnorderedElementsAre("version"));
  EXPECT_TRUE(is_pattern(read_file(at(".reshardfs/version")), 0));
}

TEST_F(FuseLayer, AHiddenDirectoryIsNotWalkedInto) {
  EXPECT_EQ(stat_of(".reshardfs").st_mode, S_IFDIR | 0555U);
  EXPECT_EQ(stat_of(".reshardfs").st_nlink, 2U);
  EXPECT_EQ(stat_of(".reshardfs/..").st_ino, kRootInode);
  // The names are in the kernel's cache now, and are still not listed.
  EXPECT_THAT(names_in(mount->path()), UnorderedElementsAre("rank_0", "rank_1", "empty", "errors"));
  // "find" trusts a directory's link count: what it misses by it would be files too.
  const std::string find = "find " + mount->path().native() + " | wc -l";
  std::FILE* const pipe = ::popen(find.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  int lines = 0;
  EXPECT_EQ(std::fscanf(pipe, "%d", &lines), 1);
  ::pclose(pipe);
  EXPECT_EQ(lines, 12);
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(mount->path()), {}), 11);
}

TEST_F(FuseLayer, TellsExactAttributes) {
  const struct stat file = stat_of("rank_0/checkpoint_0.ckpt");
  EXPECT_EQ(file.st_mode, S_IFREG | 0444U);
  EXPECT_EQ(file.st_nlink, 1U);
  EXPECT_EQ(file.st_size, static_cast<off_t>(kBigBytes));
  EXPECT_EQ(file.st_blocks, static_cast<blkcnt_t>((kBigBytes + 511) / 512));
  EXPECT_EQ(file.st_blksize, 1 << 20);
  EXPECT_EQ(file.st_uid, 123U);
  EXPECT_EQ(file.st_gid, 456U);
  EXPECT_EQ(file.st_mtim.tv_sec, 1'700'000'000);
  EXPECT_EQ(file.st_mtim.tv_nsec, 123'456'789);
  EXPECT_EQ(file.st_ctim.tv_nsec, 123'456'789);

  const struct stat root = stat_of("");
  EXPECT_EQ(root.st_mode, S_IFDIR | 0555U);
  EXPECT_EQ(root.st_nlink, 5U);  // three directories are listed
  EXPECT_EQ(root.st_ino, kRootInode);
  EXPECT_EQ(stat_of("rank_0").st_nlink, 2U);
  EXPECT_EQ(stat_of("rank_0/..").st_ino, kRootInode);
}

TEST_F(FuseLayer, InodeNumbersInListingsAndStatAgree) {
  for (const auto& entry : fs::recursive_directory_iterator(mount->path())) {
    const struct stat stat = stat_of(entry.path().lexically_relative(mount->path()));
    EXPECT_EQ(stat.st_ino,
              inode_number(entry.path().lexically_relative(mount->path()).native(), 0));
  }
}

TEST_F(FuseLayer, NamesThatAreNotThereAreENOENT) {
  struct stat stat {};
  for (const std::string& name :
       {std::string("nothing"), std::string("rank_0/nothing"), std::string("RANK_0")}) {
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(::stat(at(name).c_str(), &stat), -1);
      EXPECT_EQ(errno, ENOENT) << name;
    }
  }
  EXPECT_EQ(::stat(at("empty/x").c_str(), &stat), -1);
  EXPECT_EQ(errno, ENOTDIR);
  EXPECT_EQ(::stat(at(std::string(256, 'x')).c_str(), &stat), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
}

TEST_F(FuseLayer, TellsTheSizeOfTheWhole) {
  struct statvfs statistics {};
  ASSERT_EQ(::statvfs(mount->path().c_str(), &statistics), 0);
  EXPECT_GE(statistics.f_blocks * statistics.f_frsize, kBigBytes);
  EXPECT_EQ(statistics.f_bavail, 0U);
  EXPECT_EQ(statistics.f_namemax, 255U);
  EXPECT_NE(statistics.f_flag & ST_RDONLY, 0U);
  EXPECT_NE(statistics.f_flag & ST_NOSUID, 0U);
  EXPECT_NE(statistics.f_flag & ST_NODEV, 0U);
}

TEST_F(FuseLayer, TheMountTableNamesTheSource) {
  const auto entry = mount_at(mount->path());
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->type, kMountType);
  EXPECT_EQ(entry->source, "/data/with,comma and\\more");
}

TEST_F(FuseLayer, ReadsTheRightBytes) {
  for (int round = 0; round < 2; ++round) {
    const std::string content = read_file(at("rank_0/checkpoint_0.ckpt"));
    EXPECT_EQ(content.size(), kBigBytes);
    EXPECT_TRUE(is_pattern(content, 0));
  }
  EXPECT_EQ(read_file(at("rank_1/checkpoint_1.ckpt")).size(), 4096U);
  EXPECT_EQ(read_file(at("empty")), "");
}

void expect_random_reads(int fd, std::uint64_t size, unsigned seed, int count) {
  std::mt19937_64 random(seed);
  std::string buffer(2 << 20, '\0');
  for (int i = 0; i < count; ++i) {
    const std::uint64_t offset = random() % (size + 5000);
    const std::size_t wanted = 1 + random() % (i % 10 == 0 ? buffer.size() : 9000);
    const ssize_t got = ::pread(fd, buffer.data(), wanted, static_cast<off_t>(offset));
    const std::uint64_t expected =
        offset >= size ? 0 : std::min<std::uint64_t>(wanted, size - offset);
    ASSERT_EQ(got, static_cast<ssize_t>(expected)) << "seed " << seed << " at " << offset;
    ASSERT_TRUE(is_pattern({buffer.data(), expected}, offset)) << "seed " << seed;
  }
}

TEST_F(FuseLayer, ReadsTheRightBytesAtRandomOffsets) {
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      const int flags = O_RDONLY | O_CLOEXEC | (seed == 4 ? O_DIRECT : 0);
      const int fd = ::open(at("rank_0/checkpoint_0.ckpt").c_str(), flags);
      ASSERT_GE(fd, 0);
      expect_random_reads(fd, kBigBytes, seed, 200);
      ::close(fd);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(FuseLayer, CanBeMapped) {
  for (const int kind : {MAP_SHARED, MAP_PRIVATE}) {
    const int fd = ::open(at("rank_0/checkpoint_0.ckpt").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    void* memory = ::mmap(nullptr, kBigBytes, PROT_READ, kind, fd, 0);
    ::close(fd);
    ASSERT_NE(memory, MAP_FAILED) << std::strerror(errno);
    EXPECT_TRUE(is_pattern({static_cast<const char*>(memory), kBigBytes}, 0));
    ::munmap(memory, kBigBytes);
  }
}

TEST_F(FuseLayer, AFailingFileFailsAlone) {
  const std::map<std::string, int> expected = {
      {"io", EIO}, {"changed", ESTALE}, {"memory", ENOMEM}, {"unknown", EIO}, {"good", 0}};
  for (int round = 0; round < 2; ++round) {
    for (const auto& [name, number] : expected) {
      EXPECT_EQ(errno_of_reading(at("errors/" + name)), number) << name;
      EXPECT_EQ(stat_of("errors/" + name).st_size, 10000) << "must not shrink: " << name;
    }
    EXPECT_TRUE(is_pattern(read_file(at("errors/good")), 0));
  }
}

TEST_F(FuseLayer, EveryModificationIsEROFS) {
  const fs::path file = at("rank_1/checkpoint_1.ckpt");
  const fs::path fresh = at("rank_1/new");
  const timespec times[2] = {{1, 0}, {1, 0}};
  const std::map<std::string, std::function<int()>> calls = {
      {"open for writing", [&] { return ::open(file.c_str(), O_RDWR | O_CLOEXEC); }},
      {"open truncating", [&] { return ::open(file.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC); }},
      {"create", [&] { return ::open(fresh.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); }},
      {"mkdir", [&] { return ::mkdir(fresh.c_str(), 0700); }},
      {"mknod", [&] { return ::mknod(fresh.c_str(), S_IFIFO | 0600, 0); }},
      {"rmdir", [&] { return ::rmdir(at("rank_1").c_str()); }},
      {"unlink", [&] { return ::unlink(file.c_str()); }},
      {"rename", [&] { return ::rename(file.c_str(), fresh.c_str()); }},
      {"symlink", [&] { return ::symlink("x", fresh.c_str()); }},
      {"link", [&] { return ::link(file.c_str(), fresh.c_str()); }},
      {"chmod", [&] { return ::chmod(file.c_str(), 0600); }},
      {"chown", [&] { return ::chown(file.c_str(), 1, 1); }},
      {"truncate", [&] { return ::truncate(file.c_str(), 0); }},
      {"utimens", [&] { return ::utimensat(AT_FDCWD, file.c_str(), times, 0); }},
      {"setxattr", [&] { return ::setxattr(file.c_str(), "user.x", "y", 1, 0); }},
      {"removexattr", [&] { return ::removexattr(file.c_str(), "user.x"); }},
  };
  for (const auto& [name, call] : calls) {
    errno = 0;
    EXPECT_EQ(call(), -1) << name;
    EXPECT_EQ(errno, EROFS) << name << ": " << std::strerror(errno);
  }
}

TEST_F(FuseLayer, SetsTheKernelsReadAhead) {
  const auto entry = mount_at(mount->path());
  ASSERT_TRUE(entry);
  std::ifstream file("/sys/class/bdi/" + entry->device + "/read_ahead_kb");
  unsigned kib = 0;
  file >> kib;
  if (::geteuid() != 0) GTEST_SKIP() << "only root can set it";
  EXPECT_EQ(kib, ServeOptions().read_ahead_kb);
}

TEST(FuseLayerDirect, DirectReadsGiveTheRightBytes) {
  SKIP_WITHOUT_FUSE();
  ServeOptions options;
  options.direct_io = true;
  TestMount mount(fill, options);
  ASSERT_TRUE(mount.live());
  const int fd = ::open((mount / "rank_0/checkpoint_0.ckpt").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  expect_random_reads(fd, kBigBytes, 7, 300);
  ::close(fd);
  EXPECT_EQ(errno_of_reading(mount / "errors/changed"), ESTALE);
}

TEST(FuseLayerScale, ListsManyFilesCompletely) {
  SKIP_WITHOUT_FUSE();
  constexpr int kCount = 20000;
  TestMount mount([](TreeBuilder& builder) {
    const auto file = std::make_shared<PatternFile>(1);
    for (int i = 0; i < kCount; ++i) builder.add_file("params/p." + std::to_string(i), file);
    builder.hide("params/p.7");
  });
  ASSERT_TRUE(mount.live());
  for (int round = 0; round < 2; ++round) {
    const std::vector<std::string> names = names_in(mount / "params");
    EXPECT_EQ(names.size(), kCount - 1U);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), kCount - 1U);
  }
}

TEST(FuseLayerScale, TheLargestFileCanBeReadAtItsEnd) {
  SKIP_WITHOUT_FUSE();
  static constexpr std::uint64_t kBytes = (1ULL << 63) - 4097;
  TestMount mount([](TreeBuilder& builder) {
    builder.add_file("huge", std::make_shared<PatternFile>(kBytes));
  });
  ASSERT_TRUE(mount.live());
  EXPECT_EQ(fs::file_size(mount / "huge"), kBytes);
  const int fd = ::open((mount / "huge").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  std::array<char, 100> buffer{};
  ASSERT_EQ(::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(kBytes - 50)), 50);
  EXPECT_TRUE(is_pattern({buffer.data(), 50}, kBytes - 50));
  ::close(fd);
}

/// A file that costs nothing to make, so that what is measured is the way through the kernel.
class ConstantFile : public VirtualFile {
 public:
  explicit ConstantFile(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t, std::span<std::byte> out) const override {
    std::memset(out.data(), 0x5a, out.size());
  }

 private:
  std::uint64_t size_;
};

double read_mib_per_second(const fs::path& path) {
  std::vector<char> buffer(1 << 20);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto start = std::chrono::steady_clock::now();
  double mib = 0;
  while (::read(fd, buffer.data(), buffer.size()) > 0) mib += 1;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  ::close(fd);
  return mib / elapsed.count();
}

TEST(FuseLayerSpeed, SequentialReads) {
  SKIP_WITHOUT_FUSE();
  for (const bool direct_io : {false, true}) {
    ServeOptions options;
    options.direct_io = direct_io;
    TestMount mount(
        [](TreeBuilder& builder) {
          builder.add_file("gib", std::make_shared<ConstantFile>(1ULL << 30));
        },
        options);
    ASSERT_TRUE(mount.live());
    const double first = read_mib_per_second(mount / "gib");
    const double again = read_mib_per_second(mount / "gib");
    std::cout << (direct_io ? "direct_io" : "page cache") << ": " << static_cast<int>(first)
              << " MiB/s, again " << static_cast<int>(again) << " MiB/s\n";
    EXPECT_GT(first, 0);
  }
}

}  // namespace
}  // namespace reshardfs::testing_mount
