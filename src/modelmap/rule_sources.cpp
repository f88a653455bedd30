// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reshardfs/error.h"

#include "modelmap/rule_form.h"

namespace reshardfs::modelmap {

std::int64_t evaluate_range(const RuleCapture& capture, const Scope& scope) {
  const std::int64_t count = scope.evaluate(*capture.range);
  if (count < 0) {
    throw Error(ErrorKind::kBadInput,
                "the range of '" + capture.name + "' is " + std::to_string(count));
  }
  if (count > kMaxRange) {
    throw Error(ErrorKind::kUnsupported, "the range of '" + capture.name + "' is " +
                                             std::to_string(count) + ", more than " +
                                             std::to_string(kMaxRange));
  }
  return count;
}

RuleSources::RuleSources(const MapRule& rule, const Scope& scope) : ranges_(rule.captures.size()) {
  try {
    for (std::size_t i = 0; i < rule.captures.size(); ++i) {
      if (rule.captures[i].side == CaptureSide::kFrom) {
        ranges_[i] = evaluate_range(rule.captures[i], scope);
      }
    }
    count_sources(rule);
  } catch (const Error& error) {
    throw Error(error.kind(), printable(rule.to.text()) + ": " + error.message());
  }
}

void RuleSources::count_sources(const MapRule& rule) {
  std::int64_t total = 0;
  for (const std::vector<std::size_t>& captures : rule.from_captures) {
    first_.push_back(static_cast<std::size_t>(total));
    std::vector<std::size_t>& collected = collected_.emplace_back();
    std::int64_t count = 1;
    for (const std::size_t capture : captures) {
      if (rule.captures[capture].side != CaptureSide::kFrom) continue;
      collected.push_back(capture);
      count = std::min(count * ranges_[capture], kMaxRange + 1);
    }
    total += count;
    if (total > kMaxRange) {
      throw Error(ErrorKind::kUnsupported,
                  "it would be made of more than " + std::to_string(kMaxRange) + " tensors");
    }
  }
  first_.push_back(static_cast<std::size_t>(total));
}

std::size_t RuleSources::pattern_of(std::size_t source) const {
  const auto next = std::upper_bound(first_.begin(), first_.end(), source);
  return static_cast<std::size_t>(next - first_.begin()) - 1;
}

std::size_t RuleSources::number_of(std::size_t pattern,
                                   const std::vector<CaptureValue>& values) const {
  std::int64_t number = 0;
  for (const std::size_t capture : collected_[pattern]) {
    number = number * ranges_[capture] + values[capture].number;
  }
  return first_[pattern] + static_cast<std::size_t>(number);
}

void RuleSources::set_values(std::size_t source, std::vector<CaptureValue>& values) const {
  const std::size_t pattern = pattern_of(source);
  auto number = static_cast<std::int64_t>(source - first_[pattern]);
  const std::vector<std::size_t>& captures = collected_[pattern];
  for (std::size_t i = captures.size(); i-- > 0;) {
    values[captures[i]].number = number % ranges_[captures[i]];
    number /= ranges_[captures[i]];
  }
}

}  // namespace reshardfs::modelmap
