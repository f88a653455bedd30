// SPDX-License-Identifier: Apache-2.0
/// What the command line takes, as data. Everything that names an option comes from here: the
/// parser, --help, files of options and their sample, completions, manual pages and Python's
/// signatures. To add an option: a row in the file of its group, and a look at it where its command
/// runs.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace reshardfs {

/// A set of commands, one bit each.
using Commands = std::uint32_t;

namespace commands {

inline constexpr Commands kMount = 1U << 0U;
inline constexpr Commands kUmount = 1U << 1U;
inline constexpr Commands kReload = 1U << 2U;
inline constexpr Commands kStatus = 1U << 3U;
inline constexpr Commands kExport = 1U << 4U;
inline constexpr Commands kHash = 1U << 5U;
inline constexpr Commands kCat = 1U << 6U;
inline constexpr Commands kInspect = 1U << 7U;
inline constexpr Commands kPlan = 1U << 8U;
inline constexpr Commands kReport = 1U << 9U;
inline constexpr Commands kVerify = 1U << 10U;
inline constexpr Commands kDiff = 1U << 11U;
inline constexpr Commands kStrategyShow = 1U << 12U;
inline constexpr Commands kStrategyMerge = 1U << 13U;
inline constexpr Commands kStrategyConvert = 1U << 14U;
inline constexpr Commands kStrategyCheck = 1U << 15U;
inline constexpr Commands kStrategyGuess = 1U << 16U;
inline constexpr Commands kMapList = 1U << 17U;
inline constexpr Commands kMapCheck = 1U << 18U;
inline constexpr Commands kMapShow = 1U << 19U;
inline constexpr Commands kDoctor = 1U << 20U;
inline constexpr Commands kDemo = 1U << 21U;
inline constexpr Commands kHelp = 1U << 22U;
/// The program without a command.
inline constexpr Commands kProgram = 1U << 23U;
/// reshardfs.open() of the Python module.
inline constexpr Commands kPython = 1U << 24U;
/// Those that have commands of their own, such as "strategy".
inline constexpr Commands kGroup = 1U << 25U;
inline constexpr Commands kWarm = 1U << 26U;
/// Has the options of kMount, but for those of how a mount runs.
inline constexpr Commands kRun = 1U << 27U;

/// Those that show a source under a target strategy and run as a program.
inline constexpr Commands kConversionPrograms = kMount | kExport | kHash | kCat | kPlan | kReport;
inline constexpr Commands kConversions = kConversionPrograms | kPython;
inline constexpr Commands kAll = std::numeric_limits<Commands>::max() & ~kPython;

}  // namespace commands

/// What stands behind an option. The last one given counts, except where each does.
enum class Takes : std::uint8_t {
  kNothing,  ///< a flag
  kText,
  kTexts,   ///< may be repeated: each counts
  kList,    ///< words with commas between them; may be repeated
  kNumber,  ///< a whole number
  kReal,
  kSize,  ///< bytes, with a unit: 500MB, 5GiB
};

/// Says what is wrong with a value, in words that follow the option's name; empty: nothing.
/// May throw Error kUsage for a message of its own.
using ValueCheck = std::string (*)(const std::string& text);

struct Option {
  std::string name;  ///< long, without dashes; the key in files; with '_' for '-', Python's name
  char letter = 0;   ///< 0: none
  Takes takes = Takes::kNothing;
  std::string type{};  ///< what --help calls the value; '|' stands between words and kinds
  std::string help{};
  std::string fallback{};              ///< the value where none is given, as it would be written
  std::vector<std::string> choices{};  ///< all that it takes; empty: anything
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  bool thousands = false;      ///< kSize: KB and MB are powers of 1000, not of 1024
  bool small_sizes = false;    ///< kSize: a few bytes without a unit are meant
  ValueCheck check = nullptr;  ///< beyond the above
  bool required = false;
  std::vector<std::string> needs{};     ///< options or arguments without which it means nothing
  std::vector<std::string> excludes{};  ///< options that may not stand beside it
  Commands commands = 0;

  bool is_flag() const noexcept { return takes == Takes::kNothing; }
  bool is_repeatable() const noexcept { return takes == Takes::kTexts || takes == Takes::kList; }
};

/// Options that --help lists below one title.
struct OptionGroup {
  std::string title;
  std::vector<Option> options;
};

/// A word of the command line that is no option.
struct Argument {
  std::string name;
  std::string help{};
  bool required = false;
  bool many = false;
  std::string unless{};  ///< an option with which it may be missing
  bool rest = false;     ///< all words from here on are of it, options too
};

struct Command {
  std::string name;  ///< "mount", "strategy show"
  Commands bit = 0;
  std::string title{};  ///< what --help lists it below; that of the first command begins a list
  std::string summary{};
  std::vector<Argument> arguments{};
  std::string footer{};
};

}  // namespace reshardfs
