// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "conformance/place.h"
#include "support/errors.h"

namespace reshardfs::conformance {
namespace {

using test::expect_error;

/// Where something may begin or end: of sectors, of blocks, of the file.
std::vector<std::uint64_t> edges() {
  std::vector<std::uint64_t> out;
  for (const std::uint64_t around :
       {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{16} << 10U, std::uint64_t{64} << 10U,
        std::uint64_t{1} << 20U, std::uint64_t{3} << 20U, kLargeBytes}) {
    for (const int step : {-1, 0, 1}) {
      const auto edge = static_cast<std::int64_t>(around) + step;
      if (edge >= 0 && edge <= static_cast<std::int64_t>(kLargeBytes)) {
        out.push_back(static_cast<std::uint64_t>(edge));
      }
    }
  }
  return out;
}

TEST(Conformance, ReadsFromAnyEdgeToAnyOther) {
  const ByteSourcePtr source = open("large");
  for (const std::uint64_t begin : edges()) {
    for (const std::uint64_t end : edges()) {
      if (begin <= end) expect_bytes(*source, begin, end - begin);
    }
  }
}

TEST(Conformance, AFreshSourceReadsAnyEdge) {
  for (const std::uint64_t edge : edges()) {
    expect_bytes(*open("large"), edge, std::min<std::uint64_t>(3, kLargeBytes - edge));
  }
}

TEST(Conformance, ReadsSmallFiles) {
  const ByteSourcePtr empty = open("empty");
  empty->read_at(0, {});
  empty->check_unchanged();
  const ByteSourcePtr one = open("one");
  std::byte byte{};
  one->read_at(0, std::span(&byte, 1));
  one->read_at(1, {});
  one->check_unchanged();
  EXPECT_EQ(byte, std::byte{'1'});
}

TEST(Conformance, RefusesToReadPastTheEnd) {
  std::vector<std::byte> out(2);
  for (const auto& [name, size] : std::vector<std::pair<std::string, std::uint64_t>>{
           {"empty", 0}, {"one", 1}, {"large", kLargeBytes}}) {
    const ByteSourcePtr source = open(name);
    for (const std::uint64_t offset :
         {size, size + 1, std::uint64_t{1} << 40U, ~std::uint64_t{0}}) {
      expect_error(ErrorKind::kBadInput, {name},
                   [&, &file = *source] { file.read_at(offset, std::span(out).first(1)); });
    }
    if (size == 0) continue;
    expect_error(ErrorKind::kBadInput, {name},
                 [&, &file = *source, at = size - 1] { file.read_at(at, out); });
    const std::vector<ReadRequest> parts{{0, std::span(out).first(1)},
                                         {size, std::span(out).first(1)}};
    expect_error(ErrorKind::kBadInput, {name}, [&, &file = *source] { file.read_many(parts); });
    source->foresee(std::vector<ByteRange>{ByteRange(size, 10)}, Foresight::kNow);
    source->read_at(0, std::span(out).first(1));
    source->check_unchanged();
  }
}

TEST(Conformance, ReadsManyPartsInAnyOrder) {
  const ByteSourcePtr source = open("large");
  std::vector<std::vector<std::byte>> memory;
  std::vector<ReadRequest> parts;
  for (const std::uint64_t offset :
       {2'000'000U, 5U, 70'000U, 70'100U, 3'000'000U, 0U, 1'048'570U}) {
    memory.emplace_back(150);
    parts.push_back({offset, {}});
  }
  memory.back().clear();  // an empty one
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].out = memory[i];
  source->read_many(parts);
  source->check_unchanged();
  for (const ReadRequest& part : parts) EXPECT_TRUE(are_bytes_of(part.out, part.offset, kLarge));
  source->read_many({});
}

TEST(Conformance, ReadsWhatWasForeseen) {
  for (const Foresight when : {Foresight::kNow, Foresight::kAhead}) {
    const ByteSourcePtr source = open("large");
    source->foresee(std::vector<ByteRange>{ByteRange(100, 70'000), ByteRange(2'000'000, 1'000'000),
                                           ByteRange(90'000, 10), ByteRange()},
                    when);
    expect_bytes(*source, 2'000'000, 1'000'000);
    expect_bytes(*source, 0, 200'000);
    expect_bytes(*source, 0, kLargeBytes);
  }
}

TEST(Conformance, ReadsInARow) {
  const ByteSourcePtr source = open("large");
  constexpr std::uint64_t kRead = 50'001;
  for (std::uint64_t at = 0; at < kLargeBytes; at += kRead) {
    expect_bytes(*source, at, std::min(kRead, kLargeBytes - at));
  }
}

TEST(Conformance, SourcesEndWhileTheyFetch) {
  for (unsigned i = 0; i < 30; ++i) {
    ByteSourcePtr source = open("large");
    source->foresee(std::vector<ByteRange>{ByteRange::whole(kLargeBytes)},
                    i % 2 == 0 ? Foresight::kNow : Foresight::kAhead);
    if (i % 3 == 0) expect_bytes(*source, i * 10'000, 100);
    source.reset();
  }
  expect_bytes(*open("large"), 0, kLargeBytes);
}

TEST(Conformance, ManyThreadsReadAtOnce) {
  constexpr unsigned kThreads = 16;
  const ByteSourcePtr shared = open("large");
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::minstd_rand random(i + 1);
      const ByteSourcePtr own = i % 4 == 0 ? open("large") : shared;
      for (unsigned step = 0; step < 25; ++step) {
        const std::uint64_t offset = random() % kLargeBytes;
        const std::uint64_t most = std::min<std::uint64_t>(300'000, kLargeBytes - offset);
        const std::uint64_t count = random() % (most + 1);
        if (step % 5 == 0) {
          own->foresee(std::vector<ByteRange>{ByteRange(offset, most)}, Foresight::kAhead);
        }
        expect_bytes(*own, offset, count);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Conformance, ManyThreadsOpenAndList) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (unsigned step = 0; step < 5; ++step) {
        const std::string& name = odd_names()[(i + step) % odd_names().size()];
        EXPECT_EQ(open("names/" + name)->size(), name.size());
        EXPECT_EQ(backend().list(place().root / "nested").size(), 2U);
        EXPECT_EQ(backend().kind(place().root / "lost"), PathKind::kMissing);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace reshardfs::conformance
