// SPDX-License-Identifier: Apache-2.0
#include "modelmap/rule_form.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "modelmap/form_operations.h"

namespace reshardfs::modelmap {
namespace {

/// The operations without casts, which move nothing.
std::vector<const Operation*> moves_of(const std::vector<Operation>& operations) {
  std::vector<const Operation*> moves;
  for (const Operation& operation : operations) {
    if (!operation.computes()) moves.push_back(&operation);
  }
  return moves;
}

std::string shapes_text(const std::vector<NormalForm>& forms) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(forms.size(), 4); ++i) {
    text += (i == 0 ? "" : ", ") + to_string(forms[i].shape);
  }
  return forms.size() > 4 ? text + ", ..." : text;
}

/// Throws an error again with words before its message.
[[noreturn]] void throw_again(const std::string& words, const Error& error) {
  if (const auto* unknown = dynamic_cast<const UnknownVariable*>(&error)) {
    throw UnknownVariable(words + error.message(), unknown->name());
  }
  throw Error(error.kind(), words + error.message());
}

}  // namespace

/// What an expression throws gets the name of the tensor.
std::int64_t RuleEvaluator::value_for(const std::string& tensor,
                                      const Expression& expression) const {
  try {
    return scope_.evaluate(expression);
  } catch (const Error& error) {
    throw_again(printable(tensor) + ": ", error);
  }
}

/// The captures that collect are bound while their source is looked at.
void RuleEvaluator::with_source(std::size_t source, const std::function<void()>& use) {
  const std::vector<std::size_t>& collected = sources_->collected(sources_->pattern_of(source));
  sources_->set_values(source, values_);
  for (const std::size_t capture : collected) {
    scope_.bind(rule_.captures[capture].name, values_[capture].number);
  }
  use();
  for (const std::size_t capture : collected) scope_.unbind(rule_.captures[capture].name);
}

void RuleEvaluator::check_rank(const std::vector<Expression>& shape, const Shape& actual,
                               const std::string& tensor) const {
  if (shape.size() == actual.size()) return;
  std::string expected;
  for (const Expression& dimension : shape) {
    expected += (expected.empty() ? "[" : ", ") + dimension.text();
  }
  throw Error(ErrorKind::kBadInput, printable(tensor) + ": the rule's shape is " +
                                        (expected.empty() ? "[" : expected) + "], the tensor has " +
                                        to_string(actual));
}

/// Gives the name of a dimension `NAME` or `EXPR*NAME` its value.
void RuleEvaluator::bind_dimension(const Dimension& dimension, const std::string& tensor) {
  const Expression& expression = *dimension.expression;
  const std::int64_t factor =
      expression.bindable_factor([this](const std::string& name) { return scope_.value(name); });
  if (factor <= 0 || dimension.length % factor != 0) {
    throw Error(ErrorKind::kBadInput,
                printable(tensor) + ": '" + expression.text() + "' is a multiple of " +
                    std::to_string(factor) + ", by which " + std::to_string(dimension.length) +
                    " cannot be divided; the tensor has " + std::to_string(dimension.length));
  }
  scope_.bind(*expression.bindable_name(), dimension.length / factor,
              "the shape of '" + printable(tensor) + "'");
}

/// @return whether a name has got a value; its dimension is removed.
bool RuleEvaluator::bind_pass(std::vector<Dimension>& dimensions,
                              const std::vector<std::string>& tensors) {
  const auto is_bindable = [&](const Dimension& dimension) {
    const std::optional<std::string> name = dimension.expression->bindable_name();
    if (!name || scope_.is_known(*name)) return false;
    const auto& names = dimension.expression->names();
    // NAME*NAME has no known factor.
    const bool known = std::all_of(names.begin(), names.end(), [&](const std::string& other) {
      return other == *name || scope_.is_known(other);
    });
    return known && std::count(names.begin(), names.end(), *name) == 1;
  };
  const auto next = std::find_if(dimensions.begin(), dimensions.end(), is_bindable);
  if (next == dimensions.end()) return false;
  bind_dimension(*next, tensors[next->source]);
  dimensions.erase(next);
  return true;
}

/// The one along which a block stacks tensors.
void RuleEvaluator::require_axis(const Shape& shape, const std::string& tensor) const {
  if (!shape.empty()) return;
  throw Error(ErrorKind::kBadInput,
              printable(tensor) + ": it is a scalar, but tensors of its block have an axis with '" +
                  rule_.body->stack_range->text() + "' of them");
}

void RuleEvaluator::check_dimension(const Dimension& dimension, const std::string& tensor) {
  const std::int64_t value = value_for(tensor, *dimension.expression);
  if (value == dimension.length) return;
  throw Error(ErrorKind::kBadInput, printable(tensor) + ": '" + dimension.expression->text() +
                                        "' is " + std::to_string(value) + ", the tensor has " +
                                        std::to_string(dimension.length) +
                                        scope_.origins_of(*dimension.expression));
}

