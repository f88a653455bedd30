// SPDX-License-Identifier: Apache-2.0
#include "export/exporter.h"

#include <sys/mount.h>

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export/checksums.h"
#include "export/manifest.h"
#include "export/planned_files.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kCase = fs::path(RESHARDFS_GOLDEN_DIR) / "tp4_to_tp8";
constexpr const char* kFile = "rank_3/checkpoint_3.ckpt";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Export : public ::testing::Test {
 protected:
  Export() {
    conversion_options_.source.path = kCase / "src";
    conversion_options_.source.strategy = kCase / "src_strategy.ckpt";
    conversion_options_.dst_strategy = kCase / "dst_strategy.ckpt";
    conversion_options_.views = {ViewKind::kRanks};
    options_.directory = directory_.path() / "out";
    options_.engine = {2, 4096, nullptr, nullptr};
  }

  ExportResult run() {
    return export_conversion(Conversion::open(conversion_options_), conversion_options_, options_);
  }
  fs::path out(const std::string& name) const { return options_.directory / name; }
  void check_all() const {
    const Conversion conversion = Conversion::open(conversion_options_);
    for (const OutputFile* output : exported_files(conversion)) {
      std::string bytes(output->file->size(), '\0');
      output->file->read_at(0, std::as_writable_bytes(std::span(bytes)));
      EXPECT_TRUE(text_of(out(output->path)) == bytes) << output->path;
    }
    for (const auto& entry : fs::recursive_directory_iterator(options_.directory)) {
      EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr("partial")));
    }
  }

  test::TempDir directory_;
  ConversionOptions conversion_options_;
  ExportOptions options_;
};

TEST_F(Export, WritesAllFiles) {
  const ExportResult result = run();
  EXPECT_EQ(result.written_files, 8U);
  EXPECT_EQ(result.kept_files, 0U);
  check_all();
}

TEST_F(Export, KeepsWhatIsThereAndWritesWhatIsMissing) {
  run();
  fs::remove(out(kFile));
  const ExportResult result = run();
  EXPECT_EQ(result.written_files, 1U);
  EXPECT_EQ(result.kept_files, 7U);
  check_all();
}

TEST_F(Export, DoesNotTrustSizesAlone) {
  run();
  std::string bytes = text_of(out(kFile));
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  std::ofstream(out(kFile), std::ios::binary) << bytes;
  test::expect_error(ErrorKind::kUsage, {kFile, "different contents", "--force"}, [&] { run(); });
  EXPECT_EQ(text_of(out(kFile)), bytes);
  options_.force = true;
  EXPECT_EQ(run().written_files, 1U);
  check_all();
}

TEST_F(Export, FollowsNoLinksBelowTheDirectory) {
  const fs::path elsewhere = directory_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  fs::create_directories(options_.directory);
  fs::create_directory_symlink(elsewhere, out("rank_3"));
  for (const bool force : {false, true}) {
    options_.force = force;
    test::expect_error(ErrorKind::kUsage, {"rank_3", "symbolic link", "remove the link"},
                       [&] { run(); });
  }
  EXPECT_TRUE(fs::is_empty(elsewhere));
  EXPECT_FALSE(fs::exists(out("rank_0")));
}

TEST_F(Export, SaysThatAnEarlierVersionBeganIt) {
  fs::create_directories(options_.directory);
  std::ofstream(out(Manifest::kName)) << R"({"reshardfs_export":1,"conversion":{}})"
                                      << "\n";
  test::expect_error(ErrorKind::kUsage, {Manifest::kName, "earlier version", "--force"},
                     [&] { run(); });
  options_.force = true;
  EXPECT_EQ(run().written_files, 8U);
}

TEST_F(Export, GoesOnWhenTheLastLineOfItsManifestIsLost) {
  options_.checksums = true;
  run();
  const std::string sums = text_of(out(kChecksumFile));
  const std::string lines = text_of(out(Manifest::kName));
  const std::size_t last = lines.rfind('\n', lines.size() - 2) + 1;
  for (const std::size_t length : {last, last + 10, lines.size() - 1}) {
    fs::resize_file(out(Manifest::kName), length);
    EXPECT_EQ(run().kept_files, 8U);
    EXPECT_EQ(text_of(out(kChecksumFile)), sums);
    EXPECT_EQ(text_of(out(Manifest::kName)), lines);
  }
}

