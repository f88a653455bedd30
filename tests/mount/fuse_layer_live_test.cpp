// SPDX-License-Identifier: Apache-2.0
/// Files whose contents change: what each opening sees, and what a mount's counters say.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/posix/mount_table.h"
#include "base/process/counters.h"
#include "base/text/metrics_text.h"
#include "test_mount.h"

namespace reshardfs::testing_mount {
namespace {

using namespace std::chrono_literals;

/// A text that stays as it is; `waiting` counts how many there are.
class Text : public VirtualFile {
 public:
  Text(std::string text, Shared& shared) : text_(std::move(text)), shared_(shared) {
    ++shared_.waiting;
  }
  ~Text() override { --shared_.waiting; }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  std::uint64_t size() const override { return text_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (text_ == "broken") throw Error(ErrorKind::kIo, "x").os_error(ETIMEDOUT);
    std::memcpy(out.data(), text_.data() + offset, out.size());
  }

 private:
  std::string text_;
  Shared& shared_;
};

class LiveFile : public VirtualFile {
 public:
  LiveFile(Shared& shared, std::function<std::string()> make)
      : shared_(shared), make_(std::move(make)) {}
  std::uint64_t size() const override { return 0; }
  void read_at(std::uint64_t, std::span<std::byte> out) const override {
    if (!out.empty()) throw Error(ErrorKind::kBadInput, "beyond the end");
  }
  std::shared_ptr<const VirtualFile> snapshot() const override {
    return std::make_shared<Text>(make_(), shared_);
  }

 private:
  Shared& shared_;
  std::function<std::string()> make_;
};

/// The n-th opening sees "n" and then a line of 5000 letters.
std::string numbered(Shared& shared) {
  return std::to_string(++shared.reads) + '\n' + std::string(5000, 'x') + '\n';
}

std::string output_of(const std::string& command) {
  std::string output;
  std::array<char, 4096> buffer{};
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  for (std::size_t got = 1; got > 0;) {
    got = std::fread(buffer.data(), 1, buffer.size(), pipe);
    output.append(buffer.data(), got);
  }
  ::pclose(pipe);
  return output;
}

class FuseLive : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_FUSE();
    mount = std::make_unique<TestMount>([this](TreeBuilder& builder) {
      Shared& all = *shared;
      const auto add = [&](const char* name, std::function<std::string()> make) {
        builder.add_file(name, std::make_shared<LiveFile>(all, std::move(make)));
      };
      add(".reshardfs/number", [&all] { return numbered(all); });
      add(".reshardfs/empty", [] { return ""; });
      add(".reshardfs/metrics", [] {
        MetricsText text("/m");
        counters().write_metrics(text);
        return std::move(text).take();
      });
      add(".reshardfs/broken", [] { return "broken"; });
      add(".reshardfs/refused", []() -> std::string { throw Error(ErrorKind::kChanged, "x"); });
      add(".reshardfs/slow", [&all] {
        all.reads = 1000;
        while (!all.released) std::this_thread::sleep_for(2ms);
        return "slow";
      });
      builder.hide(".reshardfs");
      builder.add_file("plain", std::make_shared<PatternFile>(300000));
      builder.add_file("changed", std::make_shared<HookedFile>(10, [](std::uint64_t) {
                         throw Error(ErrorKind::kChanged, "x");
                       }));
    });
    ASSERT_TRUE(mount->live());
  }
  void TearDown() override { shared->released = true; }

  fs::path at(const std::string& name) const { return *mount / name; }
  /// How many snapshots there are.
  int snapshots() const { return shared->waiting; }
  bool no_snapshots_soon() const {
    return eventually([this] { return snapshots() == 0; });
  }
  /// The sum of all samples of a name.
  /// @param label of those that count, `name="value"`; empty: all.
  double metric(const std::string& name, const std::string& label = "") const {
    std::istringstream lines(read_file(at(".reshardfs/metrics")));
    const std::string begin = name + "{mount=\"/m\"";
    double sum = 0;
    bool found = false;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with(begin) || line.find(label) == std::string::npos) continue;
      sum += std::stod(line.substr(line.rfind(' ')));
      found = true;
    }
    EXPECT_TRUE(found) << name << ' ' << label;
    return sum;
  }

  SharedMemory shared;
  std::unique_ptr<TestMount> mount;
};

