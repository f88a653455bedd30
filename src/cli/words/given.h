// SPDX-License-Identifier: Apache-2.0
/// What a command line and a file of options say, taken apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/engine.h"
#include "cli/options/option.h"
#include "conversion/option_words.h"

namespace reshardfs {

/// One use of an option.
struct GivenOption {
  const Option* option;
  std::string text;  ///< of a flag "true", or what was written behind '='
};

/// As a user would type it, by its long name: one word, or two.
RESHARDFS_ENGINE std::vector<std::string> typed_words(const GivenOption& use);

/// Commands ask for values by the option's long name. A name that the command does not have is a
/// fault of the program: Error kInternal.
class Given {
 public:
  /// @param command stays.
  explicit Given(const Command& command) : command_(&command) {}

  const Command& command() const noexcept { return *command_; }
  /// "reshardfs strategy show"
  std::string command_line() const;
  /// "see 'reshardfs strategy show --help'"
  std::string see_help() const;

  std::vector<GivenOption>
      options{};  ///< in order: the last use of one that takes one value counts
  std::vector<std::string> arguments{};
  /// Help was asked for with -h, not with --help.
  bool wants_brief_help = false;
  /// Some of it stands in a file of options, which may serve several commands.
  bool from_file = false;

  /// Whether it was given; a flag that is set to false was not.
  bool has(std::string_view name) const;
  bool flag(std::string_view name) const;
  /// Empty if it has neither value nor default.
  std::string text(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  /// Nothing if it has neither value nor default.
  std::optional<std::int64_t> number(std::string_view name) const;
  /// The same of an option that has a default.
  template <typename Number>
  Number number_as(std::string_view name) const {
    return static_cast<Number>(number(name).value());
  }
  double real(std::string_view name) const;
  std::uint64_t size(std::string_view name) const;
  template <typename Value, std::size_t kCount>
  Value word(std::string_view name, const std::array<OptionWord<Value>, kCount>& words) const {
    return value_of(words, text(name)).value();
  }
  template <typename Value, std::size_t kCount>
  std::vector<Value> words(std::string_view name,
                           const std::array<OptionWord<Value>, kCount>& words) const {
    return values_of(words, texts(name));
  }

  bool has_argument(std::string_view name) const { return place_of(name) < arguments.size(); }
  /// By the name that the usage line has. Empty: not given.
  RESHARDFS_ENGINE std::string argument(std::string_view name) const;
  /// Those of an argument that may be several.
  std::vector<std::string> arguments_of(std::string_view name) const;

  /// A command line with the same meaning that needs no configuration file, for starting another
  /// process, possibly of another version.
  std::vector<std::string> plain_words() const;

 private:
  const Option& known(std::string_view name) const;
  const std::string* last(const Option& option) const;
  std::size_t place_of(std::string_view name) const;

  const Command* command_;
};

}  // namespace reshardfs
