// SPDX-License-Identifier: Apache-2.0
/// Expressions of model maps: integers, names, + - * / %, brackets, `list[INDEX]`, `count("*-")`,
/// and for conditions comparisons, `and`, `or`, `not`, `symbol(NUMBER) == "M"`, `list[INDEX] ==
/// "text"`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "modelmap/layer_pattern.h"

namespace reshardfs::modelmap {

/// Longer expressions, and more brackets inside each other, are refused before they are read.
inline constexpr std::size_t kMaxExpressionBytes = 4096;
inline constexpr std::size_t kMaxExpressionDepth = 64;

enum class ExpressionKind : std::uint8_t {
  kNumber,     ///< arithmetic alone
  kCondition,  ///< comparisons, `and`, `or` and `not` too; true is 1
};

/// What an expression asks for. Each function throws if it has no answer.
struct NameLookup {
  using Value = std::function<std::int64_t(const std::string& name)>;

  /// Of names alone.
  template <typename Find>
  requires std::is_invocable_r_v<std::int64_t, Find, const std::string&> NameLookup(Find find)
      : value(std::move(find)) {}  // NOLINT(google-explicit-constructor)

  Value value;
  /// An element of a list; with a text, whether it is that one (0 or 1).
  std::function<std::int64_t(const std::string& list, std::int64_t index, const std::string* text)>
      element{};
  std::function<const LayerPattern&()> pattern{};
  /// The places of the elements of a list that are this text.
  std::function<std::vector<std::int64_t>(const std::string& list, const std::string& text)>
      places{};

  /// The numbers of layers with one of these symbols; with a list, its places.
  std::vector<std::int64_t> positions(const std::string& list, const std::string& symbols) const;
};

/// Whether a text can be a name in an expression: a word that means nothing else there.
bool is_expression_name(std::string_view text);

class Expression {
 public:
  /// @throws Error kBadInput that shows the text and says what is wrong with it.
  static Expression parse(std::string_view text, ExpressionKind kind = ExpressionKind::kNumber);

  /// 64-bit. `/` must divide without a remainder; the sign of `%` is that of the divisor; `and` and
  /// `or` evaluate what they need.
  /// @throws Error kBadInput for an overflow, a remainder, a division by zero; what `lookup`
  /// throws.
  std::int64_t evaluate(const NameLookup& lookup) const;

  const std::string& text() const noexcept { return text_; }
  /// The names in it, each once, in the order in which they stand.
  const std::vector<std::string>& names() const noexcept { return names_; }

  /// NAME if the expression is `NAME` or `EXPR*NAME`, which a known value of the whole gives a
  /// value.
  std::optional<std::string> bindable_name() const;
  /// EXPR, or 1.
  std::int64_t bindable_factor(const NameLookup& lookup) const;

 private:
  friend class ExpressionParser;

  enum class Op : std::uint8_t {
    kNumber,
    kName,
    kNegate,
    kNot,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kRemainder,
    kEqual,
    kUnequal,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kAnd,       ///< a 0 goes to `value`; anything else vanishes
    kOr,        ///< 0 vanishes; anything else becomes 1 and goes to `value`
    kTruth,     ///< 0 or 1
    kElement,   ///< of a list: `value` is the number of the query
    kSymbolIs,  ///< of a layer: the same
    kCount,     ///< of layers: the same
  };
  /// What is asked of a list, or of the pattern of layers.
  struct Query {
    std::string list{};
    std::string text{};
    bool has_text = false;
  };
  struct Step {
    Op op = Op::kNumber;
    std::int64_t value = 0;  ///< a number, of a name, or of a step
  };

  std::int64_t run(std::size_t steps, const NameLookup& lookup) const;
  std::int64_t answer(Op op, const Query& query, std::int64_t operand,
                      const NameLookup& lookup) const;
  std::int64_t binary(Op op, std::int64_t a, std::int64_t b) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string text_{};
  std::vector<std::string> names_{};
  std::vector<Step> steps_{};  ///< operands before operators
  std::vector<Query> queries_{};
};

}  // namespace reshardfs::modelmap
