// SPDX-License-Identifier: Apache-2.0
#include "base/text/wrapper_names.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

CommonWrapper common(const std::vector<std::string>& names) {
  CommonWrapper wrapper;
  for (const std::string& name : names) wrapper.add(name);
  return wrapper;
}

TEST(WrapperNames, BeginWithAWrapper) {
  EXPECT_EQ(wrapper_key("module.w"), "module");
  EXPECT_EQ(wrapper_key("module.module.w"), "module.module");
  EXPECT_EQ(wrapper_key("model.module.layers.0.w"), "model.module");
  EXPECT_EQ(wrapper_key("_orig_mod.module.w"), "_orig_mod.module");
  EXPECT_EQ(wrapper_key("model._fsdp_wrapped_module.layers.0.w"), "model._fsdp_wrapped_module");
}

TEST(WrapperNames, BeginWithNone) {
  for (const char* name : {"", ".", "w", "module", "modules.w", "model.layers.module.w", "model",
                           "model.", "x.module.w", "layers.0._orig_mod.w"}) {
    EXPECT_EQ(wrapper_key(name), "") << name;
  }
}

TEST(WrapperNames, HaveOneInside) {
  EXPECT_EQ(wrapper_in("layers.0._checkpoint_wrapped_module.w"), "_checkpoint_wrapped_module");
  EXPECT_EQ(wrapper_in("_orig_mod.w"), "_orig_mod");
  // A model's own names may have this word.
  for (const char* name : {"layers.0.module.w", "", "a..b", "x._orig_mod", "_orig_mods.w"}) {
    EXPECT_EQ(wrapper_in(name), "") << name;
  }
}

TEST(WrapperNames, AreSaidOfAllNames) {
  EXPECT_EQ(common({"model.model.layers.0.w", "model.lm_head.weight"}).key(), "model");
  EXPECT_EQ(common({"model.layers.0.w", "model.norm.weight"}).key(), "");
  EXPECT_EQ(common({"model.model.layers.0.w", "lm_head.weight"}).key(), "");
  const CommonWrapper same = common({"module.a.w", "module.b.w"});
  EXPECT_EQ(same.key(), "module");
  EXPECT_EQ(wrapper_words(same, true),
            "the names begin with 'module.', which a wrapper of PyTorch adds: --state-key module "
            "takes it off");
  EXPECT_NE(wrapper_words(same, false).find("inside the wrapper"), std::string::npos);
  EXPECT_EQ(common({"module.a.w", "b.w"}).key(), "");
  EXPECT_EQ(common({"b.w", "module.a.w"}).key(), "");
  EXPECT_EQ(wrapper_words(common({"a.w"}), true), "");
  EXPECT_EQ(wrapper_words(common({}), true), "");
}

TEST(WrapperNames, GoByThemselvesWhereTheyNameNothingElse) {
  EXPECT_EQ(without_wrappers("model._orig_mod.a._fsdp_wrapped_module.w"), "model.a.w");
  EXPECT_EQ(without_wrappers("_checkpoint_wrapped_module._orig_mod.w"), "w");
  // A model's own names may have this word; and the last one is a parameter's own.
  for (const char* name :
       {"module.w", "a.module.w", "x._orig_mod", "_orig_mods.w", "", ".", "a..b"}) {
    EXPECT_EQ(without_wrappers(name), name);
  }
  EXPECT_EQ(common({"_orig_mod.a.w", "_orig_mod.b.w"}).key(), "") << "no key need be given";
  EXPECT_EQ(common({"module._orig_mod.a.w"}).key(), "module._orig_mod");
}

}  // namespace
}  // namespace reshardfs
