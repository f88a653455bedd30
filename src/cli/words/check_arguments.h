// SPDX-License-Identifier: Apache-2.0
/// What the options of several commands share.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "conversion/option_words.h"

namespace reshardfs {

/// The path that an option names, absolute; nothing for no text and "none".
/// @throws Error kMissing with the option if there is nothing.
std::optional<std::filesystem::path> existing_path(const std::string& text,
                                                   const std::string& option,
                                                   const std::string& takes);

/// An option with a text, of which the last one counts: the command line wins over a file.
CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& value,
                      const std::string& text);
/// Of --src-prefix, for all commands that open a set.
inline constexpr const char* kPrefixHelp =
    "Which of several runs or models in one directory to read: what the names of its files begin "
    "with, as inspect lists it";

/// An option that may be given several times, with one text each.
CLI::Option* add_texts(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                       const std::string& text);

/// An option that takes one of a few words; the last one counts, and the default is shown.
template <typename Value, std::size_t kCount>
CLI::Option* add_word_option(CLI::App& command, const std::string& name, Value& value,
                             const std::array<OptionWord<Value>, kCount>& words,
                             const std::string& text) {
  const std::vector<std::string> all = all_words(words);
  std::string type;
  for (const std::string& word : all) type += (type.empty() ? "" : "|") + word;
  const auto take = [&value, &words](const std::string& word) {
    if (const auto found = value_of(words, word)) value = *found;
  };
  return command.add_option_function<std::string>(name, take, text)
      ->type_name(type)
      ->check(CLI::IsMember(all).description(""))
      ->default_str(word_of(words, value))
      ->take_last();
}

/// --replicas, or what it is called for one side.
void add_replicas_option(CLI::App& command, const std::string& name, Replicas& replicas,
                         const std::string& text);

/// --dec-mode, or what it is called for one side.
void add_decryption_mode(CLI::App& command, const std::string& name, std::string& mode);

/// --weights-only.
void add_weights_option(CLI::App& command, bool& weights_only);

/// --allow-unmatched.
void add_unmatched_option(CLI::App& command, bool& allow_unmatched);

/// -j, --jobs.
void add_jobs_option(CLI::App& command, std::size_t& jobs);

}  // namespace reshardfs
