// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/joined_source.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/deepspeed/zero_places.h"
#include "support/errors.h"
#include "unit/checkpoint/recording_source.h"

namespace reshardfs::joined_source_tests {
namespace {

using test::expect_error;
using test::read_text;
using test::RecordingSource;
using Calls = std::vector<std::string>;

/// "cdefXYZabc" of two files: parts 2+4 of "abcdef", 1+3 of "WXYZ", 0+3 of "abcdef".
struct Joined {
  Joined() {
    first = std::make_shared<RecordingSource>("abcdef", "first.pt", 5);
    second = std::make_shared<RecordingSource>("WXYZ", "second.pt", 7);
    auto places = std::make_shared<RangeList>();
    places->add(0, ByteRange(2, 4));
    places->add(1, ByteRange(1, 3));
    places->add(0, ByteRange(0, 3));
    source = std::make_unique<JoinedSource>("step", std::vector<ByteSourcePtr>{first, second},
                                            std::move(places));
  }
  std::shared_ptr<RecordingSource> first;
  std::shared_ptr<RecordingSource> second;
  std::unique_ptr<JoinedSource> source;
};

const std::string kWhole = "cdefXYZabc";

TEST(JoinedSource, IsOneSequence) {
  const Joined joined;
  EXPECT_EQ(joined.source->name(), "step");
  EXPECT_EQ(joined.source->size(), kWhole.size());
  EXPECT_EQ(joined.source->mtime_ns(), 7);
  for (std::size_t begin = 0; begin <= kWhole.size(); ++begin) {
    for (std::size_t length = 0; begin + length <= kWhole.size(); ++length) {
      EXPECT_EQ(read_text(*joined.source, begin, length), kWhole.substr(begin, length));
    }
  }
}

TEST(JoinedSource, AsksEachFileOnceAndThenWhetherItHasChanged) {
  const Joined joined;
  EXPECT_EQ(read_text(*joined.source, 3, 6), "fXYZab");
  EXPECT_EQ(joined.first->calls, (Calls{"many 5+1 0+2", "check"}));
  EXPECT_EQ(joined.second->calls, (Calls{"many 1+3", "check"}));
}

TEST(JoinedSource, LeavesFilesAloneThatItDoesNotNeed) {
  const Joined joined;
  EXPECT_EQ(read_text(*joined.source, 0, 4), "cdef");
  EXPECT_EQ(joined.second->calls, Calls());
  EXPECT_EQ(read_text(*joined.source, 4, 0), "");
  EXPECT_EQ(joined.first->calls, (Calls{"many 2+4", "check"}));
}

TEST(JoinedSource, ReadsManyPartsAtOnce) {
  const Joined joined;
  std::string a(2, '\0');
  std::string b(5, '\0');
  std::string c(1, '\0');
  const std::vector<ReadRequest> parts{{6, std::as_writable_bytes(std::span(a))},
                                       {1, std::as_writable_bytes(std::span(b))},
                                       {9, std::as_writable_bytes(std::span(c))}};
  joined.source->read_many(parts);
  EXPECT_EQ(a + " " + b + " " + c, "Za defXY c");
  EXPECT_EQ(joined.first->calls, (Calls{"many 0+1 3+3 2+1", "check"}));
  EXPECT_EQ(joined.second->calls, (Calls{"many 3+1 1+2", "check"}));
}

TEST(JoinedSource, SaysWhatWasForeseen) {
  const Joined joined;
  std::string out(5, '\0');
  const ReadRequest part{0, std::as_writable_bytes(std::span(out)), /*foreseen=*/true};
  joined.source->read_many({&part, 1});
  EXPECT_EQ(joined.first->calls, (Calls{"foreseen 2+4", "check"}));
  EXPECT_EQ(joined.second->calls.front().substr(0, 8), "foreseen");
}

TEST(JoinedSource, TellsWhichFileHasChanged) {
  const Joined joined;
  joined.second->changed = true;
  EXPECT_NO_THROW(read_text(*joined.source, 0, 4));
  expect_error(ErrorKind::kChanged, {"second.pt"}, [&] { read_text(*joined.source, 0, 5); });
  EXPECT_NO_THROW(joined.source->check_unchanged());
}

TEST(JoinedSource, NamesTheFileThatCannotBeRead) {
  auto places = std::make_shared<RangeList>();
  places->add(0, ByteRange(0, 2));
  places->add(1, ByteRange(0, 9));
  const JoinedSource source("step",
                            {std::make_shared<RecordingSource>("ab", "first.pt"),
                             std::make_shared<RecordingSource>("short", "second.pt")},
                            places);
  EXPECT_EQ(read_text(source, 0, 7), "abshort");
  expect_error(ErrorKind::kBadInput, {"second.pt"}, [&] { read_text(source, 0, 8); });
}

TEST(JoinedSource, RefusesReadsBeyondItsEnd) {
  const Joined joined;
  expect_error(ErrorKind::kBadInput, {"step"}, [&] { read_text(*joined.source, 9, 2); });
  expect_error(ErrorKind::kBadInput, {"step"}, [&] { read_text(*joined.source, 11, 0); });
  expect_error(ErrorKind::kBadInput, {"step"}, [&] { read_text(*joined.source, UINT64_MAX, 2); });
  EXPECT_EQ(joined.first->calls, Calls());
}

TEST(JoinedSource, ForeseesInTheFiles) {
  const Joined joined;
  const std::vector<ByteRange> ranges{{3, 2}, {8, 2}, {9, 2}};
  joined.source->foresee(ranges, Foresight::kApart);
  EXPECT_EQ(joined.first->calls, Calls());  // near
  EXPECT_FALSE(joined.source->is_far());
  joined.first->far = joined.second->far = true;
  EXPECT_TRUE(joined.source->is_far());
  EXPECT_TRUE(joined.source->is_remote());
  joined.source->foresee(ranges, Foresight::kApart);
  EXPECT_EQ(joined.first->calls, (Calls{"apart 5+1 1+2"}));
  EXPECT_EQ(joined.second->calls, (Calls{"apart 1+1"}));
}

TEST(JoinedSource, GathersWithinOnePart) {
  const Joined joined;
  std::string out(2, '.');
  auto* const bytes = reinterpret_cast<std::byte*>(out.data());
  const StridedRanges in_first(ByteRange(1, 1), 2, {.source = 2, .memory = 1});
  EXPECT_FALSE(joined.source->gather(in_first, bytes));
  joined.first->gathers = joined.second->gathers = true;
  EXPECT_TRUE(joined.source->gather(in_first, bytes));
  EXPECT_EQ(out, "df");
  EXPECT_EQ(joined.first->calls, (Calls{"gather 3+3", "check"}));
  const StridedRanges in_both(ByteRange(3, 1), 2, {.source = 2, .memory = 1});
  EXPECT_FALSE(joined.source->gather(in_both, bytes));
  joined.first->changed = true;
  expect_error(ErrorKind::kChanged, {"first.pt"}, [&] { joined.source->gather(in_first, bytes); });
}

}  // namespace
}  // namespace reshardfs::joined_source_tests