void RuleEvaluator::bind_shapes(const std::vector<Shape>& shapes) {
  if (rule_.body->shapes.empty()) {
    if (!rule_.body->stacks_sources) return;
    for (std::size_t source = 0; source < shapes.size(); ++source) {
      require_axis(shapes[source], name_(source));
      check_dimension({rule_.body->stack_range.get(), shapes[source].front(), 0}, name_(source));
    }
    return;
  }
  // Names are bound by the first source of each pattern; captures that collect bind none.
  std::vector<Dimension> open;
  std::vector<std::string> tensors;
  for (std::size_t source = 0; source < shapes.size(); ++source) {
    const std::size_t pattern = sources_->pattern_of(source);
    const auto& expected = rule_.body->shapes[pattern];
    const bool is_first = source == 0 || sources_->pattern_of(source - 1) != pattern;
    if (expected.size() != shapes[source].size()) {
      check_rank(expected, shapes[source], name_(source));
    }
    if (!is_first) continue;
    for (std::size_t d = 0; d < expected.size(); ++d) {
      open.push_back({&expected[d], shapes[source][d], tensors.size()});
    }
    tensors.push_back(name_(source));
  }
  while (bind_pass(open, tensors)) {
  }
  for (std::size_t source = 0; source < shapes.size(); ++source) {
    const auto& expected = rule_.body->shapes[sources_->pattern_of(source)];
    with_source(source, [&] {
      for (std::size_t d = 0; d < expected.size(); ++d) {
        check_dimension({&expected[d], shapes[source][d], 0}, name_(source));
      }
    });
  }
}

void RuleEvaluator::bind_target(const std::string& target, const Shape& shape) {
  if (!rule_.body->to_shape) return;
  const std::vector<Expression>& expected = *rule_.body->to_shape;
  check_rank(expected, shape, target);
  std::vector<Dimension> open;
  for (std::size_t d = 0; d < expected.size(); ++d) open.push_back({&expected[d], shape[d], 0});
  while (bind_pass(open, {target})) {
  }
  for (const Dimension& dimension : open) check_dimension(dimension, target);
}

std::vector<Shape> RuleEvaluator::source_shapes(const std::string& target, const Shape& shape) {
  if (!rule_.body->moves) {
    std::vector<Shape> shapes(sources_->size(), shape);
    bind_shapes(shapes);
    return shapes;
  }
  if (rule_.body->stacks_alone) {
    Shape one = shape;
    if (rule_.body->stacks_sources) {
      one.insert(one.begin(), value_for(target, *rule_.body->stack_range));
    } else {
      require_axis(shape, target);
      one.erase(one.begin());
    }
    return std::vector<Shape>(sources_->size(), one);
  }
  if (rule_.body->shapes.empty()) {
    throw Error(ErrorKind::kBadInput,
                printable(target) + ": cannot be turned round: the rule has no 'shape'");
  }
  std::vector<Shape> shapes(sources_->size());
  for (std::size_t source = 0; source < shapes.size(); ++source) {
    with_source(source, [&] {
      for (const Expression& length : rule_.body->shapes[sources_->pattern_of(source)]) {
        shapes[source].push_back(value_for(target, length));
        if (shapes[source].back() >= 0) continue;
        throw Error(ErrorKind::kBadInput, printable(name_(source)) + ": '" + length.text() +
                                              "' is " + std::to_string(shapes[source].back()));
      }
    });
  }
  return shapes;
}

/// What an operation throws gets its text.
template <typename Make>
NormalForm RuleEvaluator::doing(const Operation& operation, const Make& make) const {
  try {
    return make();
  } catch (const Error& error) {
    throw_again("'" + printable(operation.text) + "': ", error);
  }
}

NormalForm RuleEvaluator::stacked(const Operation& operation,
                                  const std::function<NormalForm()>& part) {
  const auto capture = std::find_if(
      rule_.captures.begin(), rule_.captures.end(),
      [&](const RuleCapture& candidate) { return candidate.name == operation.capture; });
  const auto number = static_cast<std::size_t>(capture - rule_.captures.begin());
  std::vector<NormalForm> forms;
  std::size_t boxes = 0;
  for (std::int64_t value = 0; value < sources_->range_of(number); ++value) {
    values_[number].number = value;
    scope_.bind(operation.capture, value);
    forms.push_back(part());
    boxes += forms.back().boxes.size();
    if (boxes > NormalForm::kMaxBoxes) break;  // joining them will fail
  }
  scope_.unbind(operation.capture);
  return doing(operation, [&] { return apply_join(operation, std::move(forms), scope_); });
}

/// A source after the first `count` operations of `each`.
NormalForm RuleEvaluator::each_result(std::size_t pattern, std::size_t count) {
  if (count == 0) {
    const std::size_t source = sources_->number_of(pattern, values_);
    return NormalForm::of_source((*shapes_)[source], static_cast<std::int64_t>(source));
  }
  const Operation& operation = rule_.body->each[pattern][count - 1];
  const auto before = [&] { return each_result(pattern, count - 1); };
  if (operation.kind == OperationKind::kStack) return stacked(operation, before);
  NormalForm form = before();
  return doing(operation, [&] { return apply(operation, std::move(form), scope_); });
}

