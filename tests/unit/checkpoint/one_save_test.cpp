// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "checkpoint/deepspeed/zero_facts.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::expect_error;

TEST(OneSave, TakesFilesThatStateTheSameOrLess) {
  OneSave save;
  save.add("a.pt", {{"global_steps", "10"}});
  save.add("b.pt", {});
  save.add("c.pt", {{"global_steps", "10"}, {"ds_version", "0.16.2"}});
  save.add("d.pt", {{"ds_version", "0.16.2"}});
}

TEST(OneSave, NamesBothFilesAndValues) {
  OneSave save;
  save.add("a.pt", {{"ds_version", "0.16.2"}});
  save.add("b.pt", {{"global_steps", "10"}});
  expect_error(ErrorKind::kBadInput,
               {"'b.pt' and 'c.pt'", "global_steps is 10", "500 in the second"}, [&] {
                 save.add("c.pt", {{"ds_version", "0.16.2"}, {"global_steps", "500"}});
               });
}

TEST(ZeroSteps, AreNotMoreThanThoseOfTheModel) {
  require_steps({}, "o.pt", 10);
  require_steps({{0, 500}}, "o.pt", std::nullopt);
  require_steps({{0, 8}, {1, 8}}, "o.pt", 10);
  // Groups that count differently have no single step to compare.
  require_steps({{0, 500}, {1, 8}}, "o.pt", 10);
  expect_error(ErrorKind::kBadInput, {"'o.pt'", "after step 11", "global_steps 10"}, [] {
    require_steps({{0, 11}, {1, 11}}, "o.pt", 10);
  });
}

}  // namespace
}  // namespace reshardfs
