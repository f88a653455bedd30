// SPDX-License-Identifier: Apache-2.0
/// The operations of a mount, on the thread of the test, of a source that does what the test says.
#pragma once

#include <linux/fuse.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fuse/operations.h"
#include "fuse/request.h"
#include "unit/fuse/fake_kernel.h"
#include "unit/fuse/storage_queue_fixture.h"
#include "unit/vfs/sized_file.h"
#include "vfs/tree_source.h"

namespace reshardfs::test {

using testing_protocol::name_body;
using testing_protocol::open_body;
using testing_protocol::read_body;
using testing_protocol::release_body;

class StagedSource final : public TreeSource {
 public:
  static constexpr std::uint64_t kTreeOfFiles = 5;
  static constexpr std::uint64_t kTreeOfListings = 6;

  /// What is shown from now on.
  void show(TreePtr tree) {
    const std::lock_guard lock(mutex_);
    shown_ = std::move(tree);
  }

  TreePtr current() const override {
    const std::lock_guard lock(mutex_);
    return shown_;
  }
  bool refresh() noexcept override {
    if (on_look) on_look();
    ++looks;
    return false;
  }
  void open_directory(InodeNumber) override {
    if (on_open_directory) on_open_directory();
  }
  bool can_reopen(InodeNumber) const noexcept override { return reopens; }
  bool file_opened(InodeNumber) override { return has_files; }
  void closed(std::uint64_t tree) noexcept override {
    if (on_closed) on_closed();
    closed_trees.push_back(tree);
  }
  std::uint64_t tree_of(InodeNumber) const noexcept override { return kTreeOfFiles; }
  std::uint64_t tree_of_listing(InodeNumber) const noexcept override { return kTreeOfListings; }
  TreePtr of_listing(std::uint64_t tree) const override {
    const auto found = listed.find(tree);
    return found == listed.end() ? current() : found->second;
  }
  bool is_former(std::uint64_t tree) const noexcept override { return former.contains(tree); }

  std::function<void()> on_look;
  std::function<void()> on_open_directory;
  std::function<void()> on_closed;
  std::atomic<int> looks = 0;
  bool reopens = false;
  bool has_files = true;
  std::map<std::uint64_t, TreePtr> listed;  ///< others than the present one
  std::set<std::uint64_t> former;
  std::vector<std::uint64_t> closed_trees;

 private:
  mutable std::mutex mutex_;
  TreePtr shown_ = std::make_shared<const Tree>(TreeBuilder().build());
};

class OperationsTest : public testing::Test {
 protected:
  explicit OperationsTest(MountOptions its_options = {}) : options(std::move(its_options)) {
    served.channel.connect(session.get(), kernel.device());
    EXPECT_EQ(call(FUSE_INIT, 0, FakeKernel::init()).error, 0);
  }
  ~OperationsTest() override {
    EXPECT_TRUE(served.refresher.stop(1h));
    served.storage.stop();
  }

  KernelAnswer call(std::uint32_t opcode, std::uint64_t node, std::string_view body = {}) {
    const std::uint64_t unique = ask(opcode, node, body);
    if (!kernel.has_answer()) {
      ADD_FAILURE() << "no answer to opcode " << opcode;
      return {};
    }
    KernelAnswer answer = kernel.answer();
    EXPECT_EQ(answer.unique, unique);
    EXPECT_FALSE(kernel.has_answer()) << "a second one";
    return answer;
  }
  /// A request that is not answered. @return its number.
  std::uint64_t ask_in_vain(std::uint32_t opcode, std::uint64_t node, std::string_view body) {
    const std::uint64_t unique = ask(opcode, node, body);
    EXPECT_FALSE(kernel.has_answer());
    return unique;
  }
  int error_of(std::uint32_t opcode, std::uint64_t node, std::string_view body = {}) {
    return call(opcode, node, body).error;
  }
  KernelAnswer lookup(std::uint64_t directory, const std::string& name) {
    return call(FUSE_LOOKUP, directory, name_body(name));
  }
  /// @return the handle.
  std::uint64_t open(std::uint64_t node, std::uint32_t opcode = FUSE_OPEN) {
    const KernelAnswer answer = call(opcode, node, open_body(0));
    EXPECT_EQ(answer.error, 0);
    return as<fuse_open_out>(answer.body).fh;
  }

  FakeKernel kernel;
  StagedSource source;
  const MountOptions options;
  /// Every request for a look is followed, and waited for.
  ServedTree served{source, options, {.fresh_for = 0ms, .patience = 1h, .idle = 1h}};
  BareSession session{operations(), &served};

 private:
  std::uint64_t ask(std::uint32_t opcode, std::uint64_t node, std::string_view body) {
    request_number() = kernel.ask(opcode, node, body);
    session.process_one();
    return request_number();
  }
};

}  // namespace reshardfs::test