TEST_F(Export, WritesNothingIfAnyFileIsInTheWay) {
  fs::create_directories(out("rank_3"));
  std::ofstream(out(kFile)) << "not ours";
  test::expect_error(ErrorKind::kUsage, {kFile, "a different size", "--force"}, [&] { run(); });
  EXPECT_FALSE(fs::exists(out("rank_0")));
  EXPECT_EQ(text_of(out(kFile)), "not ours");
}

TEST_F(Export, KeepsEqualFilesOfUnknownOrigin) {
  run();
  fs::remove(out(Manifest::kName));
  EXPECT_EQ(run().kept_files, 8U);
  EXPECT_THAT(text_of(out(Manifest::kName)), HasSubstr(kFile));
}

TEST_F(Export, ReplacesNoDirectoriesOrLinks) {
  options_.force = true;
  fs::create_directories(out(kFile));
  test::expect_error(ErrorKind::kUsage, {kFile, "regular file"}, [&] { run(); });
  fs::remove(out(kFile));
  fs::create_symlink("/dev/null", out(kFile));
  test::expect_error(ErrorKind::kUsage, {kFile, "regular file"}, [&] { run(); });
}

TEST_F(Export, RefusesTheDirectoryOfAnotherConversion) {
  run();
  conversion_options_.exclude = {"nothing*"};
  conversion_options_.source.allow_unmatched = true;
  test::expect_error(ErrorKind::kUsage, {"exclude", "--force"}, [&] { run(); });
  conversion_options_.exclude.clear();
  conversion_options_.source.allow_unmatched = false;
  conversion_options_.dst_strategy.reset();
  test::expect_error(ErrorKind::kUsage, {"dst-strategy", "--force"}, [&] { run(); });
}

TEST_F(Export, NoticesThatTheSourceHasChanged) {
  fs::copy(kCase / "src", directory_.path() / "src", fs::copy_options::recursive);
  conversion_options_.source.path = directory_.path() / "src";
  run();
  EXPECT_EQ(run().kept_files, 8U);
  const fs::path first = *fs::directory_iterator(directory_.path() / "src/rank_0");
  fs::last_write_time(first, fs::last_write_time(first) + std::chrono::milliseconds(1));
  test::expect_error(ErrorKind::kUsage, {first.filename(), "modification time", "--force"},
                     [&] { run(); });
}

/// With the same names, sizes and modification times.
class ExportOfACopy : public Export {
 protected:
  ExportOfACopy() {
    fs::copy(kCase / "src", directory_.path() / "src", fs::copy_options::recursive);
    conversion_options_.source.path = directory_.path() / "src";
    first_ = *fs::directory_iterator(directory_.path() / "src/rank_0");
    written_ = fs::last_write_time(first_);
  }

