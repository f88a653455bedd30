// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "modelmap/pattern.h"

namespace reshardfs::modelmap {
namespace {

constexpr std::string_view kNth = "nth(";

bool is_word_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

}  // namespace

class PatternParser {
 public:
  explicit PatternParser(const std::string& text) : text_(text) {}

  Pattern parse() {
    if (text_.empty()) fail("it is empty");
    if (text_.size() > kMaxPatternBytes) {
      fail("it is longer than " + std::to_string(kMaxPatternBytes) + " bytes");
    }
    out_.text_ = text_;
    for (std::size_t at = 0; at < text_.size();) {
      if (text_[at] == '}') fail("'}' without '{'");
      if (text_[at] != '{') {
        const std::size_t end = std::min(text_.find_first_of("{}", at), text_.size());
        out_.pieces_.push_back({at, end - at, std::nullopt, false});
        at = end;
        continue;
      }
      const std::size_t end = text_.find('}', at);
      if (end == std::string::npos) fail("'{' without '}'");
      add_capture(text_.substr(at + 1, end - at - 1));
      at = end + 1;
    }
    find_ends_of_numbers();
    check_numbers();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kBadInput, "wrong pattern '" + printable(text_) + "': " + what);
  }

  void add_capture(const std::string& inside) {
    Pattern::Capture capture;
    std::string rest;
    const std::size_t colon = inside.find(':');
    if (inside.starts_with(kNth)) {
      read_nth(inside, capture);
    } else if (colon != std::string::npos) {
      capture.name = inside.substr(0, colon);
      capture.is_word = true;
    } else {
      rest = read_number(inside, capture);
    }
    if (!is_expression_name(capture.name)) {
      fail("'{" + printable(inside) + "}' has no name" +
           (capture.factor ? " behind '*'; the capture stands last in a product, as in {2*layer}"
                           : ""));
    }
    if (capture.is_word) {
      capture.is_any_text = inside.substr(colon + 1) == "*";
      if (!capture.is_any_text) capture.words = words_of(inside.substr(colon + 1));
    }
    if (!rest.empty()) capture.rest = out_.captures_.size() + 1;
    out_.pieces_.push_back({0, 0, out_.captures_.size(), false});
    add(std::move(capture));
    if (rest.empty()) return;
    if (!is_expression_name(rest))
      fail("'{" + printable(inside) + "}' has no name in front of '<'");
    Pattern::Capture second;
    second.name = rest;
    add(std::move(second));
  }

  void add(Pattern::Capture capture) {
    if (out_.captures_.size() == kMaxCaptures) {
      fail("it has more than " + std::to_string(kMaxCaptures) + " captures");
    }
    const auto known = std::find(out_.names_.begin(), out_.names_.end(), capture.name);
    capture.slot = static_cast<std::size_t>(known - out_.names_.begin());
    if (known == out_.names_.end()) {
      out_.names_.push_back(capture.name);
    } else {
      check_repeated(capture);
    }
    out_.captures_.push_back(std::move(capture));
  }

  /// "nth(i, SYMBOLS)", with SYMBOLS in quotation marks, or "nth(i, LIST == TEXT)".
  void read_nth(const std::string& inside, Pattern::Capture& capture) const {
    const std::size_t comma = std::min(inside.find(','), inside.size());
    capture.name = trimmed(inside.substr(kNth.size(), comma - kNth.size()));
    const std::string rest = comma < inside.size() ? trimmed(inside.substr(comma + 1)) : "";
    const bool is_whole = rest.size() > 3 && rest.back() == ')';
    std::string quoted = is_whole ? trimmed(rest.substr(0, rest.size() - 1)) : "";
    if (const std::size_t sign = quoted.find("=="); sign != std::string::npos) {
      capture.list = trimmed(quoted.substr(0, sign));
      quoted = is_expression_name(capture.list) ? trimmed(quoted.substr(sign + 2)) : "";
    }
    const bool has_quotes = quoted.size() > 2 && quoted.front() == quoted.back() &&
                            (quoted.front() == '"' || quoted.front() == '\'');
    if (!has_quotes) {
      fail("'{" + printable(inside) + "}' is not as {nth(layer, \"*+\")}: a capture, and the " +
           "symbols of layers in quotation marks, or layer_types == \"full_attention\"");
    }
    capture.symbols = quoted.substr(1, quoted.size() - 2);
    if (!capture.list.empty()) return;
    if (const auto unknown = unknown_symbol(capture.symbols)) {
      fail("'{" + printable(inside) + "}' has '" + printable(std::string(1, *unknown)) +
           "', which is no symbol of a layer");
    }
  }

  static std::shared_ptr<const Expression> parsed(const std::string& text) {
    return std::make_shared<const Expression>(Expression::parse(text));
  }

