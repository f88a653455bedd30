// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "modelmap/expression.h"

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
    ++at_;
    inside(")");
  }

  /// "text" or 'text'.
  std::string quoted() {
    at_end();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    const std::size_t end =
        quote == '"' || quote == '\'' ? text_.find(quote, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail("a text in quotation marks is expected");
    std::string inside(text_.substr(at_ + 1, end - at_ - 1));
    if (inside.empty()) fail("a text is empty");
    at_ = end + 1;
    return inside;
  }

  void check_symbols_of(const std::string& symbols) const {
    if (const auto unknown = unknown_symbol(symbols)) {
      fail("'" + printable(std::string(1, *unknown)) + "' is no symbol of a layer");
    }
  }

  /// The text of `== "text"` or `!= "text"`, if that follows.
  std::optional<std::string> compared_text(bool& is_equal) {
    if (kind_ != ExpressionKind::kCondition) return std::nullopt;
    const std::size_t before = at_;
    is_equal = take("==");
    const bool has_sign = is_equal || take("!=");
    const bool has_text = has_sign && !at_end() && (text_[at_] == '"' || text_[at_] == '\'');
    if (has_text) return quoted();
    at_ = before;
    return std::nullopt;
  }

  void emit_query(Op op, Expression::Query query) {
    emit(op, static_cast<std::int64_t>(out_.queries_.size()));
    out_.queries_.push_back(std::move(query));
  }

  void add_name(const std::string& word) {
    const auto known = std::find(out_.names_.begin(), out_.names_.end(), word);
    if (known == out_.names_.end()) out_.names_.push_back(word);
  }

  /// Takes "EXPR)" or "EXPR]".
  void inside(const char* end) {
    if (++depth_ > kMaxExpressionDepth) {
      fail("more than " + std::to_string(kMaxExpressionDepth) + " brackets inside each other");
    }
    whole();
    if (!take(end)) fail("'" + std::string(end) + "' is missing");
    --depth_;
  }

  /// count("*-"): how many layers have one of the symbols; count(list == "text"): how many elements
  /// of a list are the text.
  void count_of_layers() {
    if (!at_end() && is_word_start(text_[at_])) return count_of_elements();
    Expression::Query query{{}, quoted(), true};
    check_symbols_of(query.text.substr(query.text.front() == kNextTokenMark ? 1 : 0));
    if (!take(")")) fail("')' is missing");
    add_name(kLayerPattern);
    emit_query(Op::kCount, std::move(query));
  }

  void count_of_elements() {
    Expression::Query query{std::string(next_word()), {}, true};
    at_ += query.list.size();
    if (!take("==")) fail("'==' and a text are expected behind '" + query.list + "'");
    query.text = quoted();
    if (!take(")")) fail("')' is missing");
    add_name(query.list);
    emit_query(Op::kCount, std::move(query));
  }

  /// symbol(NUMBER) == "M": whether the layer has one of the symbols.
  void symbol_of_layer() {
    inside(")");
    bool is_equal = false;
    auto symbols = compared_text(is_equal);
    if (!symbols) fail("'symbol(...)' is compared with a text by == or != in a condition alone");
    check_symbols_of(*symbols);
    add_name(kLayerPattern);
    emit_query(Op::kSymbolIs, {{}, *std::move(symbols), true});
    if (!is_equal) emit(Op::kNot);
  }

  /// list[INDEX], or its comparison with a text.
  void element_of(const std::string& list) {
    inside("]");
    add_name(list);
    bool is_equal = false;
    auto text = compared_text(is_equal);
    const bool has_text = text.has_value();
    emit_query(Op::kElement, {list, std::move(text).value_or(std::string()), has_text});
    if (has_text && !is_equal) emit(Op::kNot);
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
    if (word == "count" && take("(")) return count_of_layers();
    if (word == "symbol" && take("(")) return symbol_of_layer();
    if (take("[")) return element_of(word);
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

}  // namespace reshardfs::modelmap