  /// Inverts a byte of the data.
  void change() const {
    const auto middle = static_cast<std::streamoff>(fs::file_size(first_) / 2);
    std::fstream file(first_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(middle);
    const int byte = file.peek();
    file.seekp(middle);
    file.put(static_cast<char>(~byte));
  }

  fs::path first_;
  fs::file_time_type written_;
};

TEST_F(ExportOfACopy, NoticesThatTheSourceWasRewrittenInPlace) {
  run();
  fs::remove(out(kFile));
  change();
  fs::last_write_time(first_, written_);
  test::expect_error(ErrorKind::kUsage, {first_.filename(), "different contents", "--force"},
                     [&] { run(); });
  EXPECT_FALSE(fs::exists(out(kFile)));
  options_.force = true;
  const ExportResult result = run();
  EXPECT_GT(result.written_files, 1U);
  EXPECT_GT(result.kept_files, 1U);
  check_all();
}

TEST_F(ExportOfACopy, NoticesThatTheSourceWasTouched) {
  run();
  fs::last_write_time(first_, written_ + std::chrono::hours(1));
  fs::last_write_time(first_, written_);
  test::expect_error(ErrorKind::kUsage, {first_.filename(), "change time", "--force", "same bytes"},
                     [&] { run(); });
}

TEST_F(ExportOfACopy, GoesOnWithACopyOfTheSourceWhenItIsForced) {
  run();
  const fs::path copy = directory_.path() / "copy";
  fs::copy_file(first_, copy);
  fs::rename(copy, first_);
  fs::last_write_time(first_, written_);
  test::expect_error(ErrorKind::kUsage,
                     {first_.filename(), "a different file (by inode number)", "--force"},
                     [&] { run(); });
  options_.force = true;
  const ExportResult result = run();
  EXPECT_EQ(result.written_files, 0U);
  EXPECT_EQ(result.kept_files, 8U);
  options_.force = false;
  EXPECT_EQ(run().kept_files, 8U);
}

TEST_F(ExportOfACopy, NoticesThatTheSourceWasReplacedAfterItWasOpened) {
  const Conversion conversion = Conversion::open(conversion_options_);
  const fs::path copy = directory_.path() / "copy";
  fs::copy_file(first_, copy);
  fs::rename(copy, first_);
  fs::last_write_time(first_, written_);
  test::expect_error(ErrorKind::kChanged, {first_.filename(), "replaced"},
                     [&] { export_conversion(conversion, conversion_options_, options_); });
  EXPECT_FALSE(fs::exists(out("rank_0")));
}

TEST_F(Export, TakesRanksOneAfterAnother) {
  options_.checksums = true;
  for (const Rank rank : RankRange(Rank(0), 8)) {
    conversion_options_.ranks = {rank};
    EXPECT_EQ(run().written_files, 1U);
  }
  conversion_options_.ranks.clear();
  EXPECT_EQ(run().kept_files, 8U);
  const std::string sums = text_of(out(kChecksumFile));
  EXPECT_EQ(std::count(sums.begin(), sums.end(), '\n'), 8);
}

TEST_F(Export, WarnsOfRanksThatAreNotItsOwn) {
  fs::create_directories(out("rank_77"));
  const ExportResult result = run();
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_THAT(result.warnings.front(), HasSubstr("rank_77"));
}

TEST_F(Export, DoesNotReplaceForeignChecksums) {
  fs::create_directories(options_.directory);
  std::ofstream(out(kChecksumFile)) << "mine";
  options_.checksums = true;
  test::expect_error(ErrorKind::kUsage, {kChecksumFile}, [&] { run(); });
  EXPECT_EQ(text_of(out(kChecksumFile)), "mine");
}

TEST_F(Export, StaysApartFromTheSource) {
  fs::copy(kCase / "src", directory_.path() / "src", fs::copy_options::recursive);
  conversion_options_.source.path = directory_.path() / "src";
  for (const fs::path& inside : {directory_.path() / "src", directory_.path() / "src/new/out"}) {
    options_.directory = inside;
    test::expect_error(ErrorKind::kUsage, {"inside the source"}, [&] { run(); });
  }
  options_.directory = directory_.path();
  test::expect_error(ErrorKind::kUsage, {"inside the output"}, [&] { run(); });
  fs::create_directory_symlink(directory_.path() / "src", directory_.path() / "link");
  options_.directory = directory_.path() / "link/out";
  test::expect_error(ErrorKind::kUsage, {"inside the source"}, [&] { run(); });
  EXPECT_FALSE(fs::exists(directory_.path() / "src/out"));
}

TEST_F(Export, ChecksTheSpaceFirst) {
  fs::create_directories(options_.directory);
  if (::mount("none", options_.directory.c_str(), "tmpfs", 0, "size=16k") != 0) {
    GTEST_SKIP() << "nothing can be mounted here";
  }
  test::expect_error(ErrorKind::kIo, {"not enough space", "needed", "available"}, [&] { run(); });
  EXPECT_FALSE(fs::exists(out("rank_0")));
  EXPECT_EQ(::umount2(options_.directory.c_str(), MNT_DETACH), 0);
}

TEST_F(Export, LeavesNoPartialFileWhenItIsStopped) {
  const std::atomic<bool> stop{true};
  options_.engine.stop = &stop;
  EXPECT_THROW(run(), Interrupted);
  options_.engine.stop = nullptr;
  EXPECT_EQ(run().written_files, 8U);
  check_all();
}

}  // namespace
}  // namespace reshardfs
