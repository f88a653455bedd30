// SPDX-License-Identifier: Apache-2.0
/// The extended attributes of a mount's files.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "test_mount.h"

namespace reshardfs::testing_mount {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::ElementsAre;

constexpr std::size_t kMaxValue = 65536;

/// Lists "dtype" and "ranks", and answers to other names besides.
class DescribedFile : public PatternFile {
 public:
  explicit DescribedFile(Shared& shared) : PatternFile(100), shared_(shared) {}

  std::vector<std::string> attribute_names() const override { return {"dtype", "ranks"}; }
  std::optional<std::string> attribute(std::string_view name) const override {
    static const std::map<std::string, std::string, std::less<>> values = {
        {"dtype", "Float32"},
        {"ranks", std::string("0\0001", 3)},
        {"sha256", std::string(64, 'a')},
        {"empty", ""},
        {"longest", std::string(kMaxValue, 'x')},
        {"too_long", std::string(kMaxValue + 1, 'x')},
    };
    if (name == "changed") throw Error(ErrorKind::kChanged, "x");
    if (name == "memory") throw std::bad_alloc();
    if (name == "stalled") {
      ++shared_.waiting;
      while (!shared_.released) std::this_thread::sleep_for(2ms);
      --shared_.waiting;
      return "at last";
    }
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  Shared& shared_;
};

class FuseAttributes : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_FUSE();
    mount = std::make_unique<TestMount>([this](TreeBuilder& builder) {
      for (int i = 0; i < 40; ++i) {
        builder.add_file("files/" + std::to_string(i), std::make_shared<DescribedFile>(*shared));
      }
      builder.add_file("plain", std::make_shared<PatternFile>(100));
      builder.add_link("link", "plain");
    });
    ASSERT_TRUE(mount->live());
  }
  void TearDown() override { shared->released = true; }

  fs::path at(const std::string& name) const { return *mount / name; }

  /// What getxattr(2) says, and errno as a text if it fails.
  std::string value_of(const std::string& file, const std::string& name,
                       std::size_t room = kMaxValue) const {
    std::string buffer(room, '\0');
    errno = 0;
    const ssize_t size = ::getxattr(at(file).c_str(), name.c_str(), buffer.data(), buffer.size());
    if (size < 0) return ::strerrorname_np(errno);
    return buffer.substr(0, static_cast<std::size_t>(size));
  }
  ssize_t size_of(const std::string& file, const std::string& name) const {
    return ::getxattr(at(file).c_str(), name.c_str(), nullptr, 0);
  }
  std::string listing_of(const std::string& file) const {
    std::string buffer(kMaxValue, '\0');
    const ssize_t size = ::listxattr(at(file).c_str(), buffer.data(), buffer.size());
    if (size < 0) return ::strerrorname_np(errno);
    return buffer.substr(0, static_cast<std::size_t>(size));
  }

  SharedMemory shared;
  std::unique_ptr<TestMount> mount;
};

TEST_F(FuseAttributes, HaveTheirValues) {
  EXPECT_EQ(value_of("files/0", "user.reshardfs.dtype"), "Float32");
  EXPECT_EQ(value_of("files/0", "user.reshardfs.ranks"), std::string("0\0001", 3));
  EXPECT_EQ(value_of("files/0", "user.reshardfs.sha256"), std::string(64, 'a'));
  EXPECT_EQ(value_of("files/0", "user.reshardfs.empty"), "");
  EXPECT_EQ(size_of("files/0", "user.reshardfs.dtype"), 7);
  EXPECT_EQ(size_of("files/0", "user.reshardfs.empty"), 0);
  const int fd = ::open(at("files/0").c_str(), O_RDONLY | O_CLOEXEC);
  std::array<char, 16> buffer{};
  EXPECT_EQ(::fgetxattr(fd, "user.reshardfs.dtype", buffer.data(), buffer.size()), 7);
  ::close(fd);
}

