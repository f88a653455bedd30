// SPDX-License-Identifier: Apache-2.0
#include "export/manifest.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export/checksums.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "unit/export/target_of.h"

namespace reshardfs {
namespace {

const std::string kIdentity = R"({"version":"1","prefix":"checkpoint_"})";

std::string text_of(const test::TempDir& directory) {
  std::ifstream in(directory.path() / Manifest::kName, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void fill(const test::TempDir& directory) {
  Manifest manifest(test::target_of(directory), kIdentity, false);
  manifest.add("rank_0/a.ckpt", {10, "aa"});
  manifest.add("odd\n\"name\xff", {~0ULL, "bb"});
  manifest.save();
}

TEST(Manifest, RemembersFiles) {
  const test::TempDir directory;
  fill(directory);
  const Manifest manifest(test::target_of(directory), kIdentity, false);
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
      Manifest manifest(test::target_of(directory), kIdentity, false);
      const std::size_t entries = length < first ? 0U : length < text.size() ? 1U : 2U;
      ASSERT_EQ(manifest.entries().size(), entries) << length;
      manifest.add("more", {1, "cc"});
    }
    // What is added afterwards is a line of its own.
    const Manifest again(test::target_of(directory), kIdentity, false);
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
    const Manifest manifest(test::target_of(directory), kIdentity, false);
    EXPECT_EQ(manifest.entries().size(), 2U) << line;
  }
}

TEST(Manifest, RefusesThatOfAnotherConversionAndSaysWhatIsDifferent) {
  const test::TempDir directory;
  fill(directory);
  const std::string other = R"({"version":"1","prefix":"net_"})";
  test::expect_error(ErrorKind::kUsage, {"prefix", "--force", Manifest::kName},
                     [&] { const Manifest manifest(test::target_of(directory), other, false); });
  EXPECT_THAT(text_of(directory), ::testing::HasSubstr("rank_0/a.ckpt"));
  { const Manifest manifest(test::target_of(directory), other, true); }
  EXPECT_EQ(Manifest(test::target_of(directory), other, false).entries().size(), 0U);
}

TEST(Manifest, RefusesWhatIsNoManifest) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"hello\n", "not an export manifest"},
      {"[]\n", "not an export manifest"},
      {"{}\n", "not an export manifest"},
      {"{\"reshardfs_export\":\"x\"}\n", "not an export manifest"},
      {"{\"reshardfs_export\":4,\"conversion\":{}}\n", "not an export manifest"},
      {"{\"reshardfs_export\":2,\"conversion\":{}}\n", "earlier version"},
      {"{\"reshardfs_export\":1,\"conversion\":{}}\n", "earlier version"}};
  for (const auto& [text, word] : cases) {
    const test::TempDir directory;
    directory.write(Manifest::kName, text);
    test::expect_error(ErrorKind::kUsage, {Manifest::kName, word}, [&] {
      const Manifest manifest(test::target_of(directory), kIdentity, false);
    });
  }
}

TEST(Manifest, IsAFileOfItsOwn) {
  const test::TempDir directory;
  const auto path = directory.path() / Manifest::kName;
  const auto victim = directory.write("victim", "precious");
  const auto refused = [&](const char* word) {
    test::expect_error(ErrorKind::kUsage, {Manifest::kName, word},
                       [&] { Manifest(test::target_of(directory), kIdentity, true); });
  };
  std::filesystem::create_hard_link(victim, path);
  refused("another name");
  std::filesystem::remove(path);
  std::filesystem::create_symlink(victim, path);
  refused("symbolic link");
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  refused("regular file");
  std::ifstream in(victim);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "precious");
}

TEST(Manifest, IsOfOneExportAtATime) {
  const test::TempDir directory;
  const Manifest manifest(test::target_of(directory), kIdentity, false);
  test::expect_error(ErrorKind::kUsage, {"another export"},
                     [&] { Manifest(test::target_of(directory), kIdentity, true); });
}

TEST(Manifest, LeadsNowhereElse) {
  const test::TempDir directory;
  fill(directory);
  for (const char* path : {"../a", "/etc/passwd", "a/../../b", ""}) {
    const test::TempDir other;
    other.write(Manifest::kName,
                text_of(directory) + R"({"path":")" + path + R"(","size":1,"sha256":"a"})" + "\n");
    EXPECT_EQ(Manifest(test::target_of(other), kIdentity, false).entries().size(), 2U) << path;
  }
}

TEST(ChecksumLine, IsAsSha256sumWritesIt) {
  EXPECT_EQ(checksum_line("ab", "rank_0/a b.ckpt"), "ab  rank_0/a b.ckpt\n");
  EXPECT_EQ(checksum_line("ab", "a\\b\nc\rd"), "\\ab  a\\\\b\\nc\\rd\n");
}

}  // namespace
}  // namespace reshardfs
