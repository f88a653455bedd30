// SPDX-License-Identifier: Apache-2.0
#include "modelmap/operation.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "reshardfs/error.h"

#include "base/cast.h"

namespace reshardfs::modelmap {
namespace {

struct Grammar {
  std::string_view name;
  OperationKind kind;
  std::string_view form;
};

constexpr std::array<Grammar, 12> kGrammar = {{
    {"reshape", OperationKind::kReshape, "reshape [a, b, -1]"},
    {"permute", OperationKind::kPermute, "permute [1, 0, 2]"},
    {"slice", OperationKind::kSlice, "slice A START:STOP:STEP"},
    {"split", OperationKind::kSplit, "split A N I"},
    {"take", OperationKind::kTake, "take A I"},
    {"concat", OperationKind::kConcat, "concat A"},
    {"stack", OperationKind::kStack, "stack A or stack A {c}"},
    {"repeat", OperationKind::kRepeat, "repeat A N"},
    {"pad", OperationKind::kPad, "pad A N or pad A N VALUE"},
    {"fill", OperationKind::kFill, "fill A N or fill A N VALUE"},
    {"cast", OperationKind::kCast, "cast OLD->NEW"},
    {"add", OperationKind::kAdd, "add 1"},
}};

/// A longer operation is refused before it is read.
constexpr std::size_t kMaxOperationBytes = 4 * kMaxExpressionBytes;

bool is_space(char c) {
  return c == ' ' || c == '\t';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Follows brackets of all kinds.
struct BracketDepth {
  std::int64_t depth = 0;
  void follow(char c) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
  }
};

/// `text` at each `separator` outside of brackets.
std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  BracketDepth brackets;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    brackets.follow(text[at]);
    if (text[at] != separator || brackets.depth != 0) continue;
    parts.push_back(trimmed(text.substr(begin, at - begin)));
    begin = at + 1;
  }
  parts.push_back(trimmed(text.substr(begin)));
  return parts;
}

/// Whether a space at `at` is within an expression: "a + b", "a +b" is one, "a -b" are two.
bool joins_operands(std::string_view text, std::size_t at) {
  constexpr std::string_view kSigns = "+-*/%";
  const std::string_view before = trimmed(text.substr(0, at));
  const std::string_view behind = trimmed(text.substr(at));
  if (before.empty() || behind.empty()) return true;
  if (kSigns.find(before.back()) != std::string_view::npos) return true;
  if (behind[0] == '*' || behind[0] == '/' || behind[0] == '%') return true;
  return (behind[0] == '+' || behind[0] == '-') && behind.size() > 1 && is_space(behind[1]);
}

/// The operands, which spaces part.
std::vector<std::string_view> operands_of(std::string_view text) {
  std::vector<std::string_view> operands;
  BracketDepth brackets;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    brackets.follow(text[at]);
    if (!is_space(text[at]) || brackets.depth != 0 || joins_operands(text, at)) continue;
    operands.push_back(trimmed(text.substr(begin, at - begin)));
    begin = at + 1;
    while (begin < text.size() && is_space(text[begin])) ++begin;
    at = begin - 1;
  }
  operands.push_back(trimmed(text.substr(begin)));
  return operands;
}

class OperationParser {
 public:
  OperationParser(const std::string& text, const Grammar& grammar, std::string_view rest)
      : grammar_(grammar), rest_(rest) {
    out_.text = text;
    out_.kind = grammar.kind;
  }

  Operation parse() {
    switch (grammar_.kind) {
      case OperationKind::kReshape:
      case OperationKind::kPermute:
        out_.numbers = parse_expression_list(rest_);
        break;
      case OperationKind::kSlice:
        slice();
        break;
      case OperationKind::kSplit:
        numbers(2);
        break;
      case OperationKind::kConcat:
        numbers(0);
        break;
      case OperationKind::kStack:
        stack();
        break;
      case OperationKind::kPad:
      case OperationKind::kFill:
        pad();
        break;
      case OperationKind::kCast:
        cast();
        break;
      case OperationKind::kAdd:
        add();
        break;
      default:
        numbers(1);
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::kBadInput, "wrong operation '" + printable(out_.text) + "', expected " +
                                          std::string(grammar_.form));
  }

