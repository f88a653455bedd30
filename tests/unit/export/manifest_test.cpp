// SPDX-License-Identifier: Apache-2.0
#include "export/manifest.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "export/checksums.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

const Json kIdentity{{"version", "1"}, {"prefix", "checkpoint_"}};

std::string text_of(const test::TempDir& directory) {
  std::ifstream in(directory.path() / Manifest::kName, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void fill(const test::TempDir& directory) {
  Manifest manifest(directory.path(), kIdentity, false);
  manifest.add("rank_0/a.ckpt", {10, "aa"});
  manifest.add("odd\n\"name\xff", {~0ULL, "bb"});
  manifest.sync();
}

TEST(Manifest, RemembersFiles) {
  const test::TempDir directory;
  fill(directory);
  const Manifest manifest(directory.path(), kIdentity, false);
  ASSERT_EQ(manifest.entries().size(), 2U);
  ASSERT_TRUE(manifest.find("rank_0/a.ckpt"));
  EXPECT_EQ(manifest.find("rank_0/a.ckpt")->size, 10U);
  EXPECT_EQ(manifest.find("rank_0/a.ckpt")->sha256, "aa");
  EXPECT_FALSE(manifest.find("rank_1/a.ckpt"));
}

TEST(Manifest, KeepsAllButATornLastLine) {
  const test::TempDir whole;
  fill(whole);
  const std::string text = text_of(whole);
  const std::size_t header = text.find('\n') + 1;
  const std::size_t first = text.find('\n', header) + 1;
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const test::TempDir directory;
    directory.write(Manifest::kName, text.substr(0, length));
    {
      Manifest manifest(directory.path(), kIdentity, false);
      const std::size_t entries = length < first ? 0U : length < text.size() ? 1U : 2U;
      ASSERT_EQ(manifest.entries().size(), entries) << length;
      manifest.add("more", {1, "cc"});
    }
    // What is added afterwards is a line of its own.
    const Manifest again(directory.path(), kIdentity, false);
    ASSERT_TRUE(again.find("more")) << length;
  }
}

TEST(Manifest, StopsAtALineThatIsNoEntry) {
  const std::vector<std::string> damaged{"\n",
                                         "{}\n",
                                         "[1]\n",
                                         R"({"path":1,"size":1,"sha256":"a"})"
                                         "\n",
                                         R"({"path":"a","size":-1,"sha256":"a"})"
                                         "\n",
                                         std::string(10, '\0') + "\n"};
  for (const std::string& line : damaged) {
    const test::TempDir directory;
    fill(directory);
    directory.write(Manifest::kName,
                    text_of(directory) + line + R"({"path":"late","size":1,"sha256":"a"})" + "\n");
    const Manifest manifest(directory.path(), kIdentity, false);
    EXPECT_EQ(manifest.entries().size(), 2U) << line;
  }
}

TEST(Manifest, RefusesThatOfAnotherConversionAndSaysWhatIsDifferent) {
  const test::TempDir directory;
  fill(directory);
  const Json other{{"version", "1"}, {"prefix", "net_"}};
  test::expect_error(ErrorKind::kUsage, {"prefix", "--force", Manifest::kName},
                     [&] { const Manifest manifest(directory.path(), other, false); });
  EXPECT_THAT(text_of(directory), ::testing::HasSubstr("rank_0/a.ckpt"));
  { const Manifest manifest(directory.path(), other, true); }
  EXPECT_EQ(Manifest(directory.path(), other, false).entries().size(), 0U);
}

TEST(Manifest, RefusesWhatIsNoManifest) {
  for (const char* text : {"hello\n", "[]\n", "{}\n", "{\"reshardfs_export\":\"x\"}\n",
                           "{\"reshardfs_export\":2,\"conversion\":{}}\n"}) {
    const test::TempDir directory;
    directory.write(Manifest::kName, text);
    test::expect_error(ErrorKind::kUsage, {Manifest::kName, "unknown"},
                       [&] { const Manifest manifest(directory.path(), kIdentity, false); });
  }
}

TEST(ChecksumLine, IsAsSha256sumWritesIt) {
  EXPECT_EQ(checksum_line("ab", "rank_0/a b.ckpt"), "ab  rank_0/a b.ckpt\n");
  EXPECT_EQ(checksum_line("ab", "a\\b\nc\rd"), "\\ab  a\\\\b\\nc\\rd\n");
}

}  // namespace
}  // namespace reshardfs