TEST_F(FuseAttributes, TheBufferMustHoldTheValue) {
  EXPECT_EQ(value_of("files/0", "user.reshardfs.dtype", 7), "Float32");
  EXPECT_EQ(value_of("files/0", "user.reshardfs.dtype", 6), "ERANGE");
  EXPECT_EQ(value_of("files/0", "user.reshardfs.longest").size(), kMaxValue);
  EXPECT_EQ(size_of("files/0", "user.reshardfs.longest"), static_cast<ssize_t>(kMaxValue));
  EXPECT_EQ(value_of("files/0", "user.reshardfs.too_long"), "E2BIG");
  EXPECT_EQ(size_of("files/0", "user.reshardfs.too_long"), -1);
  EXPECT_EQ(errno, E2BIG);
}

TEST_F(FuseAttributes, OtherNamesAreENODATA) {
  for (const char* name : {"user.reshardfs.nothing", "user.reshardfs.", "user.reshardfsdtype",
                           "user.dtype", "security.capability", "trusted.x"}) {
    EXPECT_EQ(value_of("files/0", name), "ENODATA") << name;
  }
  EXPECT_EQ(value_of("plain", "user.reshardfs.dtype"), "ENODATA");
  EXPECT_EQ(value_of("files", "user.reshardfs.dtype"), "ENODATA");
  EXPECT_EQ(value_of("", "user.reshardfs.dtype"), "ENODATA");
}

TEST_F(FuseAttributes, OnlyTheCheapOnesAreListed) {
  const std::string expected("user.reshardfs.dtype\0user.reshardfs.ranks\0", 42);
  EXPECT_EQ(listing_of("files/0"), expected);
  EXPECT_EQ(::listxattr(at("files/0").c_str(), nullptr, 0), 42);
  std::array<char, 41> small{};
  EXPECT_EQ(::listxattr(at("files/0").c_str(), small.data(), small.size()), -1);
  EXPECT_EQ(errno, ERANGE);
  for (const char* name : {"plain", "files", ""}) {
    EXPECT_EQ(listing_of(name), "") << name;
    EXPECT_EQ(::listxattr(at(name).c_str(), nullptr, 0), 0) << name;
  }
}

TEST_F(FuseAttributes, ErrorsAreThoseOfReads) {
  EXPECT_EQ(value_of("files/0", "user.reshardfs.changed"), "ESTALE");
  EXPECT_EQ(value_of("files/0", "user.reshardfs.memory"), "ENOMEM");
  EXPECT_EQ(value_of("files/0", "user.reshardfs.dtype"), "Float32");
}

TEST_F(FuseAttributes, CostlyOnesKeepNothingElseWaiting) {
  std::vector<std::thread> askers;
  std::atomic<int> right = 0;
  for (int i = 0; i < 40; ++i) {
    askers.emplace_back([&, i] {
      if (value_of("files/" + std::to_string(i), "user.reshardfs.stalled") == "at last") ++right;
    });
  }
  EXPECT_TRUE(eventually([&] { return shared->waiting >= 4; }));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(shared->waiting, 4) << "the others are queued";
  const auto start = Clock::now();
  for (int i = 0; i < 40; ++i) {
    struct stat stat {};
    const std::string file = "files/" + std::to_string(i);
    EXPECT_EQ(::stat(at("absent" + std::to_string(i)).c_str(), &stat), -1);
    EXPECT_TRUE(is_pattern(read_file(at(file)), 0));
    EXPECT_EQ(value_of(file, "user.reshardfs.dtype"), "Float32");
    EXPECT_EQ(value_of(file, "security.capability"), "ENODATA");
    EXPECT_EQ(listing_of(file).size(), 42U);
  }
  EXPECT_LT(Clock::now() - start, 30s);
  shared->released = true;
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(right, 40);
}

}  // namespace
}  // namespace reshardfs::testing_mount
