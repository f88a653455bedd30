// SPDX-License-Identifier: Apache-2.0
#include "storage/local/local_fetcher.h"

#include <chrono>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "blocking_source.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::BlockingSource;
using test::expect_error;
using test::is_of_object;
using test::until;

constexpr std::uint64_t kUnit = LocalFetcher::kUnitBytes;

class LocalFetcherTest : public testing::Test {
 protected:
  ~LocalFetcherTest() override {
    file_->let_go();
    until([this] { return readers_.figures().in_flight == 0; });
  }

  /// @return what ends when the request does.
  std::future<void> fetch(const ByteRange& range, std::vector<std::span<std::byte>> out) {
    auto ended = std::make_shared<std::promise<void>>();
    fetcher_.fetch(range, std::move(out), Foresight::kNow, [ended](std::exception_ptr failure) {
      failure ? ended->set_exception(failure) : ended->set_value();
    });
    return ended->get_future();
  }

  std::shared_ptr<BlockingSource> file_ = std::make_shared<BlockingSource>(16 * kUnit + 5);
  std::shared_ptr<FileSystemSpeed> speed_ = std::make_shared<FileSystemSpeed>();
  LocalReaders readers_{{.patience = std::chrono::hours(1)}};
  LocalFetcher fetcher_{file_, "version 1", speed_, [this]() -> LocalReaders& { return readers_; }};
  std::vector<std::byte> bytes_ = std::vector<std::byte>(8 * kUnit);
};

TEST_F(LocalFetcherTest, IsWhatItsFileIs) {
  EXPECT_EQ(fetcher_.name(), "blocking.ckpt");
  EXPECT_EQ(fetcher_.size(), 16 * kUnit + 5);
  EXPECT_EQ(fetcher_.mtime_ns(), 5);
  EXPECT_EQ(fetcher_.stamp().inode, 2U);
  EXPECT_EQ(fetcher_.identity(), "version 1");
  EXPECT_FALSE(fetcher_.is_remote());
  EXPECT_EQ(fetcher_.answering(), RangeFetcher::Answering::kYes);
  EXPECT_EQ(fetcher_.patience(), std::chrono::hours(1));
}

TEST_F(LocalFetcherTest, FillsAllPieces) {
  const std::span all(bytes_);
  const std::uint64_t begin = kUnit / 2;
  fetch(ByteRange(begin, 3 * kUnit + 7),
        {all.first(kUnit + 7), all.subspan(kUnit + 7, 10), all.subspan(kUnit + 17, 2 * kUnit - 10)})
      .get();
  EXPECT_TRUE(is_of_object(all.first(3 * kUnit + 7), begin));
}

TEST_F(LocalFetcherTest, ReadsAllPartsAtOnce) {
  file_->block();
  auto ended = fetch(ByteRange(kUnit, 4 * kUnit), {std::span(bytes_).first(4 * kUnit)});
  file_->await(4);
  EXPECT_EQ(file_->begun(), (std::vector<std::uint64_t>{kUnit, 2 * kUnit, 3 * kUnit, 4 * kUnit}));
  EXPECT_EQ(readers_.figures().in_flight, 4U);
  file_->let_go();
  ended.get();
}

TEST_F(LocalFetcherTest, FailsWhenAPartFails) {
  file_->block();
  auto ended = fetch(ByteRange(0, 4 * kUnit), {std::span(bytes_).first(4 * kUnit)});
  file_->fail();
  file_->let_go();
  expect_error(ErrorKind::kIo, {"the test fails it"}, [&] { ended.get(); });
}

TEST_F(LocalFetcherTest, FailsWhenTheFileHasChangedMeanwhile) {
  file_->block();
  auto ended = fetch(ByteRange(0, kUnit), {std::span(bytes_).first(kUnit)});
  file_->change();
  file_->let_go();
  expect_error(ErrorKind::kChanged, {"blocking.ckpt"}, [&] { ended.get(); });
}

TEST_F(LocalFetcherTest, ChecksTheFileOnAnotherThread) {
  const auto check = [this] {
    std::promise<void> ended;
    fetcher_.check([&ended](std::exception_ptr failure) {
      failure ? ended.set_exception(failure) : ended.set_value();
    });
    ended.get_future().get();
  };
  check();
  fetcher_.check_unchanged();
  file_->change();
  expect_error(ErrorKind::kChanged, {"blocking.ckpt"}, [&] { fetcher_.check_unchanged(); });
  expect_error(ErrorKind::kChanged, {"blocking.ckpt"}, check);
}

TEST_F(LocalFetcherTest, EndsWhereNoReadCanBegin) {
  const LocalFetcher fetcher(file_, "", speed_, []() -> LocalReaders& {
    throw Error(ErrorKind::kInternal, "the test has no reader");
  });
  std::promise<void> ended;
  fetcher.fetch(ByteRange(0, 2 * kUnit), {std::span(bytes_).first(2 * kUnit)}, Foresight::kNow,
                [&ended](std::exception_ptr failure) { ended.set_exception(failure); });
  expect_error(ErrorKind::kInternal, {"the test has no reader"}, [&] { ended.get_future().get(); });
}

TEST_F(LocalFetcherTest, TellsHowLongReadsTake) {
  fetch(ByteRange(0, 4 * kUnit), {std::span(bytes_).first(4 * kUnit)}).get();
  EXPECT_GT(speed_->usual().count(), 0);
}

}  // namespace
}  // namespace reshardfs
