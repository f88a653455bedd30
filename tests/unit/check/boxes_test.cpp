// SPDX-License-Identifier: Apache-2.0
/// Checks of sets whose catalogue lists boxes.
#include "support/boxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "check/diff.h"
#include "check/parameter_stats.h"
#include "check/verify_parameter.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::box_set;
using test::Piece;
using test::piece_file;
using test::pinwheel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Shape kFull{3, 4};

auto problem(ProblemKind kind, const std::string& words) {
  return AllOf(Field(&Problem::kind, kind), Field(&Problem::parameter, "w"),
               Field(&Problem::message, HasSubstr(words)));
}

/// The problems of `w`, of which each rank's file has some pieces.
std::vector<Problem> verified(const std::vector<std::vector<Piece>>& pieces,
                              const Shape& full = kFull, const std::vector<Box>& lost = {}) {
  std::vector<RankFile> files;
  for (const auto& list : pieces) {
    files.push_back(piece_file(static_cast<std::int64_t>(files.size()), list));
  }
  const auto set = box_set(std::move(files), {{"w", full}}, {{"w", lost}});
  VerifyContext context{*set, set->catalogue(), {}, {}, {}};
  HeldParameter parameter{"w", {}};
  for (const RankFile& file : set->files()) {
    for (const TensorEntry& entry : file.index->entries()) {
      parameter.holders.push_back({&file, &entry});
    }
  }
  AbsentRanks absent({});
  Progress progress;
  return ParameterVerifier(context, absent, progress).check(parameter, 0).problems;
}

TEST(VerifyBoxes, FindsNothingWhereAllIsWell) {
  std::vector<Piece> some = pinwheel("w");
  some.resize(2);
  some.push_back({"w", DType::kUInt8, {{7, 7}, {0, 1}}, ""});
  EXPECT_THAT(verified({pinwheel("w"), some}), IsEmpty());
}

TEST(VerifyBoxes, FindsReplicasThatDiffer) {
  std::vector<Piece> copy = pinwheel("w");
  copy[2].bytes = "jKL";
  EXPECT_THAT(verified({pinwheel("w"), {copy[2], copy[0]}}),
              ElementsAre(problem(ProblemKind::kReplica, "2 bytes differ from rank 0")));
}

TEST(VerifyBoxes, FindsWhatIsInNoBox) {
  std::vector<Piece> some = pinwheel("w");
  some.pop_back();
  EXPECT_THAT(verified({some}),
              ElementsAre(problem(ProblemKind::kMissingPart, "2 of its 12 elements")));
}

TEST(VerifyBoxes, FindsBoxesThatAreInNoFile) {
  EXPECT_THAT(verified({pinwheel("w")}, {5, 4}, {{{3, 0}, {1, 4}}, {{4, 0}, {1, 4}}}),
              ElementsAre(problem(ProblemKind::kMissingPart,
                                  "[1, 4] at [3, 0] is in no file, and neither are 1 more boxes")));
  // It is missed in no file where another one has it.
  EXPECT_THAT(verified({pinwheel("w")}, kFull, {{{0, 0}, {1, 3}}}), IsEmpty());
}

TEST(VerifyBoxes, FindsAnOverlap) {
  EXPECT_THAT(verified({pinwheel("w"), {{"w", DType::kUInt8, {{0, 0}, {1, 4}}, "abcd"}}}),
              ElementsAre(problem(ProblemKind::kShape, "overlap")));
}

TEST(VerifyBoxes, FindsABoxOutsideTheTensor) {
  EXPECT_THAT(verified({pinwheel("w")}, {3, 3}),
              ElementsAre(problem(ProblemKind::kFile, "is not inside the full shape [3, 3]")));
}

TEST(VerifyBoxes, FindsAnotherType) {
  std::vector<Piece> some = pinwheel("w");
  some[0].dtype = DType::kInt8;
  EXPECT_THAT(verified({some}), ElementsAre(problem(ProblemKind::kType, "is Int8, but UInt8")));
}

DiffSide side(const std::vector<std::vector<Piece>>& pieces, Replicas replicas = Replicas::kSame) {
  std::vector<RankFile> files;
  for (const auto& list : pieces) {
    files.push_back(piece_file(static_cast<std::int64_t>(files.size()), list));
  }
  return DiffSide(
      std::make_shared<const SourceTable>(box_set(std::move(files), {{"w", kFull}}), std::nullopt),
      {.replicas = replicas});
}

const Piece kWhole{"w", DType::kUInt8, {{0, 0}, {3, 4}}, "abcdefghijkl"};

std::vector<ParameterDiff> compare(const DiffSide& a, const DiffSide& b) {
  Progress progress;
  return diff(a, b, {}, progress);
}

TEST(DiffBoxes, ComparesWhatTheyMakeUp) {
  const auto equal = compare(side({pinwheel("w")}), side({{kWhole}}));
  ASSERT_EQ(equal.size(), 1U);
  EXPECT_EQ(equal[0].status, DiffStatus::kEqual);
  Piece other = kWhole;
  other.bytes[6] = 'x';
  const auto different = compare(side({pinwheel("w")}), side({{other}}));
  ASSERT_EQ(different.size(), 1U);
  EXPECT_EQ(different[0].status, DiffStatus::kDifferent);
  EXPECT_EQ(different[0].tally.different, 1U);
}

TEST(DiffBoxes, RefusesATensorWithAGap) {
  std::vector<Piece> some = pinwheel("w");
  some.pop_back();
  test::expect_error(ErrorKind::kMissing, {"'w'"},
                     [&] { compare(side({some}), side({{kWhole}})); });
}

TEST(DiffBoxes, MatchesNoRanksWhereReplicasDiffer) {
  std::vector<Piece> copy = pinwheel("w");
  copy[1].bytes = "DH";
  const auto found =
      compare(side({pinwheel("w"), copy}, Replicas::kOwn), side({{kWhole}}, Replicas::kOwn));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].status, DiffStatus::kPerRank);
  EXPECT_EQ(found[0].a_shape, kFull);
  // Where they do not, the boxes are the whole, whoever has them.
  const auto equal = compare(side({pinwheel("w"), {copy[0]}}, Replicas::kOwn),
                             side({{kWhole}, {kWhole}}, Replicas::kOwn));
  ASSERT_EQ(equal.size(), 1U);
  EXPECT_EQ(equal[0].status, DiffStatus::kEqual);
}

TEST(BoxStats, CountEachElementOnce) {
  Progress progress;
  std::vector<Piece> some = pinwheel("w");
  some.resize(3);
  const auto of_boxes = whole_stats(side({some, pinwheel("w")}), {}, progress);
  const auto of_whole = whole_stats(side({{kWhole}}), {}, progress);
  ASSERT_EQ(of_boxes.size(), 1U);
  EXPECT_EQ(of_boxes[0].shape, kFull);
  EXPECT_EQ(of_boxes[0].stats->elements, 12U);
  EXPECT_EQ(of_boxes[0].stats->max, of_whole[0].stats->max);
  EXPECT_DOUBLE_EQ(static_cast<double>(of_boxes[0].stats->mean),
                   static_cast<double>(of_whole[0].stats->mean));
}

}  // namespace
}  // namespace reshardfs
