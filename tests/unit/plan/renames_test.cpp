// SPDX-License-Identifier: Apache-2.0
#include "plan/source/renames.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::expect_error;
using ::testing::ElementsAre;

TEST(Renames, UseThePatternsOfMaps) {
  const Renames renames({"layers.{n}.{w:wq|wk}=blocks.{n}.attn.{w}"}, {});
  EXPECT_EQ(renames("layers.3.wk"), "blocks.3.attn.wk");
  EXPECT_EQ(renames("layers.3.wv"), "layers.3.wv");
  EXPECT_EQ(renames("x.layers.3.wk"), "x.layers.3.wk");
}

TEST(Renames, TakeAnyTextWhereAStarIs) {
  EXPECT_EQ(Renames({"model.vision.*=vision.*"}, {})("model.vision.a.w"), "vision.a.w");
  EXPECT_EQ(Renames({"*.gamma=*.weight"}, {})("a.b.gamma"), "a.b.weight");
  EXPECT_EQ(Renames({"*.layer.{n}.*=*.layers.{n}.*"}, {})("m.layer.12.w"), "m.layers.12.w");
  EXPECT_EQ(Renames({"model.*=*"}, {})("model.w"), "w");
  EXPECT_EQ(Renames({"*=model.*"}, {})("w"), "model.w");
  EXPECT_EQ(Renames({"*.weight=*"}, {})("a.weight"), "a");
  EXPECT_EQ(Renames({"*=*.weight"}, {})("a"), "a.weight");
  EXPECT_EQ(Renames({}, {"*"})("a"), std::nullopt);
}

TEST(Renames, AreDoneInOrder) {
  EXPECT_EQ(Renames({"a=b", "b=c"}, {})("a"), "c");
  EXPECT_EQ(Renames({"b=c", "a=b"}, {})("a"), "b");
  EXPECT_EQ(Renames({"a=b"}, {"b"})("a"), std::nullopt);
  EXPECT_EQ(Renames({"a=b"}, {"a"})("a"), "b") << "drops see the new names";
}

TEST(Renames, OfAWeightAreThoseOfItsStates) {
  const Renames renames({"old.*=new.*"}, {"head.w"}, {"mom."});
  EXPECT_EQ(renames("adam_m.old.w"), "adam_m.new.w");
  EXPECT_EQ(renames("mom.old.w"), "mom.new.w");
  EXPECT_EQ(renames("adam_v.head.w"), std::nullopt);
  EXPECT_EQ(renames("other.old.w"), "other.old.w");
}

void expect_refusal(const std::string& rule, const std::string& words) {
  expect_error(ErrorKind::kUsage, {"--rename '" + rule + "'", words}, [&] { Renames({rule}, {}); });
}

TEST(Renames, AreRefusedWithTheirText) {
  expect_refusal("a", "expected OLD=NEW");
  expect_refusal("=b", "expected OLD=NEW");
  expect_refusal("a.{n=b", "");
  expect_refusal("a=b.{n}", "the new name has {n}");
  expect_refusal("a.*=b", "'*' has to stand at the same end");
  expect_refusal("a.{n+k}=b.{n}", "'k' has no value here");
}

TEST(Renames, ThatTakeNothingAreNamed) {
  const Renames renames({"a=b", "c=d"}, {"b", "x.*"});
  EXPECT_THAT(renames.idle({"a"}),
              ElementsAre("--rename c=d matches no tensor", "--drop 'x.*' matches no tensor"));
}

class RenamedTable : public testing::Test {
 protected:
  static std::shared_ptr<const SourceTable> table(const std::vector<std::string>& names,
                                                  std::optional<Strategy> strategy = {}) {
    std::string records;
    for (const std::string& name : names) records += test::record(name, {2}, "Int8", "ab");
    return std::make_shared<const SourceTable>(test::memory_set({{0, records}, {1, records}}),
                                               std::move(strategy));
  }
  static std::vector<std::string> names(const SourceTable& table) {
    std::vector<std::string> names;
    for (const SourceParameter& parameter : table.parameters()) names.push_back(parameter.name);
    return names;
  }
};

TEST_F(RenamedTable, KeepsLayoutsAndGrids) {
  const Layout rows{.device_matrix = {2}, .tensor_map = {{0}}};
  const auto stored = table({"a", "b"}, Strategy({{{"a", rows}, {"b", rows}}}, 0, false));
  const auto shown = Renames({"a=x"}, {"b"}).apply(stored);
  EXPECT_THAT(names(*shown), ElementsAre("x"));
  ASSERT_NE(shown->find("x"), nullptr);
  EXPECT_EQ(shown->find("x")->grid, stored->find("a")->grid);
  EXPECT_EQ(shown->find("a"), nullptr);
  ASSERT_NE(shown->strategy(), nullptr);
  EXPECT_TRUE(shown->strategy()->contains("x"));
  EXPECT_FALSE(shown->strategy()->contains("b"));
  EXPECT_FALSE(shown->has_stored_names());
}

TEST_F(RenamedTable, IsTheSameWithoutAny) {
  const auto stored = table({"a"});
  EXPECT_EQ(Renames().apply(stored), stored);
}

TEST_F(RenamedTable, HasEachNameOnce) {
  expect_error(ErrorKind::kUsage, {"'a' and 'b' would both be called 'b'"}, [] {
    Renames({"a=b"}, {}).apply(table({"a", "b"}));
  });
}

TEST_F(RenamedTable, LosesWordsOfWrappersUnlessTwoNamesWouldBeOne) {
  const auto wrapped = table({"_orig_mod.a.w", "b._fsdp_wrapped_module.w"});
  Renames renames;
  renames.settle_wrappers(wrapped->checkpoint());
  EXPECT_THAT(names(*renames.apply(wrapped)), ElementsAre("a.w", "b.w"));
  const auto doubled = table({"_orig_mod.a.w", "a.w"});
  renames.settle_wrappers(doubled->checkpoint());
  EXPECT_EQ(renames.apply(doubled), doubled);
}

}  // namespace
}  // namespace reshardfs
