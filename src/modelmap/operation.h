// SPDX-License-Identifier: Apache-2.0
/// One operation of a rule, as it is written: "reshape [groups, -1, H]".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"

#include "modelmap/expression.h"
#include "modelmap/form_operations.h"
#include "modelmap/scope.h"

namespace reshardfs::modelmap {

enum class OperationKind : std::uint8_t {
  kReshape,
  kPermute,
  kSlice,
  kSplit,
  kTake,
  kConcat,  ///< joins the sources of a rule
  kStack,   ///< joins them, or the values of `capture`
  kRepeat,
  kPad,
  kFill,  ///< pads with what the inverse requires to be there
  kCast,
  kAdd,
};

struct Operation {
  OperationKind kind = OperationKind::kReshape;
  std::string text{};
  /// A; of all kinds but reshape, permute, cast and add.
  std::optional<Expression> dimension{};
  /// What stands behind it, in order: the list of reshape and permute; N and I of split; I; N.
  std::vector<Expression> numbers{};
  /// Of slice; those that are left out have no value.
  std::optional<Expression> start{}, stop{}, step{};
  std::string capture{};  ///< of stack A {c}; else empty
  /// Of pad and fill: a number with a fraction, or an expression in `start`; 0 if neither is there.
  std::optional<double> real_value{};
  /// Of add.
  float added = 0;
  DType cast_from = DType::kFloat32;
  DType cast_to = DType::kFloat32;

  /// Whether it changes values, and leaves each element in its place.
  bool computes() const noexcept {
    return kind == OperationKind::kCast || kind == OperationKind::kAdd;
  }
  bool joins_sources() const noexcept {
    return kind == OperationKind::kConcat || (kind == OperationKind::kStack && capture.empty());
  }
  /// All expressions in it.
  std::vector<const Expression*> expressions() const;
};

/// @throws Error kBadInput that shows the text and the form that was expected.
Operation parse_operation(const std::string& text);

/// The texts in "[a, b]", without blanks around them.
/// @throws Error kBadInput if it is no list, or is longer than that of any dimensions.
std::vector<std::string_view> list_entries(std::string_view text);

/// "[groups*head_dim, H]": a list of expressions.
/// @throws Error kBadInput.
std::vector<Expression> parse_expression_list(std::string_view text);

/// Does an operation that joins nothing.
/// @throws Error kBadInput, kUnsupported as form_operations.h; what expressions throw.
NormalForm apply(const Operation& operation, NormalForm form, const Scope& scope);
/// Does one that joins.
NormalForm apply_join(const Operation& operation, std::vector<NormalForm> forms,
                      const Scope& scope);

}  // namespace reshardfs::modelmap
