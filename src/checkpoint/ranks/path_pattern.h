// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/rank.h"

namespace reshardfs {

/// What a path has told so far about the file at its end.
struct PathCaptures {
  std::optional<Rank> rank;
  std::string step;  ///< empty: nothing
  /// The path with "{rank}" and "{step}" in place of what they stand for: what a star has taken
  /// tells files of different runs apart.
  std::string shape{};

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const PathCaptures&) const = default;
};

/// Where the files of a checkpoint set are below its directory: `rank_{rank}/*.ckpt`. {rank} is a
/// whole run of digits, {step} one or two numbers ("50", "9_50"); where one of them stands twice it
/// must be the same. `*` and `?` stay inside a component, and do not match a leading dot.
class PathPattern {
 public:
  /// @throws Error kUsage if it is no pattern: no {rank}, an empty component, "..", ...
  explicit PathPattern(const std::string& text);

  const std::string& text() const noexcept { return text_; }
  /// Number of components, at least 1; the last one is the file's.
  std::size_t depth() const noexcept { return components_.size(); }
  bool has_step() const noexcept { return has_step_; }
  bool captures_rank(std::size_t component) const;

  /// Whether `name` fits the component, given what the components before have captured; if so, the
  /// captures including its own.
  std::optional<PathCaptures> match(std::size_t component, const std::string& name,
                                    const PathCaptures& before) const;

 private:
  enum class TokenKind : std::uint8_t { kLiteral, kAnyRun, kAnyByte, kRank, kStep };
  struct Token {
    TokenKind kind;
    std::string literal;
  };
  using Component = std::vector<Token>;
  class Matcher;

  Component parse_component(const std::string& text);

  std::string text_;
  std::vector<Component> components_;
  bool has_step_ = false;
};

}  // namespace reshardfs
