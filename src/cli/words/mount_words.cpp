// SPDX-License-Identifier: Apache-2.0
#include "cli/words/mount_words.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/near_name.h"
#include "cli/options/table.h"
#include "cli/words/word_answers.h"

namespace reshardfs {
namespace {

/// Words that mount(8) and fstab(5) use among themselves, or that say what holds anyway.
constexpr std::array<std::string_view, 17> kIgnoredWords{"ro",
                                                         "rw",
                                                         "auto",
                                                         "noauto",
                                                         "user",
                                                         "nouser",
                                                         "users",
                                                         "nofail",
                                                         "_netdev",
                                                         "exec",
                                                         "noexec",
                                                         "suid",
                                                         "nosuid",
                                                         "dev",
                                                         "nodev",
                                                         "defaults",
                                                         "default_permissions"};

/// A key with a value that is like one of the command's. FUSE has few such keys.
void require_no_near_option(const Command& command, const std::string& word,
                            const std::string& key) {
  constexpr std::array<std::string_view, 6> kOfFuse{"fsname",   "subtype", "max-read",
                                                    "rootmode", "user-id", "group-id"};
  if (std::find(kOfFuse.begin(), kOfFuse.end(), key) != kOfFuse.end()) return;
  std::vector<std::string> names;
  for (const Option* option : options_of(command)) {
    if (!option->is_flag()) names.push_back(option->name);
  }
  const auto near = near_name(key, names);
  if (!near) return;
  throw Error(ErrorKind::kUsage, "there is no mount option '" + printable(word) + "'")
      .hint("did you mean '" + *near + "'?");
}

/// Whether a word looks like the rest of the value before it: a view, or sizes such as pp=2.
bool goes_on(const Option& option, const std::string& value, const std::string& word) {
  const auto& choices = option.choices;
  const bool is_choice = option.takes == Takes::kList && !choices.empty() &&
                         std::find(choices.begin(), choices.end(), word) != choices.end();
  const bool has_sizes = option.type.find("SIZES") != std::string::npos;
  constexpr std::size_t kLongestAxis = 3;  // opt
  return is_choice || (has_sizes && value.find('=') != std::string::npos &&
                       word.find('=') != std::string::npos && word.find('=') <= kLongestAxis);
}

/// mount(8) and fstab(5) end an option at each comma, also at those of views=hf,merged and
/// dst_strategy=tp=2,pp=2. Options before `first` are those of another list.
bool add_to_value(const std::string& word, std::size_t first, Given& given) {
  if (given.options.size() == first) return false;
  auto& [option, value] = given.options.back();
  if (!goes_on(*option, value, word)) return false;
  value += "," + word;
  return true;
}

void add_mount_word(const std::string& word, std::size_t first, Given& given) {
  if (word.empty() || word.starts_with("x-") || word.starts_with("comment=")) return;
  if (std::find(kIgnoredWords.begin(), kIgnoredWords.end(), word) != kIgnoredWords.end()) return;
  const Command& command = given.command();
  const std::size_t equals = word.find('=');
  const bool has_value = equals != std::string::npos;
  std::string key = word.substr(0, equals);
  std::replace(key.begin(), key.end(), '_', '-');
  const Option* const option = find_option(command, key);
  if (option == nullptr) {
    if (add_to_value(word, first, given)) return;
    if (has_value) require_no_near_option(command, word.substr(0, equals), key);
    given.options.push_back({find_option(command, "fuse-option"), word});
    return;
  }
  if (!has_value && !option->is_flag()) refuse_missing_value(given, "-o " + word, *option, "");
  given.options.push_back({option, has_value ? word.substr(equals + 1) : "true"});
}

}  // namespace

bool takes_mount_words(const Command& command) {
  return find_option(command, "fuse-option") != nullptr;
}

void add_mount_words(const std::string& list, Given& given) {
  const std::size_t first = given.options.size();
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) add_mount_word(word, first, given);
}

}  // namespace reshardfs
