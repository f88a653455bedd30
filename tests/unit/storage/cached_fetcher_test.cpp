// SPDX-License-Identifier: Apache-2.0
#include "storage/remote/cached_fetcher.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/directory_stream.h"
#include "base/process/fault_report.h"
#include "hand_fetcher.h"
#include "support/in_child.h"
#include "support/process_cache.h"

namespace reshardfs::cached_fetcher_tests {
namespace {

using test::is_of_object;

constexpr std::uint64_t kBlock = BlockCache::kBlockBytes;
constexpr std::uint64_t kSize = 3 * kBlock + 100;

/// Opened when the first bytes of it have come.
class UnopenedFetcher final : public test::TestFetcher {
 public:
  using TestFetcher::TestFetcher;
  bool is_opened() const noexcept override { return opened; }
  void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight when,
             Done done) const override {
    if (fails) throw Error(ErrorKind::kIo, "the test fails it");
    ++fetched;
    ranges.push_back(range);
    opened = true;
    test::Asked{range, std::move(out), when, std::move(done)}.bring();
  }
  mutable bool opened = false;
  mutable unsigned fetched = 0;
  mutable std::vector<ByteRange> ranges;
  bool fails = false;
};

class CachedFetcherTest : public testing::Test {
 protected:
  /// @return whether it had to be fetched.
  static bool reads(const CachedFetcher& fetcher, const UnopenedFetcher& from,
                    std::uint64_t block) {
    const unsigned before = from.fetched;
    const ByteRange range(block * kBlock, std::min(kBlock, kSize - block * kBlock));
    std::vector<std::byte> out(range.length());
    bool is_done = false;
    fetcher.fetch(range, {std::span(out)}, Foresight::kNow, [&](const std::exception_ptr& failure) {
      EXPECT_EQ(failure, nullptr);
      is_done = true;
    });
    EXPECT_TRUE(is_done);
    EXPECT_TRUE(is_of_object(out, range.offset()));
    return from.fetched > before;
  }

  /// Into pieces of these sizes; checks what comes. @return what had to be fetched.
  static std::vector<ByteRange> fetch(std::uint64_t offset, const std::vector<std::size_t>& sizes) {
    const auto from = std::make_shared<UnopenedFetcher>(kSize);
    from->opened = true;
    const CachedFetcher fetcher(from, source_cache());
    const std::size_t sum = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    std::vector<std::byte> out(sum);
    std::vector<std::span<std::byte>> pieces;
    for (std::size_t at = 0; const std::size_t size : sizes) {
      pieces.push_back(std::span(out).subspan(at, size));
      at += size;
    }
    unsigned done = 0;
    fetcher.fetch(ByteRange(offset, sum), pieces, Foresight::kNow,
                  [&](const std::exception_ptr& failure) {
                    EXPECT_EQ(failure, nullptr);
                    ++done;
                  });
    EXPECT_EQ(done, 1U);
    EXPECT_TRUE(is_of_object(out, offset));
    return from->ranges;
  }
  /// Of blocks from 0 on.
  static std::vector<bool> kept() {
    const auto from = std::make_shared<UnopenedFetcher>(kSize);
    from->opened = true;
    const CachedFetcher fetcher(from, source_cache());
    std::vector<bool> has;
    for (std::uint64_t block = 0; block < 4; ++block) has.push_back(fetcher.has(block));
    return has;
  }

