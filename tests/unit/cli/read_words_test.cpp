// SPDX-License-Identifier: Apache-2.0
#include "cli/words/read_words.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "cli/options/table.h"
#include "cli/words/check_given.h"

namespace reshardfs {
namespace {

using Words = std::vector<std::string>;

std::string refusal(const Words& words) {
  try {
    check_given(read_words(words));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
}

TEST(ReadWords, ValuesStandBehindOptionsOrEqualsSigns) {
  const Given given = read_words({"mount", "a", "--step", "7", "--src-strategy=b=c", "-f", "m"});
  EXPECT_EQ(given.command().name, "mount");
  EXPECT_EQ(given.arguments, (Words{"a", "m"}));
  EXPECT_EQ(given.text("step"), "7");
  EXPECT_EQ(given.text("src-strategy"), "b=c");
  EXPECT_TRUE(given.flag("foreground"));
  EXPECT_FALSE(given.flag("nonempty"));
}

TEST(ReadWords, LettersMayShareAWordAndHaveTheirValueGlued) {
  const Given given = read_words({"export", "-vj8", "a", "o"});
  EXPECT_TRUE(given.flag("verbose"));
  EXPECT_EQ(given.number("jobs"), 8);
}

TEST(ReadWords, TheLastValueCountsAndRepeatedOnesAllDo) {
  const Given given =
      read_words({"export", "a", "o", "--step=1", "--step=2", "--include=x", "--include=y"});
  EXPECT_EQ(given.text("step"), "2");
  EXPECT_EQ(given.texts("include"), (Words{"x", "y"}));
}

TEST(ReadWords, AnEmptyValueTakesNoOtherWord) {
  const Given given = read_words({"mount", "--src-strategy=", "a", "m"});
  EXPECT_EQ(given.text("src-strategy"), "");
  EXPECT_EQ(given.arguments, (Words{"a", "m"}));
}

TEST(ReadWords, NothingIsAnOptionBehindTwoDashes) {
  const Given given = read_words({"mount", "--", "--step", "-f"});
  EXPECT_EQ(given.arguments, (Words{"--step", "-f"}));
}

TEST(ReadWords, ListsAreTakenApartAtCommas) {
  const Given given = read_words({"mount", "a", "m", "--views", "ranks,hub", "--views=params"});
  EXPECT_EQ(given.texts("views"), (Words{"ranks", "hub", "params"}));
}

TEST(ReadWords, MountWordsAreOptionsWhereTheCommandHasThem) {
  const Given given =
      read_words({"mount", "a", "m", "-o", "ro,allow_other,uid=0,src_prefix=x", "-onosuid,foo"});
  EXPECT_TRUE(given.flag("allow-other"));
  EXPECT_EQ(given.text("uid"), "0");
  EXPECT_EQ(given.text("src-prefix"), "x");
  EXPECT_EQ(given.texts("fuse-option"), (Words{"foo"}));
}

TEST(ReadWords, HelpGoesBeforeWrongWords) {
  EXPECT_TRUE(read_words({"mount", "--nonsense", "--help"}).flag("help"));
  EXPECT_EQ(read_words({"help", "strategy", "show"}).command().name, "strategy show");
  EXPECT_TRUE(read_words({"help", "mount"}).wants_brief_help);
  EXPECT_TRUE(read_words({"help"}).flag("help"));
  EXPECT_TRUE(read_words({"help", "--"}).flag("help"));
}

TEST(ReadWords, WrongWordsAreAnswered) {
  EXPECT_EQ(refusal({}), "a command is missing; 'reshardfs help' lists them");
  EXPECT_EQ(refusal({"mout"}), "there is no command 'mout'; did you mean 'mount'?");
  EXPECT_EQ(refusal({"mount", "a", "m", "--step"}),
            "--step needs a value; it takes STEP|latest|all; see 'reshardfs mount --help'");
  EXPECT_EQ(refusal({"mount", "a", "m", "-o", "uid"}),
            "-o uid needs a value; it takes USER; see 'reshardfs mount --help'");
}

TEST(ReadWords, ArgumentsThatAreNeededAreNotEmpty) {
  EXPECT_EQ(refusal({"verify", ""}), "SOURCE is empty; write reshardfs verify SOURCE");
  EXPECT_EQ(refusal({"status", ""}), "");
}

TEST(ReadWords, WrongValuesAreAnswered) {
  const auto answer = [](const Words& options) {
    Words words{"export", "a", "o"};
    words.insert(words.end(), options.begin(), options.end());
    return refusal(words);
  };
  EXPECT_EQ(answer({"--align", ""}),
            "--align does not take ''; it takes 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096");
  EXPECT_EQ(answer({"--jobs=1025"}), "--jobs does not take '1025'; it takes 1 to 1024");
  EXPECT_EQ(answer({"--jobs=1x"}), "--jobs does not take '1x'; it takes 1 to 1024");
  EXPECT_EQ(answer({"--prefetch-memory=-1"}),
            "--prefetch-memory does not take '-1'; write a size such as 500MB, 5GB or 5GiB");
  EXPECT_EQ(answer({"--shard-size=1.5GB"}),
            "--shard-size does not take '1.5GB'; write a size such as 500MB, 5GB or 5GiB");
  EXPECT_EQ(answer({"--shard-size=18446744073709551615GB"}),
            "--shard-size does not take '18446744073709551615GB'; write a size such as 500MB, 5GB "
            "or 5GiB");
  EXPECT_EQ(answer({"--views=ranks,"}).substr(0, 24), "--views does not take ''");
  EXPECT_EQ(answer({"-v", "-q"}), "--verbose excludes --quiet; see 'reshardfs export --help'");
  EXPECT_EQ(answer({"-v", "--verbose=false", "-q"}), "");
}

TEST(ReadWords, SizesHaveUnits) {
  const auto shard = [](const std::string& text) {
    return read_words({"export", "a", "o", "--shard-size", text}).size("shard-size");
  };
  EXPECT_EQ(shard("5GB"), 5'000'000'000U);
  EXPECT_EQ(shard("5 gib"), std::uint64_t{5} << 30U);
  EXPECT_EQ(shard("12b"), 12U);
  EXPECT_EQ(shard("0"), 0U);
  EXPECT_EQ(read_words({"export", "a", "o", "--memory=64K"}).size("memory"), 65536U);
  EXPECT_EQ(read_words({"export", "a", "o"}).size("shard-size"), 5'000'000'000U);
}

TEST(ReadWords, PlainWordsSayTheSame) {
  const Given given = read_words({"mount", "a", "m", "-f", "--step", "7",
                                  "--src-strategy=", "--include=x", "--verbose=no", "-o", "uid=0"});
  const Given again = read_words(given.plain_words());
  EXPECT_EQ(again.plain_words(), given.plain_words());
  EXPECT_EQ(again.arguments, given.arguments);
  EXPECT_EQ(again.text("step"), "7");
  EXPECT_EQ(again.texts("include"), (Words{"x"}));
  EXPECT_FALSE(again.flag("verbose"));
}

TEST(ReadWords, AskingForWhatTheCommandDoesNotHaveIsAFaultOfTheProgram) {
  const Given given = read_words({"umount", "m"});
  EXPECT_THROW(static_cast<void>(given.text("step")), Error);
  EXPECT_THROW(static_cast<void>(given.argument("SOURCE")), Error);
}

}  // namespace
}  // namespace reshardfs
