// SPDX-License-Identifier: Apache-2.0
/// The operations of a mount: each request is answered once, and nothing is left of one that
/// failed.
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/process/counters.h"
#include "failing_allocations.h"
#include "storage/descriptor_pool.h"
#include "support/sources.h"
#include "unit/fuse/operations_fixture.h"

namespace reshardfs::no_memory {
namespace {

using testing_protocol::bytes_of;
using testing_protocol::getxattr_body;
using testing_protocol::listxattr_body;
using testing_protocol::open_body;
using testing_protocol::read_body;
using testing_protocol::release_body;

const std::string kLongName(200, 'n');

/// A source that counts its checks.
class CheckedSource final : public test::Decorator {
 public:
  CheckedSource() : Decorator(std::make_shared<test::MemorySource>("bytes")) {}
  void check_unchanged() const override { ++checks; }
  DescriptorPtr descriptor() const override { return descriptor_; }

  mutable int checks = 0;

 private:
  DescriptorPtr descriptor_ = std::make_shared<const Descriptor>(-1);
};

class File final : public testing_vfs::SizedFile {
 public:
  explicit File(ByteSourcePtr source) : SizedFile(10), source_(std::move(source)) {}
  std::vector<std::string> attribute_names() const override { return {kLongName}; }
  std::optional<std::string> attribute(std::string_view name) const override {
    return std::string(name);
  }
  ByteSourcePtr equal_source() const override { return source_; }

 private:
  ByteSourcePtr source_;
};

class Operations : public test::OperationsTest {
 protected:
  Operations() {
    TreeBuilder builder;
    builder.add_file("dir/" + kLongName, std::make_shared<File>(equal));
    builder.add_file("changing/file", std::make_shared<File>(nullptr));
    builder.set_changing("changing");
    builder.add_link("link", kLongName);
    source.show(std::make_shared<const Tree>(std::move(builder).build()));
    source.closed_trees.reserve(100'000);
  }
  InodeNumber node(const std::vector<std::string>& names) const {
    return testing_vfs::resolve(*source.current(), names)->inode;
  }

  /// @param bytes of the request; `check` may make the next one of them.
  void send_with_each_failing(const std::string& bytes, const std::function<void()>& check) {
    with_each_failing(
        Threads::kThisOne,
        [&] {
          kernel.send(bytes);
          session.process_one();
        },
        check);
  }

  /// @param undo is told what the request was answered, if not with an error.
  void ask_with_each_failing(std::uint32_t opcode, InodeNumber inode, const std::string& body,
                             const std::function<void(const test::KernelAnswer&)>& undo = {}) {
    SCOPED_TRACE("opcode " + std::to_string(opcode));
    std::string bytes;
    std::uint64_t failures_before = 0;
    const auto prepare = [&] {
      request_number() = kernel.next_unique();
      failures_before = counters().values().request_failures;
      bytes = kernel.request(opcode, inode, body);
    };
    prepare();
    send_with_each_failing(bytes, [&] {
      ASSERT_TRUE(kernel.has_answer());
      const test::KernelAnswer answer = kernel.answer();
      EXPECT_TRUE(answer.error == 0 || answer.error == ENOMEM) << answer.error;
      EXPECT_FALSE(kernel.has_answer()) << "a second one";
      if (answer.error != 0 && is_logged) {
        EXPECT_EQ(counters().values().request_failures, failures_before + 1);
      }
      if (answer.error == 0 && undo) undo(answer);
      prepare();
    });
  }

  std::shared_ptr<CheckedSource> equal = std::make_shared<CheckedSource>();
  bool is_logged = true;  ///< whatever fails
};

TEST_F(Operations, AreAnsweredOnce) {
  const InodeNumber dir = node({"dir"});
  const InodeNumber file = node({"dir", kLongName});
  const InodeNumber changing = node({"changing"});
  const std::uint64_t handle = open(file);
  const std::uint64_t listing = open(changing, FUSE_OPENDIR);
  ask_with_each_failing(FUSE_LOOKUP, dir, test::name_body(kLongName));
  ask_with_each_failing(FUSE_LOOKUP, changing, test::name_body(kLongName));
  ask_with_each_failing(FUSE_GETATTR, file, bytes_of(fuse_getattr_in{}));
  ask_with_each_failing(FUSE_READLINK, node({"link"}), {});
  ask_with_each_failing(FUSE_READ, file, read_body(handle, 0, 10));
  ask_with_each_failing(FUSE_READDIR, dir, read_body(0, 0, 4096));
  ask_with_each_failing(FUSE_READDIRPLUS, changing, read_body(listing, 0, 4096));
  ask_with_each_failing(FUSE_GETXATTR, file, getxattr_body("user.reshardfs." + kLongName, 300));
  ask_with_each_failing(FUSE_LISTXATTR, file, listxattr_body(300));
  ask_with_each_failing(FUSE_STATFS, kRootInode, {});
  is_logged = false;
  ask_with_each_failing(FUSE_READ, file, read_body(4711, 0, 10));
}

TEST_F(Operations, LeaveNothingOfAnOpeningThatFailed) {
  is_logged = false;
  const auto expect_nothing = [this] {
    EXPECT_EQ(served.files.count(), 0U);
    EXPECT_EQ(served.listings.count(), 0U);
    EXPECT_EQ(served.openings->count(), 0U);
  };
  for (const auto& [opens, closes, inode] :
       {std::tuple{FUSE_OPEN, FUSE_RELEASE, node({"dir", kLongName})},
        std::tuple{FUSE_OPENDIR, FUSE_RELEASEDIR, node({"changing"})},
        std::tuple{FUSE_OPENDIR, FUSE_RELEASEDIR, node({"dir"})}}) {
    ask_with_each_failing(static_cast<std::uint32_t>(opens), inode, open_body(0),
                          [&, closing = static_cast<std::uint32_t>(closes),
                           node = inode](const test::KernelAnswer& answer) {
                            const auto handle = test::as<fuse_open_out>(answer.body).fh;
                            EXPECT_EQ(error_of(closing, node, release_body(handle)), 0);
                            expect_nothing();
                          });
    expect_nothing();
  }
}

TEST_F(Operations, CheckWhatTheKernelHasReadOrSayThatTheyCannot) {
  served.passthrough.files = std::make_unique<BackingFiles>(
      BackingFiles::Kernel{.add = [](int) { return 1; }, .remove = [](std::int32_t) {}});
  served.passthrough.on = true;
  const InodeNumber file = node({"dir", kLongName});
  std::string bytes;
  std::uint64_t failures = 0;
  int checks = 0;
  const auto prepare = [&] {
    const std::uint64_t handle = open(file);
    bytes = kernel.request(FUSE_RELEASE, file, release_body(handle));
    failures = counters().values().request_failures;
    checks = equal->checks;
  };
  prepare();
  send_with_each_failing(bytes, [&] {
    EXPECT_EQ(kernel.answer().error, 0);
    EXPECT_EQ(
        equal->checks - checks + static_cast<int>(counters().values().request_failures - failures),
        1);
    prepare();
  });
}

}  // namespace
}  // namespace reshardfs::no_memory
