// SPDX-License-Identifier: Apache-2.0
/// Files that are written by several threads: whole under their names, or not there.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "export/block_engine.h"
#include "export/folder.h"
#include "export/partial_file.h"
#include "failing_allocations.h"
#include "golden_case.h"
#include "support/temp_dir.h"
#include "unit/export/memory_file.h"

namespace reshardfs::no_memory {
namespace {

namespace fs = std::filesystem;

/// As the exporter's: a file in memory becomes one of a directory.
class FileJob final : public BlockJob {
 public:
  FileJob(fs::path directory, std::string name, const std::string& bytes)
      : directory_(std::move(directory)), name_(std::move(name)), file_(bytes) {}

  const VirtualFile& file() const override { return file_; }
  const std::string& name() const override { return name_; }
  void begin() override { partial_.emplace(Folder::open(directory_), name_, file_.size()); }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    partial_->write_at(offset, bytes);
  }
  SumKinds sums() const override { return SumKinds::kBoth; }
  void finish(const ContentSums& /*sums*/) override {
    partial_->sync();
    partial_->commit(/*replace=*/true);
  }

 private:
  const fs::path directory_;
  const std::string name_;
  const test::MemoryFile file_;
  std::optional<PartialFile> partial_;
};

TEST(Export, WritesWholeFilesOrNone) {
  const test::TempDir directory;
  const std::vector<std::string> texts{test::varied_bytes(50'000, 1), test::varied_bytes(0, 2),
                                       test::varied_bytes(9000, 3)};
  const auto run = [&] {
    std::vector<std::unique_ptr<BlockJob>> jobs;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      jobs.push_back(
          std::make_unique<FileJob>(directory.path(), "file" + std::to_string(i), texts[i]));
    }
    BlockEngineOptions options;
    options.workers = 3;
    options.block_bytes = 4096;
    run_blocks(jobs, options);
  };
  for (const Threads threads : {Threads::kThisOne, Threads::kAll}) {
    with_each_failing(threads, run, [&] {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const fs::path path = directory.path() / ("file" + std::to_string(i));
        EXPECT_TRUE(!fs::exists(path) || text_of(path) == texts[i]) << path;
      }
      for (const auto& entry : fs::directory_iterator(directory.path())) {
        EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << entry.path();
      }
      run();
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const fs::path path = directory.path() / ("file" + std::to_string(i));
        EXPECT_TRUE(text_of(path) == texts[i]) << path;
        fs::remove(path);
      }
    });
  }
}

TEST(Export, PublishesATextOrNone) {
  const test::TempDir directory;
  const std::string text(10'000, 't');
  with_each_failing(
      Threads::kThisOne, [&] { publish_text(Folder::open(directory.path()), "sums", text); },
      [&] {
        if (fs::exists(directory.path() / "sums")) {
          EXPECT_TRUE(text_of(directory.path() / "sums") == text);
          fs::remove(directory.path() / "sums");
        }
        EXPECT_TRUE(fs::is_empty(directory.path()));
      });
}

TEST(Folders, AreMadeAndLeaveNothingOpen) {
  const test::TempDir directory;
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const Folder top = Folder::open(directory.path());
  const auto open = descriptors();
  with_each_failing(
      Threads::kThisOne, [&] { top.make("a folder with a long name/b/c"); },
      [&] {
        EXPECT_EQ(descriptors(), open);
        top.make("a folder with a long name/b/c");
        EXPECT_TRUE(fs::is_directory(directory.path() / "a folder with a long name/b/c"));
      });
}

}  // namespace
}  // namespace reshardfs::no_memory