  static std::string trimmed(const std::string& text) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string::npos) return {};
    return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
  }

  /// "i", "i+EXPR", "EXPR*i", "EXPR*i-EXPR", "EXPR*i+j<EXPR".
  /// @return the name of j; empty in other forms.
  std::string read_number(const std::string& inside, Pattern::Capture& capture) const {
    std::size_t depth = 0;
    std::size_t star = std::string::npos;
    std::size_t end = 0;
    for (; end < inside.size(); ++end) {
      const char c = inside[end];
      if (c == '(') ++depth;
      if (c == ')' && depth > 0) --depth;
      if (depth > 0) continue;
      if (c == '+' || c == '-') break;
      if (c == '*') star = end;
    }
    const std::size_t name = star == std::string::npos ? 0 : star + 1;
    capture.name = inside.substr(name, end - name);
    if (star != std::string::npos) capture.factor = parsed(inside.substr(0, star));
    if (end == inside.size()) return {};
    const std::string behind = inside.substr(end + 1);
    const std::size_t below = behind.find('<');
    if (below == std::string::npos) {
      capture.sign = inside[end] == '+' ? 1 : -1;
      capture.offset = parsed(behind);
      return {};
    }
    if (inside[end] == '-' || !capture.factor ||
        behind.substr(below + 1) != inside.substr(0, star)) {
      fail("'<' in a capture has to be as in {n*i+j<n}, with the same number in both places");
    }
    std::string second = behind.substr(0, below);
    if (!is_expression_name(second)) {
      fail("'{" + printable(inside) + "}' has no name in front of '<'");
    }
    return second;
  }

  /// A number is to follow from the value of one capture.
  void check_numbers() const {
    for (const Pattern::Capture& capture : out_.captures_) {
      for (const std::string& name : capture.mentioned_names()) {
        if (std::find(out_.names_.begin(), out_.names_.end(), name) == out_.names_.end()) continue;
        fail("the number of {" + capture.name + "} depends on '" + name +
             "', which is a capture: variables alone are possible there");
      }
    }
  }

  void check_repeated(const Pattern::Capture& capture) const {
    for (const Pattern::Capture& other : out_.captures_) {
      if (other.name == capture.name && other.is_word != capture.is_word) {
        fail("{" + capture.name + "} is a number and a word");
      }
    }
  }

  /// "weight|bias", "w[123]".
  std::vector<std::vector<std::bitset<256>>> words_of(const std::string& expression) const {
    std::vector<std::vector<std::bitset<256>>> words(1);
    for (std::size_t at = 0; at < expression.size(); ++at) {
      const char c = expression[at];
      if (c == '|') {
        words.emplace_back();
      } else if (c == '[') {
        words.back().push_back(class_at(expression, at));
      } else if (is_word_character(c)) {
        words.back().emplace_back().set(static_cast<unsigned char>(c));
      } else {
        fail("'" + printable(std::string(1, c)) +
             "' in a capture: it takes words of letters, digits, _ and -, '|' and '[...]'");
      }
    }
    if (words.size() == 1 && words[0].empty()) fail("a capture takes no word");
    return words;
  }

  /// "[abc]", "[a-z]", "[^.]"; leaves `at` at its end.
  std::bitset<256> class_at(const std::string& expression, std::size_t& at) const {
    const std::size_t end = expression.find(']', at + 1);
    if (end == std::string::npos || end == at + 1) fail("'[' without characters and ']'");
    const bool excludes = expression[at + 1] == '^';
    std::bitset<256> characters;
    for (std::size_t i = at + (excludes ? 2 : 1); i < end; ++i) {
      const auto first = static_cast<unsigned char>(expression[i]);
      if (first == '[' || first == '\\') fail("'[...]' takes characters and ranges like a-z");
      unsigned char last = first;
      if (i + 2 < end && expression[i + 1] == '-') {
        last = static_cast<unsigned char>(expression[i + 2]);
        i += 2;
      }
      if (last < first) fail("'[...]' has a range that ends before it begins");
      for (unsigned c = first; c <= last; ++c) characters.set(c);
    }
    at = end;
    return excludes ? ~characters : characters;
  }

  void find_ends_of_numbers() {
    for (std::size_t i = 0; i < out_.pieces_.size(); ++i) {
      const bool is_last = i + 1 == out_.pieces_.size();
      out_.pieces_[i].takes_all_digits =
          is_last || (!out_.pieces_[i + 1].capture && !is_digit(text_[out_.pieces_[i + 1].begin]));
    }
  }

  const std::string& text_;
  Pattern out_{};
};

Pattern Pattern::parse(const std::string& text) {
  return PatternParser(text).parse();
}

}  // namespace reshardfs::modelmap
