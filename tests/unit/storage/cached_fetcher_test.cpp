// SPDX-License-Identifier: Apache-2.0
#include "storage/remote/cached_fetcher.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/directory_stream.h"
#include "hand_fetcher.h"
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
    ++fetched;
    opened = true;
    test::Asked{range, std::move(out), when, std::move(done)}.bring();
  }
  mutable bool opened = false;
  mutable unsigned fetched = 0;
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

  test::ProcessCache cache_;
};

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
