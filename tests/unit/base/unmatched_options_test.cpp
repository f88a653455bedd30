// SPDX-License-Identifier: Apache-2.0
#include "base/unmatched_options.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs::unmatched_options_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kNames{"model.embed.weight", "adam_m.model.embed.weight"};

TEST(UnmatchedOptions, AreThoseThatSelectNothing) {
  UnmatchedOptions unmatched;
  unmatched.add_globs("--exclude", {"model.*", "modle.*", "*"}, kNames);
  unmatched.add_prefixes("--state-prefix", {"adam_m.", "adamm."}, kNames);
  EXPECT_THAT(
      unmatched.lines(),
      ElementsAre("--exclude 'modle.*' matches no parameter; did you mean --exclude "
                  "'model.*'? It matches 'model.embed.weight'",
                  "--state-prefix 'adamm.': no parameter's name begins with this; did you mean "
                  "--state-prefix adam_m?"));
}

TEST(UnmatchedOptions, BracesAreNoWildcards) {
  UnmatchedOptions unmatched;
  unmatched.add_globs("--include", {"model.{embed,head}.*"}, kNames);
  EXPECT_THAT(unmatched.lines(),
              ElementsAre("--include 'model.{embed,head}.*' matches no parameter; braces are no "
                          "wildcards: repeat --include for each alternative, or write [0-9] for a "
                          "digit"));
}

TEST(UnmatchedOptions, AreAnErrorOrWarnings) {
  UnmatchedOptions unmatched;
  std::vector<std::string> warnings;
  unmatched.settle(/*allowed=*/false, warnings);
  unmatched.add("--one is wrong");
  unmatched.add("--two is wrong");
  test::expect_error(ErrorKind::kUsage, {"--one is wrong; --two is wrong", "--allow-unmatched"},
                     [&] { unmatched.settle(/*allowed=*/false, warnings); });
  EXPECT_THAT(warnings, IsEmpty());
  unmatched.settle(/*allowed=*/true, warnings);
  EXPECT_THAT(warnings, ElementsAre("--one is wrong", "--two is wrong"));
}

TEST(UnmatchedOptions, AMessageHasABound) {
  UnmatchedOptions unmatched;
  for (int i = 0; i < 100; ++i) unmatched.add("--exclude '" + std::string(50, 'x') + "'");
  std::vector<std::string> warnings;
  test::expect_error(ErrorKind::kUsage, {"and 92 more"},
                     [&] { unmatched.settle(/*allowed=*/false, warnings); });
}

}  // namespace
}  // namespace reshardfs::unmatched_options_tests
