// SPDX-License-Identifier: Apache-2.0
/// Mounts of a tree whose steps come and go, and do not always answer.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "test_mount.h"
#include "vfs/step_tree.h"

namespace reshardfs::testing_mount {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::ElementsAre;

/// A directory with a file for each step; what stands in it tells how the step behaves: a number is
/// the size of its one file, "broken" and "stalled" are what they say. A file "stall" makes looking
/// for steps itself stall.
class StepFiles {
 public:
  explicit StepFiles(Shared& shared) : shared_(shared) {}
  ~StepFiles() {
    for (const auto& entry : fs::directory_iterator(path())) fs::remove(entry.path());
  }
  StepFiles(const StepFiles&) = delete;
  StepFiles& operator=(const StepFiles&) = delete;

  void put(const std::string& step, const std::string& what) const {
    std::ofstream(path() / ("." + step)) << what;
    fs::rename(path() / ("." + step), path() / step);
  }
  void remove(const std::string& step) const { fs::remove(path() / step); }

  std::unique_ptr<TreeSource> source() const {
    StepTree::Callbacks callbacks;
    callbacks.list = [this](const std::set<std::string>&) {
      StepTree::Listing listing;
      for (const std::string& step : list()) listing.steps.push_back({step, step});
      return listing;
    };
    callbacks.open = [this](const std::string& step, TreeBuilder& builder) {
      open(step, builder);
      return step;
    };
    callbacks.report = [this](const std::string&, const Error&) { ++shared_.reads; };
    return std::make_unique<StepTree>(std::move(callbacks));
  }

 private:
  const fs::path& path() const { return directory_.path(); }

  void stall() const {
    ++shared_.waiting;
    while (!shared_.released) std::this_thread::sleep_for(2ms);
    --shared_.waiting;
  }

  std::vector<std::string> list() const {
    if (fs::exists(path() / "stall")) stall();
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path())) {
      const std::string name = entry.path().filename();
      if (name.front() != '.' && name != "stall") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  void open(const std::string& step, TreeBuilder& builder) const {
    std::string what;
    std::ifstream(path() / step) >> what;
    if (what == "broken") throw Error(ErrorKind::kBadInput, "broken");
    if (what == "stalled") {
      stall();
      what = "10";
    }
    builder.add_file("rank_0/a", std::make_shared<PatternFile>(std::stoull(what)));
    builder.add_directory("rank_1");
    builder.add_file(".reshardfs/status.json", std::make_shared<PatternFile>(20));
    builder.hide(".reshardfs");
  }

  TemporaryDirectory directory_;
  Shared& shared_;
};

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

ino_t inode_of(const fs::path& path) {
  struct stat stat {};
  EXPECT_EQ(::stat(path.c_str(), &stat), 0) << path << ": " << std::strerror(errno);
  return stat.st_ino;
}

int errno_of_stat(const fs::path& path) {
  struct stat stat {};
  return ::stat(path.c_str(), &stat) == 0 ? 0 : errno;
}

class FuseSteps : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_FUSE();
    steps = std::make_unique<StepFiles>(*shared);
    steps->put("s1", "5000");
    steps->put("s2", "70000");
  }
  void TearDown() override { shared->released = true; }

  void mount_it() {
    mount = std::make_unique<TestMount>([this] { return steps->source(); });
    ASSERT_TRUE(mount->live());
  }
  fs::path at(const std::string& name) const { return *mount / name; }
  /// Waits for what the next look at the source, a second from now at the latest, must show.
  static bool soon(const std::function<bool()>& condition) { return eventually(condition); }

  SharedMemory shared;
  std::unique_ptr<StepFiles> steps;
  std::unique_ptr<TestMount> mount;
};

