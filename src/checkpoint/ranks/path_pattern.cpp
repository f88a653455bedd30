// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/path_pattern.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/numbers.h"
#include "checkpoint/series/step.h"

namespace reshardfs {
namespace {

Error bad_pattern(const std::string& pattern, const std::string& what) {
  return Error(ErrorKind::kUsage, "the pattern '" + printable(pattern) + "' " + what)
      .hint("write it relative to the source directory, for example 'rank_{rank}/*.ckpt'");
}

}  // namespace

PathPattern::PathPattern(const std::string& text) : text_(text) {
  // A component is matched by recursion, as deep as it has tokens.
  constexpr std::size_t kMaxBytes = 1024;
  if (text.size() > kMaxBytes) {
    throw bad_pattern(text, "is longer than " + std::to_string(kMaxBytes) + " bytes");
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    components_.push_back(parse_component(text.substr(begin, end - begin)));
    begin = end + 1;
  }
}

PathPattern::Component PathPattern::parse_component(const std::string& text) {
  if (text.empty()) throw bad_pattern(text_, "has an empty component");
  if (text == "." || text == "..") throw bad_pattern(text_, "has a component '" + text + "'");
  Component tokens;
  std::string_view rest = text;
  const auto take = [&rest](std::string_view prefix) {
    if (!rest.starts_with(prefix)) return false;
    rest.remove_prefix(prefix.size());
    return true;
  };
  while (!rest.empty()) {
    if (take("{rank}")) {
      tokens.push_back({TokenKind::kRank, {}});
      has_rank_ = true;
    } else if (take("{step}")) {
      const bool is_part = !tokens.empty() && (tokens.back().literal.ends_with("part-") ||
                                               tokens.back().literal.ends_with("part_"));
      if (is_part)
        throw bad_pattern(text_, "has {step} where a part of a file is counted; write *");
      tokens.push_back({TokenKind::kStep, {}});
      has_step_ = true;
    } else if (take("*")) {
      const bool again = !tokens.empty() && tokens.back().kind == TokenKind::kAnyRun;
      if (!again) tokens.push_back({TokenKind::kAnyRun, {}});
    } else if (take("?")) {
      tokens.push_back({TokenKind::kAnyByte, {}});
    } else if (rest.front() == '{') {
      throw bad_pattern(text_, "has a '{' that begins neither {rank} nor {step}");
    } else {
      const std::string_view literal = rest.substr(0, rest.find_first_of("{*?"));
      tokens.push_back({TokenKind::kLiteral, std::string(literal)});
      rest.remove_prefix(literal.size());
    }
  }
  return tokens;
}

bool PathPattern::captures_rank(std::size_t component) const {
  const Component& tokens = components_.at(component);
  return std::any_of(tokens.begin(), tokens.end(),
                     [](const Token& token) { return token.kind == TokenKind::kRank; });
}

/// Tries one token after the other, the shortest run first. Where a rest of the tokens has once not
/// fitted a rest of the name it is not tried again, so that the work is in proportion to the
/// product of their numbers, however many stars there are. What a rest fits may depend on a capture
/// that it wants to see again: for each such value it is tried for itself.
class PathPattern::Matcher {
 public:
  Matcher(const Component& tokens, std::string_view name) : tokens_(tokens), name_(name) {}

  std::optional<PathCaptures> match(const PathCaptures& before) {
    const PathCaptures numbers{before.rank, before.step};
    auto matched = from(0, 0, numbers, failures_for(0, numbers));
    if (!matched) return matched;
    std::string shape = before.shape.empty() ? std::string() : before.shape + "/";
    for (auto text = shape_.rbegin(); text != shape_.rend(); ++text) shape += *text;
    matched->shape = std::move(shape);
    return matched;
  }

 private:
  /// Of each token and each place in the name.
  using Failures = std::vector<bool>;

  std::size_t state(std::size_t token, std::size_t at) const {
    return token * (name_.size() + 1) + at;
  }

  /// @param token the first of those that are still to be matched.
  Failures& failures_for(std::size_t token, const PathCaptures& captures) {
    const auto wants = [&](TokenKind kind) {
      return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(token), tokens_.end(),
                         [&](const Token& later) { return later.kind == kind; });
    };
    PathCaptures seen_again;
    if (wants(TokenKind::kRank)) seen_again.rank = captures.rank;
    if (wants(TokenKind::kStep)) seen_again.step = captures.step;
    Failures& failures = failures_[seen_again];
    failures.resize(state(tokens_.size(), 0));
    return failures;
  }

