// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/path_pattern.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "checkpoint/step.h"

namespace reshardfs {
namespace {

Error bad_pattern(const std::string& pattern, const std::string& what) {
  return Error(ErrorKind::kUsage, "the pattern '" + printable(pattern) + "' " + what)
      .hint("write it relative to the source directory, for example 'rank_{rank}/*.ckpt'");
}

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

}  // namespace

PathPattern::PathPattern(const std::string& text) : text_(text) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    components_.push_back(parse_component(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  for (std::size_t i = 0; i < depth(); ++i) {
    if (captures_rank(i)) return;
  }
  throw bad_pattern(text, "has no {rank}");
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
    } else if (take("{step}")) {
      tokens.push_back({TokenKind::kStep, {}});
      has_step_ = true;
    } else if (take("*")) {
      tokens.push_back({TokenKind::kAnyRun, {}});
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

/// Backtracking over one component; the recursion is as deep as the component has tokens.
class PathPattern::Matcher {
 public:
  Matcher(const Component& tokens, std::string_view name) : tokens_(tokens), name_(name) {}

  std::optional<PathCaptures> from(std::size_t token, std::size_t at, PathCaptures captures) const {
    if (token == tokens_.size()) {
      return at == name_.size() ? std::optional(std::move(captures)) : std::nullopt;
    }
    const std::string& literal = tokens_[token].literal;
    switch (tokens_[token].kind) {
      case TokenKind::kLiteral:
        if (name_.substr(at).starts_with(literal)) {
          return from(token + 1, at + literal.size(), std::move(captures));
        }
        return std::nullopt;
      case TokenKind::kAnyByte:
        return at < name_.size() ? from(token + 1, at + 1, std::move(captures)) : std::nullopt;
      case TokenKind::kAnyRun:
        return any_run(token, at, captures);
      case TokenKind::kRank:
        return rank(token, at, std::move(captures));
      case TokenKind::kStep:
        return step(token, at, captures);
    }
    return std::nullopt;
  }

 private:
  /// A number is taken whole: `*{rank}` must not see rank 2 in "net12".
  bool splits_number(std::size_t token, std::size_t at) const {
    const bool after_wildcard = token > 0 && (tokens_[token - 1].kind == TokenKind::kAnyRun ||
                                              tokens_[token - 1].kind == TokenKind::kAnyByte);
    return after_wildcard && at > 0 && is_digit(name_[at - 1]);
  }

  std::optional<PathCaptures> any_run(std::size_t token, std::size_t at,
                                      const PathCaptures& captures) const {
    for (std::size_t next = at; next <= name_.size(); ++next) {
      if (auto matched = from(token + 1, next, captures)) return matched;
    }
    return std::nullopt;
  }

  std::optional<PathCaptures> rank(std::size_t token, std::size_t at, PathCaptures captures) const {
    const std::string_view rest = name_.substr(at);
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits == 0 || splits_number(token, at)) return std::nullopt;
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + digits, value);
    if (error != std::errc{} || value >= kMaxRanks) return std::nullopt;
    if (captures.rank && *captures.rank != value) return std::nullopt;
    captures.rank = value;
    return from(token + 1, at + digits, std::move(captures));
  }

  std::optional<PathCaptures> step(std::size_t token, std::size_t at,
                                   const PathCaptures& before) const {
    if (splits_number(token, at)) return std::nullopt;
    const std::size_t both = step_prefix_length(name_.substr(at));
    const std::size_t first = std::min(name_.substr(at, both).find('_'), both);
    // "9_50_3" under {step}_{rank}: two numbers if the rest fits, else one.
    for (const std::size_t length : {both, first}) {
      const std::string text(name_.substr(at, length));
      if (text.empty() || (!before.step.empty() && before.step != text)) continue;
      if (auto matched = from(token + 1, at + length, {before.rank, text})) return matched;
    }
    return std::nullopt;
  }

  const Component& tokens_;
  std::string_view name_;
};

std::optional<PathCaptures> PathPattern::match(std::size_t component, const std::string& name,
                                               const PathCaptures& before) const {
  const Component& tokens = components_.at(component);
  if (name.starts_with('.') && !tokens.front().literal.starts_with('.')) return std::nullopt;
  return Matcher(tokens, name).from(0, 0, before);
}

}  // namespace reshardfs
