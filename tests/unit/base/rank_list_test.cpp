// SPDX-License-Identifier: Apache-2.0
#include "base/rank_list.h"

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"
#include "support/ranks.h"

namespace reshardfs {
namespace {

TEST(RankList, ReadsRanksAndRanges) {
  EXPECT_EQ(parse_rank_list("0-3,7"), test::ranks({0, 1, 2, 3, 7}));
  EXPECT_EQ(parse_rank_list("7,1-2,2-3"), test::ranks({1, 2, 3, 7}));
  EXPECT_EQ(parse_rank_list("5"), test::ranks({5}));
}

TEST(RankList, RefusesTheRestAndShowsIt) {
  for (const char* bad :
       {"", ",", "1,", "a", "1-", "-1", "1--2", "1 ", "99999999999999999999", "1048576"}) {
    test::expect_error(ErrorKind::kUsage, {"rank list", "0-3,7"}, [&] { parse_rank_list(bad); });
  }
  test::expect_error(ErrorKind::kUsage, {"3-1", "backwards"}, [] { parse_rank_list("3-1"); });
}

TEST(RankList, WritesWhatItReads) {
  EXPECT_EQ(format_rank_list({}), "");
  EXPECT_EQ(format_rank_list(test::ranks({4})), "4");
  EXPECT_EQ(format_rank_list(test::ranks({0, 1})), "0,1");
  EXPECT_EQ(format_rank_list(test::ranks({0, 1, 2, 3, 7})), "0-3,7");
  EXPECT_EQ(rank_words(test::ranks({3})), "rank 3");
  EXPECT_EQ(rank_words(test::ranks({0, 1, 2, 7})), "ranks 0-2,7");
  for (const char* text : {"0", "0,2,4", "0-63", "1-3,5-8,10"}) {
    EXPECT_EQ(format_rank_list(parse_rank_list(text)), text);
  }
}

}  // namespace
}  // namespace reshardfs
