// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/iteration/iteration_names.h"

#include <algorithm>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

constexpr std::string_view kDirectory = "iteration_";
constexpr std::size_t kStepDigits = 8;
constexpr std::size_t kRankDigits = 7;
/// So that it is a number in 64 bits.
constexpr std::size_t kMostStepDigits = 18;
constexpr std::string_view kFileExtension = ".safetensors";

/// A number that is padded with zeros to so many digits, and has no more of them.
std::optional<std::int64_t> padded(std::string_view text, std::size_t digits) {
  const bool is_number = text.size() >= digits && text.size() <= kMostStepDigits &&
                         std::all_of(text.begin(), text.end(), is_digit);
  if (!is_number || (text.size() > digits && text.front() == '0')) return std::nullopt;
  return parse_number(text);
}

/// What follows the last '-' is taken off the text.
std::string_view take_last(std::string_view& text) {
  const std::size_t dash = text.rfind('-');
  if (dash == std::string_view::npos) return {};
  const std::string_view last = text.substr(dash + 1);
  text.remove_suffix(text.size() - dash);
  return last;
}

bool ends_in_word(std::string_view text, std::string_view word) {
  return text == word || (text.ends_with(word) && text[text.size() - word.size() - 1] == '-');
}

}  // namespace

std::optional<std::string> parse_iteration_directory(std::string_view name) {
  if (!name.starts_with(kDirectory)) return std::nullopt;
  const auto step = padded(name.substr(kDirectory.size()), kStepDigits);
  return step ? std::optional(std::to_string(*step)) : std::nullopt;
}

std::optional<IterationFile> parse_iteration_file(std::string_view name) {
  if (!name.ends_with(kFileExtension)) return std::nullopt;
  name.remove_suffix(kFileExtension.size());
  const auto count = padded(take_last(name), kRankDigits);
  const auto rank = padded(take_last(name), kRankDigits);
  const bool model = ends_in_word(name, "model");
  if (!count || !rank || (!model && !ends_in_word(name, "opt"))) return std::nullopt;
  name.remove_suffix(std::string_view(model ? "model" : "opt").size());
  return IterationFile{Rank(*rank), *count, !model, std::string(name)};
}

}  // namespace reshardfs