  /// A and `count` numbers behind it.
  void numbers(std::size_t count) {
    const std::vector<std::string_view> operands = operands_of(rest_);
    if (operands.size() != count + 1) fail();
    out_.dimension = Expression::parse(operands[0]);
    for (std::size_t i = 1; i < operands.size(); ++i) {
      out_.numbers.push_back(Expression::parse(operands[i]));
    }
  }

  void slice() {
    const std::size_t end = std::min(rest_.find_first_of(" \t"), rest_.size());
    out_.dimension = Expression::parse(rest_.substr(0, end));
    const std::vector<std::string_view> parts = split_at(rest_.substr(end), ':');
    if (parts.size() < 2 || parts.size() > 3) fail();
    const auto optional = [](std::string_view text) {
      return text.empty() ? std::nullopt : std::optional(Expression::parse(text));
    };
    out_.start = optional(parts[0]);
    out_.stop = optional(parts[1]);
    if (parts.size() == 3) out_.step = optional(parts[2]);
  }

  void stack() {
    const std::vector<std::string_view> operands = operands_of(rest_);
    if (operands.size() > 2) fail();
    out_.dimension = Expression::parse(operands[0]);
    if (operands.size() == 1) return;
    const std::string_view capture = operands[1];
    if (capture.size() < 3 || capture.front() != '{' || capture.back() != '}') fail();
    out_.capture = std::string(trimmed(capture.substr(1, capture.size() - 2)));
    if (!is_expression_name(out_.capture)) fail();
  }

  static std::optional<double> number_in(std::string_view text) {
    double number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
    return number;
  }

  void pad() {
    const std::vector<std::string_view> operands = operands_of(rest_);
    if (operands.size() < 2 || operands.size() > 3) fail();
    out_.dimension = Expression::parse(operands[0]);
    out_.numbers.push_back(Expression::parse(operands[1]));
    if (operands.size() == 2) return;
    const std::string_view text = operands[2];
    const auto real = number_in(text);
    if (real && text.find_first_not_of("+-0123456789") != std::string_view::npos) {
      out_.real_value = real;
    } else {
      out_.start = Expression::parse(text);
    }
  }

  void cast() {
    const std::size_t arrow = rest_.find("->");
    if (arrow == std::string_view::npos) fail();
    const auto from = dtype_from_cast_name(trimmed(rest_.substr(0, arrow)));
    const auto to = dtype_from_cast_name(trimmed(rest_.substr(arrow + 2)));
    if (!from || !to) fail();
    out_.cast_from = *from;
    out_.cast_to = *to;
  }

  /// A number that each type of elements has, so that the sum alone is rounded.
  void add() {
    constexpr double kMost = 256;
    const auto number = number_in(rest_);
    if (!number || std::abs(*number) > kMost || *number != std::trunc(*number)) fail();
    out_.added = static_cast<float>(*number);
  }

  const Grammar& grammar_;
  std::string_view rest_;
  Operation out_{};
};

std::vector<std::int64_t> values_of(const std::vector<Expression>& expressions,
                                    const Scope& scope) {
  std::vector<std::int64_t> values;
  values.reserve(expressions.size());
  for (const Expression& expression : expressions) values.push_back(scope.evaluate(expression));
  return values;
}

NormalForm apply_slice(const Operation& operation, NormalForm form, std::int64_t dimension,
                       const Scope& scope) {
  StepRange range;
  if (dimension >= 0 && dimension < static_cast<std::int64_t>(form.shape.size())) {
    range.stop = form.shape[static_cast<std::size_t>(dimension)];
  }
  if (operation.start) range.start = scope.evaluate(*operation.start);
  if (operation.stop) range.stop = scope.evaluate(*operation.stop);
  if (operation.step) range.step = scope.evaluate(*operation.step);
  return slice(std::move(form), dimension, range);
}