NormalForm RuleEvaluator::joined_sources(const Operation* join) {
  std::vector<NormalForm> forms;
  for (std::size_t pattern = 0; pattern < rule_.from.size(); ++pattern) {
    forms.push_back(each_result(pattern, rule_.body->each[pattern].size()));
  }
  if (join == nullptr) return std::move(forms[0]);
  try {
    return apply_join(*join, forms, scope_);
  } catch (const Error& error) {
    throw_again("'" + printable(join->text) + "' of " + shapes_text(forms) + ": ", error);
  }
}

const Operation* RuleEvaluator::first_join() const {
  const std::vector<const Operation*> moves = moves_of(rule_.body->ops);
  return !moves.empty() && moves[0]->joins_sources() ? moves[0] : nullptr;
}

/// The target after the first `count` operations of `ops` that move something.
NormalForm RuleEvaluator::ops_result(std::size_t count) {
  const Operation* join = first_join();
  if (count == 0 || (count == 1 && join != nullptr)) return joined_sources(join);
  const Operation& operation = *moves_of(rule_.body->ops)[count - 1];
  const auto before = [&] { return ops_result(count - 1); };
  if (operation.kind == OperationKind::kStack) return stacked(operation, before);
  NormalForm form = before();
  return doing(operation, [&] { return apply(operation, std::move(form), scope_); });
}

NormalForm RuleEvaluator::evaluate(const std::string& target, const std::vector<Shape>& shapes) {
  shapes_ = &shapes;
  NormalForm form;
  try {
    form = tidy(ops_result(moves_of(rule_.body->ops).size()));
  } catch (const Error& error) {
    throw_again(printable(target) + ": ", error);
  }
  bind_target(target, form.shape);
  return form;
}

std::int64_t evaluate_range(const RuleCapture& capture, const Scope& scope) {
  const std::int64_t count = scope.evaluate(*capture.range);
  if (count < 0) {
    throw Error(ErrorKind::kBadInput,
                "the range of '" + capture.name + "' is " + std::to_string(count));
  }
  if (count > kMaxRange) {
    throw Error(ErrorKind::kUnsupported, "the range of '" + capture.name + "' is " +
                                             std::to_string(count) + ", more than " +
                                             std::to_string(kMaxRange));
  }
  return count;
}

RuleSources::RuleSources(const MapRule& rule, const Scope& scope) : ranges_(rule.captures.size()) {
  try {
    for (std::size_t i = 0; i < rule.captures.size(); ++i) {
      if (rule.captures[i].side == CaptureSide::kFrom) {
        ranges_[i] = evaluate_range(rule.captures[i], scope);
      }
    }
    count_sources(rule);
  } catch (const Error& error) {
    throw Error(error.kind(), printable(rule.to.text()) + ": " + error.message());
  }
}

void RuleSources::count_sources(const MapRule& rule) {
  std::int64_t total = 0;
  for (const std::vector<std::size_t>& captures : rule.from_captures) {
    first_.push_back(static_cast<std::size_t>(total));
    std::vector<std::size_t>& collected = collected_.emplace_back();
    std::int64_t count = 1;
    for (const std::size_t capture : captures) {
      if (rule.captures[capture].side != CaptureSide::kFrom) continue;
      collected.push_back(capture);
      count = std::min(count * ranges_[capture], kMaxRange + 1);
    }
    total += count;
    if (total > kMaxRange) {
      throw Error(ErrorKind::kUnsupported,
                  "it would be made of more than " + std::to_string(kMaxRange) + " tensors");
    }
  }
  first_.push_back(static_cast<std::size_t>(total));
}

std::size_t RuleSources::pattern_of(std::size_t source) const {
  const auto next = std::upper_bound(first_.begin(), first_.end(), source);
  return static_cast<std::size_t>(next - first_.begin()) - 1;
}

std::size_t RuleSources::number_of(std::size_t pattern,
                                   const std::vector<CaptureValue>& values) const {
  std::int64_t number = 0;
  for (const std::size_t capture : collected_[pattern]) {
    number = number * ranges_[capture] + values[capture].number;
  }
  return first_[pattern] + static_cast<std::size_t>(number);
}

void RuleSources::set_values(std::size_t source, std::vector<CaptureValue>& values) const {
  const std::size_t pattern = pattern_of(source);
  auto number = static_cast<std::int64_t>(source - first_[pattern]);
  const std::vector<std::size_t>& captures = collected_[pattern];
  for (std::size_t i = captures.size(); i-- > 0;) {
    values[captures[i]].number = number % ranges_[captures[i]];
    number /= ranges_[captures[i]];
  }
}

}  // namespace reshardfs::modelmap
