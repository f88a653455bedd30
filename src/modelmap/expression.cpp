// SPDX-License-Identifier: Apache-2.0
#include "modelmap/expression.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/text/numbers.h"

namespace reshardfs::modelmap {
namespace {

bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_word(char c) {
  return is_word_start(c) || is_digit(c);
}

constexpr std::array<std::string_view, 5> kWords = {"and", "or", "not", "true", "false"};

[[noreturn]] void fail_in(std::string_view text, const std::string& what) {
  throw Error(ErrorKind::kBadInput,
              "wrong expression '" + printable(std::string(text.substr(0, 100))) + "': " + what);
}

}  // namespace

bool is_expression_name(std::string_view text) {
  return !text.empty() && is_word_start(text[0]) &&
         std::all_of(text.begin(), text.end(), is_word) &&
         std::find(kWords.begin(), kWords.end(), text) == kWords.end();
}

/// Recursive descent; every level of brackets counts towards kMaxExpressionDepth.
class ExpressionParser {
 public:
  using Op = Expression::Op;

  ExpressionParser(std::string_view text, ExpressionKind kind) : text_(text), kind_(kind) {}

  Expression parse() {
    if (text_.size() > kMaxExpressionBytes) {
      fail("it is longer than " + std::to_string(kMaxExpressionBytes) + " bytes");
    }
    whole();
    if (!at_end()) fail("'" + printable(std::string(text_.substr(at_, 10))) + "' is unexpected");
    out_.text_ = std::string(text_);
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { fail_in(text_, what); }

  bool at_end() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_ == text_.size();
  }
  /// Takes an operator of signs.
  bool take(std::string_view sign) {
    if (at_end() || !text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  /// Takes `and`, `or` or `not`.
  bool take_word(std::string_view word) {
    if (kind_ != ExpressionKind::kCondition || at_end() || next_word() != word) return false;
    at_ += word.size();
    return true;
  }
  std::string_view next_word() const {
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  void emit(Op op, std::int64_t value = 0) { out_.steps_.push_back({op, value}); }

  void whole() { either("or", Op::kOr, &ExpressionParser::conjunction); }
  void conjunction() { either("and", Op::kAnd, &ExpressionParser::negation); }

  void either(std::string_view word, Op op, void (ExpressionParser::*part)()) {
    (this->*part)();
    std::vector<std::size_t> jumps;
    while (take_word(word)) {
      jumps.push_back(out_.steps_.size());
      emit(op);
      (this->*part)();
    }
    if (jumps.empty()) return;
    emit(Op::kTruth);
    for (const std::size_t jump : jumps) {
      out_.steps_[jump].value = static_cast<std::int64_t>(out_.steps_.size());
    }
  }

  void negation() {
    std::size_t count = 0;
    while (take_word("not")) ++count;
    comparison();
    for (; count > 0; --count) emit(Op::kNot);
  }

  void comparison() {
    sum();
    if (kind_ != ExpressionKind::kCondition) return;
    const std::optional<Op> op = comparison_sign();
    if (!op) return;
    sum();
    emit(*op);
    if (comparison_sign()) fail("comparisons cannot follow upon each other; use 'and'");
  }

  std::optional<Op> comparison_sign() {
    constexpr std::array<std::pair<std::string_view, Op>, 6> kSigns = {{{"==", Op::kEqual},
                                                                        {"!=", Op::kUnequal},
                                                                        {"<=", Op::kLessEqual},
                                                                        {">=", Op::kGreaterEqual},
                                                                        {"<", Op::kLess},
                                                                        {">", Op::kGreater}}};
    for (const auto& [sign, op] : kSigns) {
      if (take(sign)) return op;
    }
    return std::nullopt;
  }

  void sum() {
    product();
    while (true) {
      if (take("+")) {
        product();
        emit(Op::kAdd);
      } else if (take("-")) {
        product();
        emit(Op::kSubtract);
      } else {
        return;
      }
    }
  }

  void product() {
    signed_operand();
    while (true) {
      Op op = Op::kMultiply;
      if (take("/")) {
        op = Op::kDivide;
      } else if (take("%")) {
        op = Op::kRemainder;
      } else if (!take("*")) {
        return;
      }
      signed_operand();
      emit(op);
    }
  }

  void signed_operand() {
    bool negative = false;
    while (true) {
      if (take("-")) {
        negative = !negative;
      } else if (!take("+")) {
        break;
      }
    }
    operand();
    if (negative) emit(Op::kNegate);
  }

  void operand() {
    if (at_end()) fail("it ends where a number or a name is expected");
    const char c = text_[at_];
    if (c == '(') return brackets();
    if (c == '{') return braces();
    if (is_digit(c)) return number();
    if (is_word_start(c)) return name();
    fail("'" + printable(std::string(text_.substr(at_, 10))) +
         "' where a number or a name is expected");
  }

  void brackets() {
    if (++depth_ > kMaxExpressionDepth) {
      fail("more than " + std::to_string(kMaxExpressionDepth) + " brackets inside each other");
    }
    ++at_;
    whole();
    if (!take(")")) fail("')' is missing");
    --depth_;
  }

  /// {layer} is the same as layer.
  void braces() {
    ++at_;
    at_end();
    if (at_ == text_.size() || !is_word_start(text_[at_]))
      fail("'{' without the name of a capture");
    name();
    if (!take("}")) fail("'}' is missing");
  }

  void number() {
    std::string_view rest = text_.substr(at_);
    const auto value = take_number<std::int64_t>(rest);
    if (!value) fail("a number exceeds the range of 64-bit numbers");
    at_ = text_.size() - rest.size();
    if (at_ < text_.size() && is_word(text_[at_])) fail("a number is followed by a letter");
    emit(Op::kNumber, *value);
  }

  void name() {
    const std::string word(next_word());
    at_ += word.size();
    if (word == "true" || word == "false") return emit(Op::kNumber, word == "true" ? 1 : 0);
    if (!is_expression_name(word)) fail("'" + word + "' is possible in conditions alone");
    const auto known = std::find(out_.names_.begin(), out_.names_.end(), word);
    emit(Op::kName, known - out_.names_.begin());
    if (known == out_.names_.end()) out_.names_.push_back(word);
  }

  std::string_view text_;
  ExpressionKind kind_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  Expression out_{};
};

Expression Expression::parse(std::string_view text, ExpressionKind kind) {
  return ExpressionParser(text, kind).parse();
}

void Expression::fail(const std::string& what) const {
  throw Error(ErrorKind::kBadInput, "'" + printable(text_) + "': " + what);
}

std::int64_t Expression::binary(Op op, std::int64_t a, std::int64_t b) const {
  std::int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Op::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case Op::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case Op::kDivide:
    case Op::kRemainder: {
      if (b == 0) fail(std::to_string(a) + " is divided by 0");
      overflows = b == -1 && a == std::numeric_limits<std::int64_t>::min();
      const std::int64_t rest = overflows ? 0 : a % b;
      if (op == Op::kDivide && rest != 0) {
        fail(std::to_string(a) + " cannot be divided by " + std::to_string(b));
      }
      if (op == Op::kDivide && !overflows) result = a / b;
      if (op == Op::kRemainder) {
        overflows = false;
        result = rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
      }
      break;
    }
    case Op::kEqual:
      return a == b ? 1 : 0;
    case Op::kUnequal:
      return a != b ? 1 : 0;
    case Op::kLess:
      return a < b ? 1 : 0;
    case Op::kLessEqual:
      return a <= b ? 1 : 0;
    case Op::kGreater:
      return a > b ? 1 : 0;
    default:
      return a >= b ? 1 : 0;
  }
  if (overflows) fail("the result exceeds the range of 64-bit numbers");
  return result;
}

std::int64_t Expression::run(std::size_t steps, const NameLookup& lookup) const {
  std::vector<std::int64_t> stack;
  for (std::size_t i = 0; i < steps; ++i) {
    const Step& step = steps_[i];
    switch (step.op) {
      case Op::kNumber:
        stack.push_back(step.value);
        break;
      case Op::kName:
        stack.push_back(lookup(names_[static_cast<std::size_t>(step.value)]));
        break;
      case Op::kNegate:
        stack.back() = binary(Op::kSubtract, 0, stack.back());
        break;
      case Op::kNot:
        stack.back() = stack.back() == 0 ? 1 : 0;
        break;
      case Op::kTruth:
        stack.back() = stack.back() == 0 ? 0 : 1;
        break;
      case Op::kAnd:
      case Op::kOr:
        if ((stack.back() == 0) == (step.op == Op::kAnd)) {
          stack.back() = step.op == Op::kAnd ? 0 : 1;
          i = static_cast<std::size_t>(step.value) - 1;
        } else {
          stack.pop_back();
        }
        break;
      default: {
        const std::int64_t right = stack.back();
        stack.pop_back();
        stack.back() = binary(step.op, stack.back(), right);
      }
    }
  }
  return stack.back();
}

std::int64_t Expression::evaluate(const NameLookup& lookup) const {
  return run(steps_.size(), lookup);
}

std::optional<std::string> Expression::bindable_name() const {
  const std::size_t count = steps_.size();
  const Step* name = nullptr;
  if (count == 1) name = &steps_.front();
  if (count > 2 && steps_.back().op == Op::kMultiply) name = &steps_[count - 2];
  if (name == nullptr || name->op != Op::kName) return std::nullopt;
  return names_[static_cast<std::size_t>(name->value)];
}

std::int64_t Expression::bindable_factor(const NameLookup& lookup) const {
  return steps_.size() == 1 ? 1 : run(steps_.size() - 2, lookup);
}

}  // namespace reshardfs::modelmap
