// SPDX-License-Identifier: Apache-2.0
/// Extended attributes: which of them wait, and how a failure is told.
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/process/counters.h"
#include "support/recorded_log.h"
#include "unit/fuse/operations_fixture.h"

namespace reshardfs::test {
namespace {

using testing::ElementsAre;
using testing_protocol::getxattr_body;

class AttributedFile final : public VirtualFile {
 public:
  std::uint64_t size() const override { return 1; }
  void read_at(std::uint64_t, std::span<std::byte>) const override {}
  std::vector<std::string> attribute_names() const override {
    if (fails) throw std::runtime_error("no list");
    return {"first", "last"};
  }
  std::optional<std::string> attribute(std::string_view name) const override {
    if (name != "failing") return std::string(name);
    throw Error(ErrorKind::kIo, "no value").in_file("x.ckpt").for_parameter("w").os_error(EACCES);
  }

  bool fails = false;
};

class AttributeOperations : public OperationsTest {
 protected:
  AttributeOperations() {
    TreeBuilder builder;
    builder.add_file("file", file);
    source.show(std::make_shared<const Tree>(std::move(builder).build()));
    inode = source.current()->lookup(kRootInode, "file")->inode;
  }
  static std::string asked(const std::string& name) {
    return getxattr_body("user.reshardfs." + name, 100);
  }

  std::shared_ptr<AttributedFile> file = std::make_shared<AttributedFile>();
  InodeNumber inode = 0;
};

TEST_F(AttributeOperations, ListedOnesDoNotWaitForThoseThatReadWholeFiles) {
  std::deque<Step> steps;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kLimits(WaitClass::kAttribute).permits; ++i) {
    Step& step = steps.emplace_back();
    threads.emplace_back([this, &step] {
      served.storage.submit(nullptr, WaitClass::kAttribute, 0, [&step] {
        step.begin();
        return Reply::error(0);
      });
    });
    step.wait_until_begun();
  }
  EXPECT_EQ(call(FUSE_GETXATTR, inode, asked("first")).body, "first");
  EXPECT_EQ(call(FUSE_GETXATTR, inode, asked("last")).body, "last");
  ask_in_vain(FUSE_GETXATTR, inode, asked("other"));
  for (Step& step : steps) step.let_go();
  EXPECT_EQ(kernel.answer().body, "other");
  for (std::thread& thread : threads) thread.join();
}

TEST_F(AttributeOperations, AFailureIsToldToTheProgramAndTheLog) {
  struct Line {
    LogEvent event;
    LogFields fields;
    std::string text;
  };
  std::vector<Line> lines;
  const RecordedLog log([&lines](auto, std::string_view text) {
    ASSERT_NE(LogScope::current(), nullptr);
    lines.push_back(
        {LogScope::current()->event(), LogScope::current()->fields(), std::string(text)});
  });
  const auto failures = counters().values().request_failures;
  EXPECT_EQ(error_of(FUSE_GETXATTR, inode, asked("failing")), EACCES);
  file->fails = true;
  EXPECT_EQ(error_of(FUSE_GETXATTR, inode, asked("first")), EIO);
  EXPECT_EQ(counters().values().request_failures, failures + 2);

  ASSERT_EQ(lines.size(), 2U);
  for (const Line& line : lines) {
    EXPECT_EQ(line.event, LogEvent::kRequestFailed);
    EXPECT_EQ(line.fields.operation, "getxattr");
    EXPECT_EQ(line.fields.file, "file");
    EXPECT_EQ(line.fields.client_pid, ::getpid());
    EXPECT_THAT(line.text, testing::StartsWith("getxattr of '/file': "));
  }
  EXPECT_EQ(lines[0].fields.source_file, "x.ckpt");
  EXPECT_EQ(lines[0].fields.parameter, "w");
  EXPECT_EQ(lines[0].fields.error, EACCES);
  EXPECT_THAT(lines[0].text, testing::HasSubstr("no value"));
  EXPECT_EQ(lines[1].fields.source_file, "");
  EXPECT_EQ(lines[1].fields.error, EIO);
  EXPECT_THAT(lines[1].text, testing::EndsWith(": no list"));
}

}  // namespace
}  // namespace reshardfs::test