TEST_F(FuseSteps, ShowsEachStepAndALinkToTheNewest) {
  mount_it();
  EXPECT_THAT(names_in(mount->path()), ElementsAre("latest", "steps"));
  EXPECT_THAT(names_in(at("steps")), ElementsAre("s1", "s2"));
  EXPECT_EQ(fs::read_symlink(at("latest")), "steps/s2");
  EXPECT_TRUE(fs::is_symlink(at("latest")));
  EXPECT_THAT(names_in(at("steps/s1")), ElementsAre("rank_0", "rank_1"));
  EXPECT_EQ(read_file(at("steps/s1/rank_0/a")).size(), 5000U);
  EXPECT_EQ(read_file(at("latest/rank_0/a")).size(), 70000U);
  EXPECT_TRUE(is_pattern(read_file(at("latest/rank_0/a")), 0));
  EXPECT_EQ(inode_of(at("latest/rank_0/a")), inode_of(at("steps/s2/rank_0/a")));
  EXPECT_EQ(inode_of(at("steps/s1/..")), inode_of(at("steps")));
  EXPECT_EQ(errno_of_stat(at("steps/s3")), ENOENT);
  EXPECT_EQ(::open(at("steps/s1/rank_0/a").c_str(), O_WRONLY | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EROFS);
}

TEST_F(FuseSteps, EachStepHasItsHiddenDirectory) {
  mount_it();
  // Also as the very first thing that is asked of a step that nobody has opened.
  EXPECT_THAT(names_in(at("steps/s1/.reshardfs")), ElementsAre("status.json"));
  EXPECT_EQ(read_file(at("latest/.reshardfs/status.json")).size(), 20U);
  EXPECT_THAT(names_in(at("steps/s1")), ElementsAre("rank_0", "rank_1"));
  EXPECT_TRUE(soon([&] { return fs::hard_link_count(at("steps/s1")) == 4; }));
  EXPECT_EQ(inode_of(at("steps/s1/.reshardfs/..")), inode_of(at("steps/s1")));
  EXPECT_NE(inode_of(at("steps/s1/.reshardfs")), inode_of(at("steps/s2/.reshardfs")));
  EXPECT_EQ(errno_of_stat(at(".reshardfs")), ENOENT) << "it belongs to a step";
  for (const auto& entry : fs::recursive_directory_iterator(at("steps"))) {
    EXPECT_NE(entry.path().filename(), ".reshardfs");
  }
}

TEST_F(FuseSteps, ANewStepAppearsAndTheLinkMoves) {
  mount_it();
  const ino_t file = inode_of(at("steps/s1/rank_0/a"));
  EXPECT_EQ(errno_of_stat(at("steps/s3")), ENOENT);
  steps->put("s3", "333");
  EXPECT_TRUE(soon([&] { return names_in(at("steps")).size() == 3; }));
  EXPECT_TRUE(soon([&] { return fs::read_symlink(at("latest")) == "steps/s3"; }));
  EXPECT_TRUE(soon([&] { return errno_of_stat(at("steps/s3/rank_0/a")) == 0; }));
  EXPECT_TRUE(soon([&] { return read_file(at("latest/rank_0/a")).size() == 333; }));
  EXPECT_EQ(inode_of(at("steps/s1/rank_0/a")), file);
}

TEST_F(FuseSteps, ALookupAloneFindsANewStep) {
  mount_it();
  steps->put("s3", "333");
  EXPECT_TRUE(soon([&] { return read_file(at("steps/s3/rank_0/a")).size() == 333; }));
}

TEST_F(FuseSteps, AnOpenFileOfADeletedStepStaysReadable) {
  mount_it();
  const int fd = ::open(at("steps/s1/rank_0/a").c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  ASSERT_GE(fd, 0);
  steps->remove("s1");
  EXPECT_TRUE(soon([&] { return names_in(at("steps")) == std::vector<std::string>{"s2"}; }));
  EXPECT_TRUE(soon([&] { return errno_of_stat(at("steps/s1")) == ENOENT; }));
  EXPECT_EQ(errno_of_stat(at("steps/s1/rank_0/a")), ENOENT);
  std::string bytes(5000, '\0');
  EXPECT_EQ(::pread(fd, bytes.data(), bytes.size(), 0), 5000);
  EXPECT_TRUE(is_pattern(bytes, 0));
  struct stat stat {};
  EXPECT_EQ(::fstat(fd, &stat), 0);
  ::close(fd);
}

TEST_F(FuseSteps, AStepThatComesBackHasItsNewContents) {
  mount_it();
  EXPECT_EQ(read_file(at("steps/s1/rank_0/a")).size(), 5000U);
  const ino_t before = inode_of(at("steps/s1"));
  steps->remove("s1");
  EXPECT_TRUE(soon([&] { return errno_of_stat(at("steps/s1")) == ENOENT; }));
  steps->put("s1", "123");
  EXPECT_TRUE(soon([&] { return read_file(at("steps/s1/rank_0/a")).size() == 123; }));
  EXPECT_NE(inode_of(at("steps/s1")), before);
}

TEST_F(FuseSteps, ABrokenStepFailsAlone) {
  steps->put("s3", "broken");
  mount_it();
  EXPECT_THAT(names_in(at("steps")), ElementsAre("s1", "s2", "s3"));
  EXPECT_EQ(errno_of_stat(at("steps/s3")), 0) << "that it is there can be seen";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(::open(at("steps/s3").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), -1);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(errno_of_stat(at("steps/s3/rank_0")), EIO);
  }
  EXPECT_EQ(shared->reads, 1) << "told once";
  EXPECT_EQ(read_file(at("steps/s1/rank_0/a")).size(), 5000U);
}

TEST_F(FuseSteps, AListingUnderWayIsNotMixedWithTheNextGeneration) {
  for (int i = 0; i < 300; ++i) steps->put("t" + std::to_string(1000 + i), "1");
  mount_it();
  fs::directory_iterator listing(at("steps"));
  std::vector<std::string> names{listing->path().filename()};
  for (int i = 0; i < 200; ++i) steps->remove("t" + std::to_string(1000 + i));
  EXPECT_TRUE(soon([&] { return names_in(at("steps")).size() == 102; }));
  while (++listing != fs::directory_iterator()) names.push_back(listing->path().filename());
  EXPECT_EQ(names.size(), 302U);
}

TEST_F(FuseSteps, AStalledStepKeepsNothingElseWaiting) {
  for (const char* name : {"s3", "s4", "s5"}) steps->put(name, "stalled");
  mount_it();
  EXPECT_EQ(names_in(at("steps")).size(), 5U);
  std::vector<std::thread> readers;
  std::atomic<int> right = 0;
  for (int i = 0; i < 30; ++i) {
    readers.emplace_back([&, i] {
      const std::string step = "s" + std::to_string(3 + i % 3);
      if (read_file(at("steps/" + step + "/rank_0/a")).size() == 10) ++right;
    });
  }
  EXPECT_TRUE(eventually([&] { return shared->waiting == 3; }));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(shared->waiting, 3) << "each is opened once";
  const auto start = Clock::now();
  EXPECT_EQ(read_file(at("steps/s1/rank_0/a")).size(), 5000U);
  EXPECT_EQ(names_in(at("steps/s2")).size(), 2U);
  EXPECT_LT(Clock::now() - start, 30s);
  shared->released = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(right, 30);
}

TEST_F(FuseSteps, AStalledSourceDelaysAListingOnceAndNothingElse) {
  mount_it();
  EXPECT_EQ(read_file(at("steps/s1/rank_0/a")).size(), 5000U);
  steps->put("stall", "");
  EXPECT_TRUE(soon([&] {
    names_in(at("steps"));
    return shared->waiting == 1;
  }));
  std::this_thread::sleep_for(250ms);
  const auto start = Clock::now();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(names_in(at("steps")).size(), 2U);
    EXPECT_EQ(names_in(at("latest")).size(), 2U);
    EXPECT_EQ(errno_of_stat(at("steps/absent" + std::to_string(i))), ENOENT);
    EXPECT_EQ(read_file(at("steps/s2/rank_0/a")).size(), 70000U);
  }
  EXPECT_LT(Clock::now() - start, 30s);
}

