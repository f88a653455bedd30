// SPDX-License-Identifier: Apache-2.0
#include "view/hyper/training_progress.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "base/text/numbers.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/series/step_sets.h"
#include "view/files/scalar_value.h"

namespace reshardfs {
namespace {

/// Up to here a double has each whole number.
constexpr double kMostExact = 9007199254740992.0;

std::optional<std::int64_t> count_of(const std::variant<std::int64_t, double>& value) {
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) {
    return *whole >= 0 ? std::optional(*whole) : std::nullopt;
  }
  const double number = std::get<double>(value);
  const bool is_count = number >= 0 && number < kMostExact && number == std::floor(number);
  return is_count ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

/// Of a parameter of the source, which a map need not show.
std::optional<std::int64_t> counter(const ViewContext& context, std::string_view name) {
  const SourceParameter* const parameter = context.whole->source().unmapped().find(name);
  if (parameter == nullptr) return std::nullopt;
  const auto value = scalar_value(*parameter->holders.begin());
  return value ? count_of(*value) : std::nullopt;
}

/// Whether a directory above the files tells an epoch alone: "epoch_3".
bool is_of_epoch(const CheckpointSet& set) {
  constexpr std::string_view kEpoch = "epoch";
  const std::filesystem::path directory = set.files().front().path.parent_path();
  return std::any_of(directory.begin(), directory.end(), [&](const std::filesystem::path& part) {
    const std::string name = part.string();
    return name.starts_with(kEpoch) && step_of_folder(name) == set.step();
  });
}

}  // namespace

std::optional<std::int64_t> training_step(const ViewContext& context) {
  if (context.options.trainer.step) return context.options.trainer.step;
  for (const std::string_view name : {"global_step", "step_num"}) {
    if (const auto step = counter(context, name)) return step;
  }
  const CheckpointSet& set = context.whole->source().checkpoint();
  const auto named = is_of_epoch(set) ? std::nullopt : parse_number(set.step());
  return named && *named > 0 ? named : std::nullopt;
}

}  // namespace reshardfs