TEST_F(FuseLive, EachOpeningSeesThePresentContents) {
  EXPECT_EQ(read_file(at(".reshardfs/number")).substr(0, 2), "1\n");
  EXPECT_EQ(read_file(at(".reshardfs/number")).substr(0, 2), "2\n");
  EXPECT_EQ(read_file(at(".reshardfs/number")).size(), 2 + 5001U);
  EXPECT_EQ(read_file(at(".reshardfs/empty")), "");
  struct stat stat {};
  ASSERT_EQ(::stat(at(".reshardfs/number").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_size, 0);
  EXPECT_EQ(stat.st_mode, S_IFREG | 0444U);
  EXPECT_EQ(::open(at(".reshardfs/number").c_str(), O_WRONLY | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_TRUE(no_snapshots_soon());
}

TEST_F(FuseLive, AnOpeningKeepsItsContents) {
  const int first = ::open(at(".reshardfs/number").c_str(), O_RDONLY | O_CLOEXEC);
  const int second = ::open(at(".reshardfs/number").c_str(), O_RDONLY | O_CLOEXEC);
  for (int round = 0; round < 3; ++round) {
    char byte = 0;
    EXPECT_EQ(::pread(first, &byte, 1, 0), 1);
    EXPECT_EQ(byte, '1');
    EXPECT_EQ(::pread(second, &byte, 1, 0), 1);
    EXPECT_EQ(byte, '2');
    EXPECT_EQ(::pread(first, &byte, 1, 5002), 1);
    EXPECT_EQ(byte, '\n');
    EXPECT_EQ(::pread(first, &byte, 1, 5003), 0);
    EXPECT_EQ(::pread(first, &byte, 1, 1 << 20), 0);
  }
  EXPECT_EQ(snapshots(), 2);
  ::close(first);
  EXPECT_TRUE(eventually([&] { return snapshots() == 1; }));
  ::close(second);
  EXPECT_TRUE(no_snapshots_soon());
}

TEST_F(FuseLive, UsualProgramsReadThem) {
  const std::string file = at(".reshardfs/number");
  EXPECT_EQ(output_of("cat " + file).size(), 5003U);
  EXPECT_EQ(output_of("head -1 " + file), "2\n");
  EXPECT_EQ(output_of("tail -c 3 " + file), "xx\n");
  EXPECT_EQ(output_of("grep -c x " + file), "1\n");
  EXPECT_EQ(output_of("dd bs=1 count=1 status=none if=" + file), "5");
  const TemporaryDirectory directory;
  const fs::path copy = directory.path() / "copy";
  EXPECT_EQ(output_of("cp " + file + ' ' + copy.native()), "");
  EXPECT_EQ(fs::file_size(copy), 5003U);
  fs::remove(copy);
}

TEST_F(FuseLive, ErrorsBelongToTheOpeningOrTheRead) {
  EXPECT_EQ(::open(at(".reshardfs/refused").c_str(), O_RDONLY | O_CLOEXEC), -1);
  EXPECT_EQ(errno, ESTALE);
  EXPECT_EQ(errno_of_reading(at(".reshardfs/broken")), ETIMEDOUT);
  EXPECT_TRUE(no_snapshots_soon());
}

TEST_F(FuseLive, ManyOpeningsAtOnceLeaveNothingBehind) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        if (read_file(at(".reshardfs/number")).find('\n') > 4) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(shared->reads, 1600);
  EXPECT_TRUE(no_snapshots_soon());
}

TEST_F(FuseLive, KilledProgramsLeaveNothingBehind) {
  for (int i = 0; i < 50; ++i) {
    const pid_t reader = ::fork();
    if (reader == 0) {
      for (;;) read_file(at(".reshardfs/number"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 7));
    ::kill(reader, SIGKILL);
    ::waitpid(reader, nullptr, 0);
  }
  EXPECT_TRUE(no_snapshots_soon());
}

TEST_F(FuseLive, AnAnswerThatNobodyTakesLeavesNothingBehind) {
  const auto entry = mount_at(mount->path());
  ASSERT_TRUE(entry);
  const std::string minor = entry->device.substr(entry->device.find(':') + 1);
  std::ofstream abort_file("/sys/fs/fuse/connections/" + minor + "/abort");
  if (!abort_file) GTEST_SKIP() << "fusectl is not mounted";
  std::thread opener([&] { EXPECT_EQ(errno_of_reading(at(".reshardfs/slow")), ECONNABORTED); });
  EXPECT_TRUE(eventually([&] { return shared->reads == 1000; }));
  abort_file << 1 << std::flush;
  opener.join();
  shared->released = true;
  EXPECT_EQ(mount->wait_for_exit(), 0);
  EXPECT_EQ(snapshots(), 0);
}

TEST_F(FuseLive, FilesThatAreOpenAtTheEndLeaveNothingBehind) {
  const int file = ::open(at(".reshardfs/number").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_EQ(snapshots(), 1);
  mount->send(SIGTERM);
  EXPECT_EQ(mount->wait_for_exit(), 0);
  EXPECT_EQ(snapshots(), 0);
  ::close(file);
}

TEST_F(FuseLive, TheCountersTellWhatTheMountDid) {
  const double reads = metric("reshardfs_requests_total", "operation=\"read\"");
  const double opens = metric("reshardfs_requests_total", "operation=\"open\"");
  const double lookups = metric("reshardfs_requests_total", "operation=\"lookup\"");
  const double bytes = metric("reshardfs_read_bytes_total");
  const std::size_t text_bytes = read_file(at(".reshardfs/metrics")).size();

  EXPECT_EQ(read_file(at("plain")).size(), 300000U);
  EXPECT_EQ(errno_of_reading(at("changed")), ESTALE);
  struct stat stat {};
  for (int i = 0; i < 5; ++i) ::stat(at("absent" + std::to_string(i)).c_str(), &stat);
  EXPECT_EQ(std::distance(fs::directory_iterator(mount->path()), {}), 2);

  EXPECT_GE(metric("reshardfs_requests_total", "operation=\"lookup\""), lookups + 7);
  EXPECT_GE(metric("reshardfs_requests_total", "operation=\"open\""), opens + 5);
  EXPECT_GE(metric("reshardfs_requests_total", "operation=\"read\""), reads + 5);
  EXPECT_GE(metric("reshardfs_requests_total", "operation=\"readdir\""), 1);
  const double delivered = metric("reshardfs_read_bytes_total") - bytes;
  EXPECT_GE(delivered, 300000);
  EXPECT_LE(delivered, 300000 + 10 * (static_cast<double>(text_bytes) + 100));
  EXPECT_GE(metric("reshardfs_read_errors_total", "errno=\"ESTALE\""), 1);
  EXPECT_EQ(metric("reshardfs_read_errors_total", "errno=\"EIO\""), 0);
  EXPECT_EQ(metric("reshardfs_reads_in_flight"), 0);
  const double count = metric("reshardfs_read_duration_seconds_count");
  EXPECT_GE(count, 5);
  EXPECT_GE(metric("reshardfs_read_duration_seconds_bucket", "le=\"10\""), count);
}

}  // namespace
}  // namespace reshardfs::testing_mount
