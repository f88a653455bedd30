// SPDX-License-Identifier: Apache-2.0
#include "modelmap/expression.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"

namespace reshardfs::modelmap {
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

std::vector<std::int64_t> NameLookup::positions(const std::string& list,
                                                const std::string& symbols) const {
  if (!list.empty() && places) return places(list, symbols);
  if (!list.empty()) throw Error(ErrorKind::kBadInput, "no list is known here");
  if (pattern) return pattern().positions(symbols);
  throw Error(ErrorKind::kBadInput, "no pattern of layers is known here");
}

std::int64_t Expression::answer(Op op, const Query& query, std::int64_t operand,
                                const NameLookup& lookup) const {
  if (op == Op::kElement) {
    if (!lookup.element) fail("no list is known here");
    return lookup.element(query.list, operand, query.has_text ? &query.text : nullptr);
  }
  if (op == Op::kCount) {
    return static_cast<std::int64_t>(lookup.positions(query.list, query.text).size());
  }
  if (!lookup.pattern) fail("no pattern of layers is known here");
  const std::string layers = lookup.pattern().with_next_tokens();
  if (operand < 0 || static_cast<std::size_t>(operand) >= layers.size()) {
    fail("the layer is " + std::to_string(operand) + ", of " + std::to_string(layers.size()) +
         " in the pattern");
  }
  return query.text.find(layers[static_cast<std::size_t>(operand)]) == std::string::npos ? 0 : 1;
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
        stack.push_back(lookup.value(names_[static_cast<std::size_t>(step.value)]));
        break;
      case Op::kCount:
        stack.push_back(answer(step.op, queries_[static_cast<std::size_t>(step.value)], 0, lookup));
        break;
      case Op::kElement:
      case Op::kSymbolIs:
        stack.back() =
            answer(step.op, queries_[static_cast<std::size_t>(step.value)], stack.back(), lookup);
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
