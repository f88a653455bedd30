// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/step.h"

#include <algorithm>

namespace reshardfs {
namespace {

std::size_t digits_at(std::string_view text, std::size_t from) noexcept {
  const std::size_t stop = text.find_first_not_of("0123456789", from);
  return std::min(stop, text.size()) - from;
}

/// Numbers of any length, so that no file name overflows anything.
std::strong_ordering compare_numbers(std::string_view a, std::string_view b) noexcept {
  a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
  b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

}  // namespace

std::string step_in_file_name(std::string_view file_name) {
  const std::string_view stem = file_name.substr(0, file_name.rfind('.'));
  const std::size_t dash = stem.rfind('-');
  if (dash == std::string_view::npos) return {};
  const std::string_view step = stem.substr(dash + 1);
  const bool is_step = step.find('_') != std::string_view::npos && !step.empty() &&
                       step_prefix_length(step) == step.size();
  return is_step ? std::string(step) : std::string();
}

std::size_t step_prefix_length(std::string_view text) noexcept {
  const std::size_t first = digits_at(text, 0);
  if (first == 0 || first == text.size() || text[first] != '_') return first;
  const std::size_t second = digits_at(text, first + 1);
  return second == 0 ? first : first + 1 + second;
}

std::string step_words(const std::string& step) {
  return step.empty() ? "no step" : "step " + step;
}

std::strong_ordering compare_steps(std::string_view a, std::string_view b) noexcept {
  if (a.empty() || b.empty()) return !a.empty() <=> !b.empty();
  const std::size_t a_bar = a.find('_');
  const std::size_t b_bar = b.find('_');
  const auto epoch = [](std::string_view step, std::size_t bar) {
    return bar == std::string_view::npos ? std::string_view() : step.substr(0, bar);
  };
  const auto number = [](std::string_view step, std::size_t bar) {
    return bar == std::string_view::npos ? step : step.substr(bar + 1);
  };
  const auto by_epoch = compare_numbers(epoch(a, a_bar), epoch(b, b_bar));
  return std::is_neq(by_epoch) ? by_epoch : compare_numbers(number(a, a_bar), number(b, b_bar));
}

std::string join_steps(const std::vector<std::string>& steps) {
  constexpr std::size_t kShown = 20;
  const std::size_t first = steps.size() > kShown ? steps.size() - kShown : 0;
  std::string out = first > 0 ? "..." : "";
  for (std::size_t i = first; i < steps.size(); ++i) {
    if (!out.empty()) out += ", ";
    out += steps[i].empty() ? "files without a step" : steps[i];
  }
  return out;
}

}  // namespace reshardfs