TEST_F(FuseSteps, EndsWhileASourceIsStalled) {
  steps->put("s3", "stalled");
  for (const bool opening : {true, false}) {
    mount_it();
    std::thread reader([&] {
      if (opening) read_file(at("steps/s3/rank_0/a"));
    });
    if (!opening) steps->put("stall", "");
    EXPECT_TRUE(soon([&] {
      names_in(at("steps"));
      return shared->waiting == 1;
    }));
    const auto start = Clock::now();
    mount->send(SIGTERM);
    reader.join();
    EXPECT_LT(Clock::now() - start, 30s);
    EXPECT_EQ(mount->wait_for_exit(), 0);
    EXPECT_FALSE(mount->is_mounted());
    shared->waiting = 0;
  }
}

TEST_F(FuseSteps, EndsCleanlyWithOpenFilesAndListings) {
  mount_it();
  const int file = ::open(at("steps/s1/rank_0/a").c_str(), O_RDONLY | O_CLOEXEC);
  const int directory = ::open(at("steps").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_GE(directory, 0);
  ::close(directory);
  mount->send(SIGTERM);
  EXPECT_EQ(mount->wait_for_exit(), 0);
  ::close(file);
  EXPECT_FALSE(mount->is_mounted());
}

TEST_F(FuseSteps, StepsComeAndGoUnderReaders) {
  mount_it();
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        for (const char* path : {"steps/s1/rank_0/a", "latest/rank_0/a", "steps/s3/rank_0/a"}) {
          const std::string bytes = read_file(at(path));
          if (!is_pattern(bytes, 0)) ++wrong;
          if (path[7] == '1' && bytes.size() != 5000) ++wrong;
        }
      }
    });
  }
  for (int i = 0; i < 4; ++i) {
    steps->put("s3", std::to_string(1000 + i));
    EXPECT_TRUE(soon([&] { return names_in(at("steps")).size() == 3; }));
    EXPECT_TRUE(soon([&] { return fs::exists(at("steps/s3/rank_0/a")); }));
    EXPECT_EQ(fs::file_size(at("steps/s3/rank_0/a")), 1000U + static_cast<unsigned>(i));
    steps->remove("s3");
    EXPECT_TRUE(soon([&] { return names_in(at("steps")).size() == 2; }));
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace reshardfs::testing_mount
