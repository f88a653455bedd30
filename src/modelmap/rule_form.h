// SPDX-License-Identifier: Apache-2.0
/// What a rule makes for one set of captures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reshardfs/shape.h"

#include "layout/normal_form.h"
#include "modelmap/model_map.h"
#include "modelmap/scope.h"

namespace reshardfs::modelmap {

/// Values that a capture which collects or spreads may have: more would be more boxes than a target
/// may have.
inline constexpr std::int64_t kMaxRange = 65'536;

/// The sources of a rule for one set of captures, numbered: pattern by pattern, in each by the
/// values of the captures that collect, the last one fastest.
class RuleSources {
 public:
  /// @param scope with the captures of `to`.
  /// @throws Error kBadInput if a range is negative, kUnsupported if there are too many sources.
  RuleSources(const MapRule& rule, const Scope& scope);

  std::size_t size() const noexcept { return first_.back(); }
  std::size_t pattern_of(std::size_t source) const;
  /// How many values a capture that collects has.
  std::int64_t range_of(std::size_t capture) const { return ranges_[capture]; }
  /// The number of a source.
  /// @param values by capture of the rule.
  std::size_t number_of(std::size_t pattern, const std::vector<CaptureValue>& values) const;
  /// Sets the values of the captures that collect.
  void set_values(std::size_t source, std::vector<CaptureValue>& values) const;
  /// The captures of a pattern that collect.
  const std::vector<std::size_t>& collected(std::size_t pattern) const {
    return collected_[pattern];
  }

 private:
  void count_sources(const MapRule& rule);

  std::vector<std::int64_t> ranges_;  ///< by capture
  std::vector<std::vector<std::size_t>> collected_{};
  std::vector<std::size_t> first_{};  ///< source of each pattern, and the end
};

using RuleSourcesPtr = std::shared_ptr<const RuleSources>;

/// Evaluates the expressions of a range.
/// @throws Error kBadInput if it is negative, kUnsupported if it exceeds kMaxRange.
std::int64_t evaluate_range(const RuleCapture& capture, const Scope& scope);

/// The name of a tensor on the side of `from`, for messages.
using SourceName = std::function<std::string(std::size_t source)>;

class RuleEvaluator {
 public:
  /// @param scope with the captures of `to`; gets the names that shapes bind.
  /// @param values of all captures; those that collect are set while it evaluates.
  RuleEvaluator(const MapRule& rule, Scope& scope, RuleSourcesPtr sources,
                std::vector<CaptureValue> values, SourceName name)
      : rule_(rule),
        scope_(scope),
        values_(std::move(values)),
        sources_(std::move(sources)),
        name_(std::move(name)) {}

  /// Compares the shapes of the sources with `shape`, which binds names that have no value.
  /// @throws Error kBadInput.
  void bind_shapes(const std::vector<Shape>& shapes);
  /// Compares the shape of the target with `to_shape`, which binds names that have no value.
  void bind_target(const std::string& target, const Shape& shape);
  /// The shapes of the sources of a target of this shape.
  /// @throws Error kBadInput if the rule does not say so.
  std::vector<Shape> source_shapes(const std::string& target, const Shape& shape);
  /// The target, of sources with these shapes. Compares it with `to_shape`.
  NormalForm evaluate(const std::string& target, const std::vector<Shape>& shapes);

 private:
  struct Dimension {
    const Expression* expression = nullptr;
    std::int64_t length = 0;
    std::size_t source = 0;
  };

  std::int64_t value_for(const std::string& tensor, const Expression& expression) const;
  void with_source(std::size_t source, const std::function<void()>& use);
  void bind_dimension(const Dimension& dimension, const std::string& tensor);
  bool bind_pass(std::vector<Dimension>& dimensions, const std::vector<std::string>& tensors);
  void check_dimension(const Dimension& dimension, const std::string& tensor);
  void require_axis(const Shape& shape, const std::string& tensor) const;
  void check_rank(const std::vector<Expression>& shape, const Shape& actual,
                  const std::string& tensor) const;
  NormalForm each_result(std::size_t pattern, std::size_t count);
  NormalForm ops_result(std::size_t count);
  NormalForm joined_sources(const Operation* join);
  NormalForm stacked(const Operation& operation, const std::function<NormalForm()>& part);
  template <typename Make>
  NormalForm doing(const Operation& operation, const Make& make) const;
  const Operation* first_join() const;

  const MapRule& rule_;
  Scope& scope_;
  std::vector<CaptureValue> values_;
  RuleSourcesPtr sources_;
  SourceName name_;
  const std::vector<Shape>* shapes_ = nullptr;
};

}  // namespace reshardfs::modelmap
