// SPDX-License-Identifier: Apache-2.0
#include "report/text/form_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "modelmap/form_operations.h"

namespace reshardfs {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string picture(const NormalForm& form, const Shape& shape, std::size_t most = 40) {
  return form_picture(
      form,
      [&](std::size_t i) {
        return FormSource{"t" + std::to_string(i), shape};
      },
      most);
}

TEST(FormPicture, NamesTheSourceOfEachPart) {
  const Shape shape{4, 6};
  const NormalForm form =
      modelmap::concat({NormalForm::of_source(shape, 0), NormalForm::of_source(shape, 1)}, 0);
  const std::string text = picture(form, shape);
  EXPECT_THAT(text, HasSubstr("INDICES [8, 6]"));
  EXPECT_THAT(text, HasSubstr("[0-3 | all]     t0 [all | all]"));
  EXPECT_THAT(text, HasSubstr("[4-7 | all]     t1 [all | all]"));
}

TEST(FormPicture, ShowsStepsAndGroups) {
  const Shape shape{6, 2};
  const NormalForm interleaved = modelmap::reshape(
      modelmap::stack({NormalForm::of_source(shape, 0), NormalForm::of_source(shape, 1)}, 1),
      {12, 2});
  const std::string text = picture(interleaved, shape);
  EXPECT_THAT(text, HasSubstr("[0, 2, 4, ... 10 | all]  t0 [all | all]"));
  EXPECT_THAT(text, HasSubstr("[1, 3, 5, ... 11 | all]  t1 [all | all]"));
  const NormalForm groups =
      modelmap::slice(modelmap::reshape(NormalForm::of_source({12}, 0), {3, 4}), 1, {0, 2, 1});
  EXPECT_THAT(picture(groups, {12}), HasSubstr("[all | all]     t0 [0-1, 4-5, 8-9]"));
}

TEST(FormPicture, TellsOfTransposedRepeatedAndStatedElements) {
  const Shape shape{4, 6};
  const NormalForm turned = modelmap::permute(NormalForm::of_source(shape, 0), {1, 0});
  EXPECT_THAT(picture(turned, shape), HasSubstr("t0 [all | all], transposed"));
  const NormalForm repeated = modelmap::repeat(NormalForm::of_source(shape, 0), 0, 3);
  EXPECT_THAT(picture(repeated, shape), HasSubstr("t0 [all | all], repeated"));
  const NormalForm padded =
      modelmap::pad(NormalForm::of_source(shape, 0), 0, 6, Literal::integer(7));
  EXPECT_THAT(picture(padded, shape), HasSubstr("[4-5 | all]     the value 7"));
  EXPECT_THAT(picture(padded, shape), Not(HasSubstr("transposed")));
}

TEST(FormPicture, ListsNoMoreBoxesThanAreAskedFor) {
  std::vector<NormalForm> forms;
  for (int i = 0; i < 5; ++i) forms.push_back(NormalForm::of_source({2, 2}, i));
  const std::string text = picture(modelmap::concat(forms, 0), {2, 2}, 2);
  EXPECT_THAT(text, HasSubstr("t1 "));
  EXPECT_THAT(text, Not(HasSubstr("t2 ")));
  EXPECT_THAT(text, HasSubstr("... and 3 more"));
}

}  // namespace
}  // namespace reshardfs
