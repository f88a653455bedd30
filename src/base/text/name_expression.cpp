// SPDX-License-Identifier: Apache-2.0
#include "base/text/name_expression.h"

#include <memory>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostStates = 20'000;
constexpr std::size_t kMostCount = 1'000;
constexpr std::size_t kMostDepth = 100;

}  // namespace

/// Makes states from behind: each part is made with the state that follows it.
class NameExpression::Parser {
 public:
  Parser(NameExpression& out, std::string_view text) : out_(out), text_(text) {}

  void all() {
    const NodePtr node = alternatives();
    if (at_ != text_.size()) refuse("a ')' without its '('");
    out_.start_ = make(*node, add({}));
  }

 private:
  enum class Of : std::uint8_t { kNothing, kSet, kBegin, kEnd, kJoined, kOneOf, kRepeated };
  struct Node;
  using NodePtr = std::unique_ptr<Node>;
  struct Node {
    Of of = Of::kNothing;
    Set set{};
    std::size_t least = 0;
    std::optional<std::size_t> most{};
    std::vector<NodePtr> parts{};
  };

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kUnsupported, "the expression has " + what);
  }

  bool more() const { return at_ < text_.size(); }
  bool take(char wanted) {
    if (!more() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  char next() {
    if (!more()) refuse("no end");
    return text_[at_++];
  }

  static NodePtr of_set(const Set& set) {
    auto node = std::make_unique<Node>();
    node->of = Of::kSet;
    node->set = set;
    return node;
  }
  static NodePtr of_kind(Of of) {
    auto node = std::make_unique<Node>();
    node->of = of;
    return node;
  }

  NodePtr alternatives() {
    auto node = of_kind(Of::kOneOf);
    do {
      node->parts.push_back(joined());
    } while (take('|'));
    return node;
  }

  NodePtr joined() {
    auto node = of_kind(Of::kJoined);
    while (more() && text_[at_] != '|' && text_[at_] != ')') node->parts.push_back(repeated());
    return node;
  }

  NodePtr repeated() {
    NodePtr node = one();
    std::size_t times = 0;
    while (true) {
      std::size_t least = 0;
      std::optional<std::size_t> most;
      if (take('+')) {
        least = 1;
      } else if (take('?')) {
        most = 1;
      } else if (!take('*')) {
        if (!counts(least, most)) return node;
      }
      if (++times > 1) refuse("a repetition of a repetition");
      take('?');  // which of several matches is found does not matter
      if (more() && text_[at_] == '+') refuse("a possessive repetition");
      auto outer = of_kind(Of::kRepeated);
      outer->least = least;
      outer->most = most;
      outer->parts.push_back(std::move(node));
      node = std::move(outer);
    }
  }

  /// "{2}", "{2,}", "{,3}", "{2,3}"; other braces are themselves.
  bool counts(std::size_t& least, std::optional<std::size_t>& most) {
    const std::size_t begin = at_;
    if (!take('{')) return false;
    const auto number = [&]() -> std::optional<std::size_t> {
      std::optional<std::size_t> value;
      while (more() && text_[at_] >= '0' && text_[at_] <= '9') {
        value = (value ? *value : 0) * 10 + static_cast<std::size_t>(text_[at_++] - '0');
        if (*value > kMostCount) refuse("more than 1000 repetitions");
      }
      return value;
    };
    const auto first = number();
    const bool has_comma = take(',');
    most = has_comma ? number() : first;
    if (!take('}') || (!first && !most)) {
      at_ = begin;
      return false;
    }
    if (first) least = *first;
    if (most && *most < least) refuse("a repetition whose maximum is below its minimum");
    return true;
  }

  NodePtr one() {
    const char c = next();
    switch (c) {
      case '.': {
        Set set;
        set.set();
        set.reset('\n');
        return of_set(set);
      }
      case '^':
        return of_kind(Of::kBegin);
      case '$':
        return of_kind(Of::kEnd);
      case '[':
        return of_set(bracket());
      case '\\':
        return of_set(escaped());
      case '(': {
        if (take('?') && !take(':')) refuse("an unknown group '(?'");
        if (++depth_ > kMostDepth) refuse("groups nested too deeply");
        NodePtr node = alternatives();
        --depth_;
        if (!take(')')) refuse("a '(' without its ')'");
        return node;
      }
      case '*':
      case '+':
      case '?':
        refuse("a repetition without anything to repeat");
      default: {
        Set set;
        set.set(static_cast<unsigned char>(c));
        return of_set(set);
      }
    }
  }

  static Set of_range(unsigned char from, unsigned char to) {
    Set set;
    for (unsigned c = from; c <= to; ++c) set.set(c);
    return set;
  }

  /// Behind a backslash.
  Set escaped() {
    const char c = next();
    switch (c) {
      case 'd':
        return of_range('0', '9');
      case 'D':
        return ~of_range('0', '9');
      case 'w':
      case 'W': {
        Set set = of_range('0', '9') | of_range('a', 'z') | of_range('A', 'Z');
        set.set('_');
        return c == 'w' ? set : ~set;
      }
      case 's':
      case 'S': {
        Set set = of_range('\t', '\r');
        set.set(' ');
        return c == 's' ? set : ~set;
      }
      default:
        break;
    }
    const bool is_sign = static_cast<unsigned char>(c) < 0x80 &&
                         !(of_range('0', '9') | of_range('a', 'z') | of_range('A', 'Z'))
                              .test(static_cast<unsigned char>(c));
    if (!is_sign) refuse(std::string("'\\") + c + "', which is not known");
    Set set;
    set.set(static_cast<unsigned char>(c));
    return set;
  }

  /// Behind a '['.
  Set bracket() {
    const bool is_other = take('^');
    Set set;
    bool is_first = true;
    while (is_first || !more() || text_[at_] != ']') {
      is_first = false;
      const char c = next();
      if (c == '\\') {
        const Set some = escaped();
        if (some.count() != 1) {
          set |= some;
          continue;
        }
        range_from(static_cast<unsigned char>(text_[at_ - 1]), set);
      } else {
        if (static_cast<unsigned char>(c) >= 0x80) refuse("a set with characters beyond ASCII");
        range_from(static_cast<unsigned char>(c), set);
      }
    }
    ++at_;
    return is_other ? ~set : set;
  }

  void range_from(unsigned char from, Set& set) {
    set.set(from);
    if (at_ + 1 >= text_.size() || text_[at_] != '-' || text_[at_ + 1] == ']') return;
    ++at_;
    char to = next();
    if (to == '\\') {
      if (escaped().count() != 1) refuse("a range that ends with a set");
      to = text_[at_ - 1];
    }
    const auto last = static_cast<unsigned char>(to);
    if (last >= 0x80 || last < from) refuse("a range without characters");
    set |= of_range(from, last);
  }

  std::size_t add(State state) {
    if (out_.states_.size() >= kMostStates) refuse("too many parts");
    out_.states_.push_back(state);
    return out_.states_.size() - 1;
  }

  /// @return where the node begins, if `after` follows it.
  std::size_t make(const Node& node, std::size_t after) {
    switch (node.of) {
      case Of::kNothing:
        return after;
      case Of::kSet:
        out_.sets_.push_back(node.set);
        return add({.kind = Kind::kSet, .set = out_.sets_.size() - 1, .next = after});
      case Of::kBegin:
        return add({.kind = Kind::kBegin, .next = after});
      case Of::kEnd:
        return add({.kind = Kind::kEnd, .next = after});
      case Of::kJoined:
        for (std::size_t i = node.parts.size(); i > 0; --i) after = make(*node.parts[i - 1], after);
        return after;
      case Of::kOneOf: {
        std::size_t begin = make(*node.parts.back(), after);
        for (std::size_t i = node.parts.size() - 1; i > 0; --i) {
          const std::size_t other = make(*node.parts[i - 1], after);
          begin = add({.kind = Kind::kSplit, .next = other, .other = begin});
        }
        return begin;
      }
      case Of::kRepeated: {
        const Node& part = *node.parts.front();
        std::size_t begin = after;
        if (!node.most) {
          begin = add({.kind = Kind::kSplit, .next = after, .other = after});
          const std::size_t again = make(part, begin);
          out_.states_[begin].next = again;
        } else {
          for (std::size_t i = node.least; i < *node.most; ++i) {
            const std::size_t once = make(part, begin);
            begin = add({.kind = Kind::kSplit, .next = once, .other = after});
          }
        }
        for (std::size_t i = 0; i < node.least; ++i) begin = make(part, begin);
        return begin;
      }
    }
    return after;
  }

  NameExpression& out_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
};

NameExpression::NameExpression(std::string_view text) {
  Parser(*this, text).all();
}

bool NameExpression::matches_beginning(std::string_view text) const {
  std::vector<std::size_t> now;
  std::vector<std::size_t> reached(states_.size(), text.size() + 1);  // at which byte, lastly
  std::vector<std::size_t> open;
  bool matched = false;
  const auto enter = [&](std::size_t state, std::size_t at, std::vector<std::size_t>& into) {
    open.push_back(state);
    while (!open.empty()) {
      const std::size_t which = open.back();
      open.pop_back();
      if (reached[which] == at) continue;
      reached[which] = at;
      const State& of = states_[which];
      switch (of.kind) {
        case Kind::kSet:
          into.push_back(which);
          break;
        case Kind::kSplit:
          open.push_back(of.other);
          open.push_back(of.next);
          break;
        case Kind::kBegin:
          if (at == 0) open.push_back(of.next);
          break;
        case Kind::kEnd:
          if (at == text.size()) open.push_back(of.next);
          break;
        case Kind::kMatch:
          matched = true;
          break;
      }
    }
  };
  enter(start_, 0, now);
  for (std::size_t at = 0; at < text.size() && !matched && !now.empty(); ++at) {
    std::vector<std::size_t> following;
    for (const std::size_t state : now) {
      if (sets_[states_[state].set].test(static_cast<unsigned char>(text[at]))) {
        enter(states_[state].next, at + 1, following);
      }
    }
    now = std::move(following);
  }
  return matched;
}

}  // namespace reshardfs