  test::ProcessCache cache_;
};

TEST_F(CachedFetcherTest, FetchesOnlyWhatTheCacheLacks) {
  EXPECT_EQ(fetch(kBlock, {kBlock}), std::vector{ByteRange(kBlock, kBlock)});
  cache_.reopen();
  EXPECT_EQ(fetch(0, {kBlock, kBlock, kBlock, 100}),
            (std::vector{ByteRange(0, kBlock), ByteRange(2 * kBlock, kBlock + 100)}));
  cache_.reopen();
  EXPECT_EQ(kept(), (std::vector{true, true, true, true}));
  EXPECT_TRUE(fetch(0, {kBlock, kBlock, kBlock, 100}).empty());
}

TEST_F(CachedFetcherTest, KeepsWholeBlocksAlone) {
  const std::vector<std::size_t> sizes{kBlock / 2, kBlock, 10, kBlock - 10, 60};
  const ByteRange all(kBlock / 2, 5 * kBlock / 2 + 60);
  EXPECT_EQ(fetch(kBlock / 2, sizes), std::vector{all});
  cache_.reopen();
  EXPECT_EQ(kept(), (std::vector{false, true, false, false}));
  EXPECT_EQ(fetch(kBlock / 2, sizes),
            (std::vector{ByteRange(kBlock / 2, kBlock / 2), ByteRange(2 * kBlock, kBlock + 60)}));
  EXPECT_EQ(fetch(kBlock, {10, kBlock - 10}), std::vector{ByteRange(kBlock, kBlock)});
}

TEST_F(CachedFetcherTest, EndsOnceWhereNothingCanBeFetched) {
  const auto from = std::make_shared<UnopenedFetcher>(kSize);
  from->fails = true;
  const CachedFetcher fetcher(from, source_cache());
  std::vector<std::byte> out(10);
  std::vector<std::exception_ptr> ends;
  fetcher.fetch(ByteRange(0, 10), {std::span(out)}, Foresight::kNow,
                [&](const std::exception_ptr& failure) { ends.push_back(failure); });
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_THROW(std::rethrow_exception(ends.front()), Error);
}

TEST_F(CachedFetcherTest, IsAsChangedAsWhatItFetchesFrom) {
  const auto from = std::make_shared<UnopenedFetcher>(kSize);
  const CachedFetcher fetcher(from, source_cache());
  fetcher.check_unchanged();
  from->changed = true;
  EXPECT_THROW(fetcher.check_unchanged(), Error);
  EXPECT_TRUE(fetcher.by_blocks());
}

TEST_F(CachedFetcherTest, NothingIsTakenFromTheCacheBeforeTheObjectIsOpened) {
  {
    const auto from = std::make_shared<UnopenedFetcher>(kSize);
    const CachedFetcher fetcher(from, source_cache());
    for (std::uint64_t block = 0; block < 4; ++block) EXPECT_TRUE(reads(fetcher, *from, block));
  }
  cache_.reopen();
  const auto from = std::make_shared<UnopenedFetcher>(kSize);
  const CachedFetcher fetcher(from, source_cache());
  std::vector<std::byte> part(100);
  EXPECT_FALSE(fetcher.is_opened());
  EXPECT_FALSE(fetcher.has(1));
  EXPECT_FALSE(fetcher.read_kept(kBlock, part));
  EXPECT_TRUE(reads(fetcher, *from, 2));
  EXPECT_TRUE(fetcher.has(1));
  EXPECT_TRUE(fetcher.read_kept(kBlock, part));
  EXPECT_TRUE(is_of_object(part, kBlock));
  EXPECT_FALSE(reads(fetcher, *from, 3));
}

TEST_F(CachedFetcherTest, AChildReadsWhatItsParentHasKept) {
  EXPECT_EQ(fetch(0, {kBlock}), std::vector{ByteRange(0, kBlock)});
  cache_.reopen();
  test::in_child([] {
    ASSERT_NE(source_cache(), nullptr);
    EXPECT_TRUE(fetch(0, {kBlock}).empty());
  });
}

TEST_F(CachedFetcherTest, AChildThatCannotOpenTheCacheTells) {
  std::filesystem::rename(cache_.path(), cache_.path().string() + ".away");
  std::ofstream(cache_.path()) << "no directory";
  test::in_child([] {
    static std::string cause;
    set_fault_listener(
        [](LogEvent, const std::string& its_cause, const std::string&) { cause = its_cause; });
    EXPECT_EQ(source_cache(), nullptr);
    EXPECT_EQ(cause, "the cache of a child process");
  });
}

/// How many files of this process are the cache's, of which others wait for locks.
int open_lock_files() {
  DirectoryStream own(Descriptor(::open("/proc/self/fd", O_RDONLY | O_CLOEXEC)));
  int count = 0;
  while (const dirent* entry = own.next()) {
    std::error_code failed;
    const auto target = std::filesystem::read_symlink(
        std::filesystem::path("/proc/self/fd") / entry->d_name, failed);
    if (target.filename() == "held" || target.filename() == "sweep") ++count;
  }
  return count;
}

TEST_F(CachedFetcherTest, AChildHasNoFilesThatItsParentLocks) {
  EXPECT_EQ(open_lock_files(), 2);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(open_lock_files());
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(open_lock_files(), 2);
}

}  // namespace
}  // namespace reshardfs::cached_fetcher_tests
