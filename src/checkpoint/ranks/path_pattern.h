// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/rank.h"

namespace reshardfs {

/// The facts about a file that the components of its path have given so far.
struct PathCaptures {
  std::optional<Rank> rank;
  std::string step;  ///< empty: unknown
  /// The path with its rank and step replaced by "{rank}" and "{step}". The text that a star
  /// matched stays, and distinguishes files of different runs.
  std::string shape{};

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const PathCaptures&) const = default;
};

/// The pattern of the paths of a checkpoint set's files below its directory: `rank_{rank}/*.ckpt`.
/// {rank} matches a whole run of digits, {step} one or two numbers ("50", "9_50"); if one of them
/// occurs twice, both must match the same text. `*` and `?` match inside a component, and do not
/// match a leading dot. Without {rank}, the files are those of one process.
class PathPattern {
 public:
  /// @throws Error kUsage if the pattern is invalid: an empty component, "..", ...
  explicit PathPattern(const std::string& text);

  const std::string& text() const noexcept { return text_; }
  /// Number of components, at least 1; the last one is the file's.
  std::size_t depth() const noexcept { return components_.size(); }
  bool has_step() const noexcept { return has_step_; }
  bool has_rank() const noexcept { return has_rank_; }
  bool captures_rank(std::size_t component) const;

  /// Matches `name` with a component, after earlier components gave `before`. Returns the captures
  /// including its own, or nullopt.
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
  bool has_rank_ = false;
};

}  // namespace reshardfs
