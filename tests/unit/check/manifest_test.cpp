// SPDX-License-Identifier: Apache-2.0
#include "check/manifest.h"

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::expect_error;

// Of "abc".
const std::string kSum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Manifest, ReadsWhatSha256sumWrites) {
  const test::TempDir directory;
  const auto path =
      directory.write("SUMS", kSum + "  rank_0/a b.ckpt\n" + kSum + " *rank_1/c.ckpt\n\\" + kSum +
                                  "  new\\nline\\\\.ckpt");
  const std::vector<ManifestLine> lines = read_manifest(path);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].name, "rank_0/a b.ckpt");
  EXPECT_EQ(lines[0].sha256, kSum);
  EXPECT_EQ(lines[1].name, "rank_1/c.ckpt");
  EXPECT_EQ(lines[2].name, "new\nline\\.ckpt");
}

TEST(Manifest, RefusesAnythingElse) {
  const test::TempDir directory;
  for (const std::string& line :
       {std::string("hello"), kSum, kSum + "  ", kSum + "x name", "g" + kSum.substr(1) + "  name",
        kSum.substr(1) + "  name", "\\" + kSum + "  bad\\q"}) {
    const auto path = directory.write("SUMS", kSum + "  good\n" + line + "\n");
    expect_error(ErrorKind::kBadInput, {"SUMS", "line 2"}, [&] { read_manifest(path); });
  }
  expect_error(ErrorKind::kBadInput, {"no file"},
               [&] { read_manifest(directory.write("SUMS", "")); });
}

TEST(Manifest, SumsAFile) {
  const test::TempDir directory;
  Progress progress;
  EXPECT_EQ(sha256_of_file(directory.write("a", "abc"), progress), kSum);
  EXPECT_EQ(progress.values().bytes, 3U);
  EXPECT_EQ(sha256_of_file(directory.write("b", ""), progress),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace reshardfs
