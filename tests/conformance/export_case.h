// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "conformance/export_place.h"
#include "export/block_engine.h"
#include "export/manifest.h"
#include "export/share.h"
#include "export/target.h"
#include "unit/export/memory_file.h"

namespace reshardfs::conformance {

using TargetPtr = std::unique_ptr<const Target>;

inline const std::string kIdentity = R"({"version":"1","prefix":"checkpoint_"})";
inline const std::string kOther = R"({"version":"1","prefix":"net_"})";
inline const SharePlan kPlan{{0, 2}, "sum"};

/// Files in memory, written by export jobs to a place of each test's own.
class ExportCase : public ::testing::Test {
 protected:
  /// The place as an export of all files sees it: nobody else may have it at the same time.
  static TargetPtr alone() { return open(LockMode::kExclusive); }
  /// As one of several processes sees it.
  static TargetPtr shared() { return open(LockMode::kShared); }

  static OutputFile file(const std::string& path, const std::string& bytes) {
    return {path, std::make_shared<test::MemoryFile>(bytes)};
  }
  /// One whose source fails from an offset on.
  static OutputFile failing(const std::string& path, const std::string& bytes,
                            std::uint64_t offset) {
    auto memory = std::make_shared<test::MemoryFile>(bytes);
    memory->fail_from(offset);
    return {path, std::move(memory)};
  }

  struct Written {
    std::uint64_t resumed_bytes = 0;
    std::uint64_t damaged_blocks = 0;
    bool has_failed = false;
  };
  /// Writes files one after another. If that fails, `failed` is called with all jobs.
  static Written write(const Target& target, Manifest& manifest, const OutputFiles& files,
                       const std::function<void(WriteJob&)>& failed = {}) {
    const BlockEngineOptions engine = engine_of(target, files);
    std::vector<std::string> warnings;
    std::vector<WriteJob*> writes;
    std::vector<std::unique_ptr<BlockJob>> jobs;
    for (auto& job : target.jobs(files, files, /*replace=*/true, manifest, engine, warnings)) {
      writes.push_back(job.get());
      jobs.push_back(std::move(job));
    }
    EXPECT_THAT(warnings, ::testing::IsEmpty());
    Written written;
    try {
      run_blocks(jobs, engine);
    } catch (const Error& error) {
      written.has_failed = true;
      if (!failed) ADD_FAILURE() << error.what();
      for (WriteJob* job : writes) {
        if (failed) failed(*job);
      }
    }
    for (const WriteJob* job : writes) {
      written.resumed_bytes += job->resumed_bytes();
      written.damaged_blocks += job->damaged_blocks();
    }
    return written;
  }
  static OutputFiles choose(const Target& target, Manifest& manifest, const OutputFiles& files,
                            bool force) {
    std::set<std::string> paths;
    for (const OutputFile* file : files) paths.insert(file->path);
    return target.choose(files, target.list(paths), force, manifest, engine_of(target, files));
  }
  static std::optional<std::uint64_t> size_of(const Target& target, const std::string& path) {
    const Target::Listing there = target.list({path});
    const auto found = there.files.find(path);
    return found == there.files.end() ? std::nullopt : std::optional(found->second.size);
  }

 private:
  static BlockEngineOptions engine_of(const Target& target, const OutputFiles& files) {
    BlockEngineOptions engine;
    engine.block_bytes = std::size_t{1} << 20U;
    return target.engine(files, engine, std::uint64_t{64} << 20U);
  }
  static TargetPtr open(LockMode lock) {
    return open_target(::testing::UnitTest::GetInstance()->current_test_info()->name(), lock);
  }
};

}  // namespace reshardfs::conformance
