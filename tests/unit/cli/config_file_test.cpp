// SPDX-License-Identifier: Apache-2.0
#include "cli/words/config_file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "reshardfs/error.h"

#include "support/errors.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Config : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "reshardfs-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root = pattern;
  }
  void TearDown() override { fs::remove_all(root); }

  ConfigFile read(const std::string& text) {
    std::ofstream(root / "c.toml") << text;
    return {
        root / "c.toml",
        {"step", "cast", "file-mode", "verbose", "quiet", "log-level", "jobs", "config", "help"}};
  }

  std::string refusal(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "accepted";
  }

  fs::path root;
};

TEST_F(Config, RefusesKeysOfVeryManyParts) {
  std::string key = "a";
  for (int i = 0; i < 250'000; ++i) key += ".a";
  test::expect_error(ErrorKind::kBadInput, {"c.toml: line 2: a key of more than"},
                     [&] { read("\n[" + key + "]"); });
}

TEST_F(Config, AMountHasItsOwnKeysAndThoseOfAll) {
  const ConfigFile file = read(R"(
    step = "1_1"
    cast = ["a", "b"]
    jobs = 3
    verbose = true
    [mount.one]
    source = "/ckpt"
    step = "2_2"
    cast = ["c"]
    [mount."two words"]
    mountpoint = "/mnt"
    verbose = false
  )");
  EXPECT_EQ(file.mount_names(), "one, two words");
  EXPECT_TRUE(file.has_mount("one"));
  EXPECT_FALSE(file.has_mount("three"));
  ConfigKeys one = file.keys("one");
  EXPECT_EQ(one.size(), 5U);
  EXPECT_THAT(one["source"].texts, ElementsAre("/ckpt"));
  EXPECT_THAT(one["step"].texts, ElementsAre("2_2"));
  EXPECT_THAT(one["cast"].texts, ElementsAre("c"));  // not added to those of all
  EXPECT_THAT(one["jobs"].texts, ElementsAre("3"));
  EXPECT_EQ(one["verbose"].flag, true);
  EXPECT_EQ(file.keys("two words")["verbose"].flag, false);
  EXPECT_THAT(file.keys({})["step"].texts, ElementsAre("1_1"));
  EXPECT_EQ(file.keys("three").size(), file.keys({}).size());
}

TEST_F(Config, TheLogLevelIsOneSetting) {
  const ConfigFile file = read(R"(
    log-level = "debug"
    [mount.one]
    quiet = true
    [mount.two]
    jobs = 1
    [mount.three]
    log-level = "info"
    verbose = false
  )");
  EXPECT_EQ(config_log_level(file.keys({})), "debug");
  EXPECT_EQ(config_log_level(file.keys("one")), "error");
  EXPECT_EQ(config_log_level(file.keys("two")), "debug");
  EXPECT_EQ(config_log_level(file.keys("three")), "info");
  EXPECT_EQ(config_log_level({}), "");
}

TEST_F(Config, ModesAreOctal) {
  EXPECT_THAT(read("file-mode = 0o440").keys({})["file-mode"].texts, ElementsAre("440"));
  EXPECT_THAT(read("file-mode = \"0440\"").keys({})["file-mode"].texts, ElementsAre("0440"));
  EXPECT_THAT(read("jobs = 0o10").keys({})["jobs"].texts, ElementsAre("8"));
}

TEST_F(Config, RefusesWhatNoCommandKnows) {
  EXPECT_THAT(refusal("\nsorce = 1"),
              HasSubstr("line 2: 'sorce' is not an option of any command; did "
                        "you mean 'source'?"));
  EXPECT_THAT(refusal("[mount.a]\nstpe = 1"), HasSubstr("line 2: 'stpe'"));
  EXPECT_THAT(refusal("qqqqq = 1"), HasSubstr("reshardfs.toml(5)"));
  EXPECT_THAT(refusal("config = \"x\""), HasSubstr("'config'"));
  EXPECT_THAT(refusal("[moutn.a]\nstep = 1"), HasSubstr("did you mean 'mount'?"));
}

TEST_F(Config, RefusesWhatIsNoOption) {
  EXPECT_THAT(refusal("step = 1.5"),
              HasSubstr("line 1: 'step' must be a text, a number or a list"));
  EXPECT_THAT(refusal("step = [1, [2]]"), HasSubstr("must be a text"));
  EXPECT_THAT(refusal("mount = 1"), HasSubstr("[mount.NAME]"));
  EXPECT_THAT(refusal("[mount]\nstep = 1"), HasSubstr("line 2: 'step' is in [mount]"));
  EXPECT_THAT(refusal("step = "), HasSubstr("line 1"));
}

}  // namespace
}  // namespace reshardfs
