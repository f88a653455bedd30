// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "checkpoint/foreign_files.h"
#include "checkpoint/ranks/source_pattern.h"
#include "checkpoint/set_format.h"

namespace reshardfs {
namespace {

/// The rows of the tables of docs/directories.md.
std::multiset<std::string> rows() {
  std::ifstream page(std::string(RESHARDFS_GOLDEN_DIR) + "/../../docs/directories.md");
  std::multiset<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `")) rows.insert(line);
  }
  return rows;
}

std::size_t beginning_with(const std::multiset<std::string>& rows, const std::string& begin) {
  return static_cast<std::size_t>(std::count_if(
      rows.begin(), rows.end(), [&](const std::string& row) { return row.starts_with(begin); }));
}

DirectoryEntry file(std::string name) {
  return {std::move(name), false, true, false};
}
DirectoryEntry folder(std::string name) {
  return {std::move(name), true, false, false};
}

TEST(DirectoryKinds, AreThoseOfTheManual) {
  const std::multiset<std::string> all = rows();
  std::size_t known = 0;
  for (const SetFormat& format : set_formats()) {
    const std::string row =
        "| `" + std::string(format.signs) + "` | " + std::string(format.words) + " |";
    EXPECT_EQ(all.count(row), 1U) << row;
    ++known;
  }
  for (const std::string_view pattern : known_patterns()) {
    EXPECT_EQ(beginning_with(all, "| `" + std::string(pattern) + "` | "), 1U) << pattern;
    ++known;
  }
  for (const ForeignKind& kind : foreign_kinds()) {
    std::string signs = "`" + std::string(kind.signs.front()) + "`";
    if (!kind.signs.back().empty()) signs += ", `" + std::string(kind.signs.back()) + "`";
    const std::string row =
        "| " + signs + " | " + std::string(kind.what) + " | " + std::string(kind.advice) + " |";
    EXPECT_EQ(all.count(row), 1U) << row;
    ++known;
  }
  constexpr std::size_t kWholeModels = 5;
  constexpr std::size_t kRuns = 1;  // the steps of one process
  EXPECT_EQ(all.size(), known + kWholeModels + kRuns);
}

TEST(DirectoryKinds, NeedAllOfTheirSigns) {
  const auto what = [](const std::vector<DirectoryEntry>& entries) {
    const ForeignDirectory found = foreign_directory(entries);
    return found.kind == nullptr ? "" : std::string(found.kind->what) + " by " + found.sign;
  };
  EXPECT_EQ(what({}), "");
  EXPECT_EQ(what({file("model.ckpt.index")}), "");
  EXPECT_EQ(what({file("model.ckpt.data-00000-of-00001"), file("model.ckpt.index")}),
            "a checkpoint of TensorFlow by model.ckpt.index");
  EXPECT_EQ(what({file("pytorch_model_fsdp_rank0.bin")}),
            "a local state of accelerate's FSDP, whose flat parameters have no shapes by "
            "pytorch_model_fsdp_rank0.bin");
  EXPECT_EQ(what({file("pytorch_model_fsdp.bin")}), "");
}

TEST(DirectoryKinds, TellFilesFromDirectories) {
  EXPECT_EQ(foreign_directory({file("a.mlpackage")}).kind, nullptr);
  EXPECT_NE(foreign_directory({folder("a.mlpackage")}).kind, nullptr);
  EXPECT_EQ(foreign_directory({folder("_METADATA")}).kind, nullptr);
}

}  // namespace
}  // namespace reshardfs
