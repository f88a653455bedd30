// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/iter_directories.h"

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

constexpr StepNames kIterNames{parse_iter_directory, "release"};

}  // namespace

std::optional<std::string> parse_iter_directory(std::string_view name) {
  constexpr std::string_view kBefore = "iter_";
  constexpr std::size_t kDigits = 7;
  if (!name.starts_with(kBefore) || name.size() < kBefore.size() + kDigits) return std::nullopt;
  const auto step = parse_number(name.substr(kBefore.size()));
  return step ? std::optional(std::to_string(*step)) : std::nullopt;
}

std::optional<StepDirectories> find_iters(const std::filesystem::path& directory,
                                          const SourceTreePtr& tree, bool needs_tracker) {
  auto found = list_steps(directory, kIterNames, tree, needs_tracker);
  if (!found) return std::nullopt;
  const bool has_release = found->release && found->tracks_release;
  if (found->directories.empty() && !has_release) return std::nullopt;
  return found;
}

}  // namespace reshardfs