  std::optional<PathCaptures> from(std::size_t token, std::size_t at, const PathCaptures& captures,
                                   Failures& failed) {
    if (token == tokens_.size()) {
      return at == name_.size() ? std::optional(captures) : std::nullopt;
    }
    if (failed[state(token, at)]) return std::nullopt;
    auto matched = take(token, at, captures, failed);
    if (!matched) failed[state(token, at)] = true;
    return matched;
  }

  /// Notes what the token stands for, if the rest has matched: the last token comes first.
  std::optional<PathCaptures> as(std::string_view text, std::optional<PathCaptures> rest) {
    if (rest) shape_.emplace_back(text);
    return rest;
  }

  std::optional<PathCaptures> take(std::size_t token, std::size_t at, const PathCaptures& captures,
                                   Failures& failed) {
    const std::string& literal = tokens_[token].literal;
    switch (tokens_[token].kind) {
      case TokenKind::kLiteral:
        if (!name_.substr(at).starts_with(literal)) return std::nullopt;
        return as(literal, from(token + 1, at + literal.size(), captures, failed));
      case TokenKind::kAnyByte:
        if (at == name_.size()) return std::nullopt;
        return as(name_.substr(at, 1), from(token + 1, at + 1, captures, failed));
      case TokenKind::kAnyRun:
        return any_run(token, at, captures, failed);
      case TokenKind::kRank:
        return rank(token, at, captures);
      case TokenKind::kStep:
        return step(token, at, captures);
    }
    return std::nullopt;
  }

  /// A number is taken whole: `*{rank}` must not see rank 2 in "net12".
  bool splits_number(std::size_t token, std::size_t at) const {
    const bool after_wildcard = token > 0 && (tokens_[token - 1].kind == TokenKind::kAnyRun ||
                                              tokens_[token - 1].kind == TokenKind::kAnyByte);
    return after_wildcard && at > 0 && is_digit(name_[at - 1]);
  }

  std::optional<PathCaptures> any_run(std::size_t token, std::size_t at,
                                      const PathCaptures& captures, Failures& failed) {
    for (std::size_t next = at; next <= name_.size(); ++next) {
      // The run was tried from here, and with it all that are longer.
      if (failed[state(token, next)]) return std::nullopt;
      if (auto matched = from(token + 1, next, captures, failed)) {
        return as(name_.substr(at, next - at), std::move(matched));
      }
      failed[state(token, next)] = true;
    }
    return std::nullopt;
  }

  std::optional<PathCaptures> rank(std::size_t token, std::size_t at, PathCaptures captures) {
    const std::string_view rest = name_.substr(at);
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits == 0 || splits_number(token, at)) return std::nullopt;
    const auto number = parse_number(rest.substr(0, digits));
    if (!number || *number >= kMaxRanks) return std::nullopt;
    if (captures.rank && *captures.rank != Rank(*number)) return std::nullopt;
    captures.rank = Rank(*number);
    return as("{rank}", from(token + 1, at + digits, captures, failures_for(token + 1, captures)));
  }

  std::optional<PathCaptures> step(std::size_t token, std::size_t at, const PathCaptures& before) {
    if (splits_number(token, at)) return std::nullopt;
    const std::size_t both = step_prefix_length(name_.substr(at));
    const std::size_t first = std::min(name_.substr(at, both).find('_'), both);
    // "9_50_3" under {step}_{rank}: two numbers if the rest fits, else one.
    for (const std::size_t length : {both, first}) {
      const std::string text(name_.substr(at, length));
      if (text.empty() || (!before.step.empty() && before.step != text)) continue;
      const PathCaptures captures{before.rank, text};
      if (auto matched =
              from(token + 1, at + length, captures, failures_for(token + 1, captures))) {
        return as("{step}", std::move(matched));
      }
    }
    return std::nullopt;
  }

  const Component& tokens_;
  std::string_view name_;
  std::map<PathCaptures, Failures> failures_;
  std::vector<std::string> shape_;  ///< of each token, the last one first
};

std::optional<PathCaptures> PathPattern::match(std::size_t component, const std::string& name,
                                               const PathCaptures& before) const {
  const Component& tokens = components_.at(component);
  if (name.starts_with('.') && !tokens.front().literal.starts_with('.')) return std::nullopt;
  return Matcher(tokens, name).match(before);
}

}  // namespace reshardfs