Literal pad_value(const Operation& operation, const Scope& scope) {
  if (operation.real_value) return Literal::real(*operation.real_value);
  return Literal::integer(operation.start ? scope.evaluate(*operation.start) : 0);
}

NormalForm apply_along(const Operation& operation, NormalForm form, const Scope& scope) {
  const std::int64_t dimension = scope.evaluate(*operation.dimension);
  const std::vector<std::int64_t> values = values_of(operation.numbers, scope);
  switch (operation.kind) {
    case OperationKind::kSlice:
      return apply_slice(operation, std::move(form), dimension, scope);
    case OperationKind::kSplit:
      return split(std::move(form), dimension, values[0], values[1]);
    case OperationKind::kTake:
      return take(std::move(form), dimension, values[0]);
    case OperationKind::kRepeat:
      return repeat(std::move(form), dimension, values[0]);
    default:
      return pad(std::move(form), dimension, values[0], pad_value(operation, scope));
  }
}

}  // namespace

std::vector<const Expression*> Operation::expressions() const {
  std::vector<const Expression*> all;
  for (const auto* optional : {&dimension, &start, &stop, &step}) {
    if (*optional) all.push_back(&**optional);
  }
  for (const Expression& number : numbers) all.push_back(&number);
  return all;
}

std::vector<std::string_view> list_entries(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    throw Error(ErrorKind::kBadInput,
                "'" + printable(std::string(text.substr(0, 100))) + "' is no list like [a, b]");
  }
  text = trimmed(text.substr(1, text.size() - 2));
  if (text.empty()) return {};
  std::vector<std::string_view> entries = split_at(text, ',');
  if (entries.size() > NormalForm::kMaxDimensions) {
    throw Error(
        ErrorKind::kBadInput,
        "a list has more than " + std::to_string(NormalForm::kMaxDimensions) + " dimensions");
  }
  return entries;
}

std::vector<Expression> parse_expression_list(std::string_view text) {
  std::vector<Expression> list;
  for (const std::string_view entry : list_entries(text)) list.push_back(Expression::parse(entry));
  return list;
}

Operation parse_operation(const std::string& text) {
  if (text.size() > kMaxOperationBytes) {
    throw Error(ErrorKind::kBadInput,
                "an operation is longer than " + std::to_string(kMaxOperationBytes) + " bytes");
  }
  const std::string_view all = trimmed(text);
  const std::size_t end = std::min(all.find_first_of(" \t["), all.size());
  const auto* const grammar =
      std::find_if(kGrammar.begin(), kGrammar.end(),
                   [&](const Grammar& known) { return known.name == all.substr(0, end); });
  if (grammar == kGrammar.end()) {
    throw Error(
        ErrorKind::kBadInput,
        "unknown operation '" + printable(text) +
            "'; there are reshape, permute, slice, split, take, concat, stack, repeat, pad, "
            "fill, cast and add");
  }
  return OperationParser(text, *grammar, trimmed(all.substr(end))).parse();
}

NormalForm apply(const Operation& operation, NormalForm form, const Scope& scope) {
  switch (operation.kind) {
    case OperationKind::kReshape:
      return reshape(std::move(form), values_of(operation.numbers, scope));
    case OperationKind::kPermute:
      return permute(std::move(form), values_of(operation.numbers, scope));
    case OperationKind::kCast:
    case OperationKind::kAdd:
      return form;  // as if it stood last: see whoever asks for the type and the values
    default:
      return apply_along(operation, std::move(form), scope);
  }
}

NormalForm apply_join(const Operation& operation, std::vector<NormalForm> forms,
                      const Scope& scope) {
  const std::int64_t dimension = scope.evaluate(*operation.dimension);
  return operation.kind == OperationKind::kConcat ? concat(std::move(forms), dimension)
                                                  : stack(std::move(forms), dimension);
}

}  // namespace reshardfs::modelmap
