// SPDX-License-Identifier: Apache-2.0
/// A small tree that has a node of each kind.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "mount/test_mount.h"
#include "vfs/tree.h"
#include "vfs/tree_source.h"

namespace reshardfs::testing_protocol {

/// Bytes of dir/0, dir/1, ...
inline constexpr std::array<std::uint64_t, 6> kFileBytes = {0,    1,      4095,
                                                            4096, 100000, (3U << 20U) + 5};
inline constexpr std::string_view kListed = "sources";
inline constexpr std::string_view kListedValue = "ckpt_0";
inline constexpr std::uint64_t kSnapshotBytes = 300;

class AttributedFile : public testing_mount::PatternFile {
 public:
  using PatternFile::PatternFile;
  std::vector<std::string> attribute_names() const override { return {std::string(kListed)}; }
  std::optional<std::string> attribute(std::string_view name) const override {
    if (name == kListed) return std::string(kListedValue);
    if (name == "longest") return std::string(65536, 'x');
    if (name == "large") return std::string(65537, 'x');
    if (name == "broken") throw std::runtime_error("broken");
    return std::nullopt;
  }
};

/// Its contents change: each opening has a file of its own. Counts those that there are.
class ChangingFile : public testing_mount::PatternFile {
 public:
  explicit ChangingFile(std::shared_ptr<int> counted)
      : PatternFile(0), counted_(std::move(counted)) {}
  std::shared_ptr<const VirtualFile> snapshot() const override {
    return std::make_shared<Snapshot>(counted_);
  }

 private:
  class Snapshot : public testing_mount::PatternFile {
   public:
    explicit Snapshot(std::shared_ptr<int> counted)
        : PatternFile(kSnapshotBytes), counted_(std::move(counted)) {}

   private:
    const std::shared_ptr<int> counted_;
  };
  const std::shared_ptr<int> counted_;
};

class TestTree : public TreeSource {
 public:
  TestTree() {
    TreeBuilder builder;
    for (std::size_t i = 0; i < kFileBytes.size(); ++i) {
      builder.add_file("dir/" + std::to_string(i), std::make_shared<AttributedFile>(kFileBytes[i]));
    }
    for (int i = 0; i < 50; ++i) {
      builder.add_file("changing/" + std::to_string(i),
                       std::make_shared<testing_mount::PatternFile>(10));
    }
    builder.set_changing("changing");
    builder.add_file("status", std::make_shared<ChangingFile>(snapshots_));
    builder.add_file("broken", std::make_shared<testing_mount::HookedFile>(
                                   5000, [](std::uint64_t) { throw std::runtime_error("x"); }));
    builder.add_link("link", "dir/5");
    builder.add_file(".hidden/file", std::make_shared<testing_mount::PatternFile>(7));
    builder.hide(".hidden");
    tree_ = std::make_shared<const Tree>(std::move(builder).build());
  }

  std::shared_ptr<const Tree> current() const override { return tree_; }
  bool file_opened(InodeNumber) override {
    ++open_files_;
    return true;
  }
  std::uint64_t tree_of_listing(InodeNumber) const noexcept override { return kListing; }
  void closed(std::uint64_t tree) noexcept override {
    if (tree != kListing) --open_files_;
  }

  /// Openings that have not been closed.
  int open_files() const noexcept { return open_files_; }
  /// Snapshots that openings of "status" hold.
  long held_snapshots() const noexcept { return snapshots_.use_count() - 2; }
  /// Listings that hold the tree.
  long held_trees() const noexcept { return tree_.use_count() - 1; }

 private:
  static constexpr std::uint64_t kListing = 1;

  const std::shared_ptr<int> snapshots_ = std::make_shared<int>();
  std::atomic<int> open_files_ = 0;
  std::shared_ptr<const Tree> tree_;
};

/// A tree whose one file, "stalled", has bytes that wait for `shared->released`.
struct StalledTree {
  static constexpr std::uint64_t kBytes = 100;

  const testing_mount::SharedMemory shared;
  const Tree tree = [this] {
    TreeBuilder builder;
    builder.add_file("stalled", testing_mount::stalling_file(*shared, kBytes));
    return std::move(builder).build();
  }();
  FixedTree source{tree};
};

}  // namespace reshardfs::testing_protocol
