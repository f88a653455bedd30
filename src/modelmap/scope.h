// SPDX-License-Identifier: Apache-2.0
/// What names in expressions stand for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/known.h"
#include "modelmap/expression.h"
#include "modelmap/layer_pattern.h"
#include "modelmap/training_settings.h"
#include "modelmap/variables.h"

namespace reshardfs::modelmap {

/// A name without a value. The message names it, and says what to give.
class UnknownVariable : public Error {
 public:
  UnknownVariable(const std::string& message, std::string name)
      : Error(ErrorKind::kBadInput, message), name_(std::move(name)) {}
  /// The one that has to be given: others may follow from it.
  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
};

/// Names as one rule sees them for one target. Not for several threads.
class Scope {
 public:
  /// @param variables must outlive it.
  explicit Scope(const Variables& variables) : variables_(variables) {}

  /// A capture, or a name that a shape binds.
  /// @param origin of the value; empty: a name of a tensor has it.
  void bind(const std::string& name, std::int64_t value, const std::string& origin = {});
  /// Forgets a capture whose tensors have been joined.
  void unbind(const std::string& name);
  /// A capture that is a word, so that using it as a number can be explained.
  void bind_word(const std::string& name) { words_.insert(name); }
  /// What `tp` and `from_tp` are unless something else says so.
  void set_parts(std::function<Known<std::int64_t>(const std::string& name)> parts) {
    parts_ = std::move(parts);
  }

  /// Whether it has a value, or is a list, or the pattern of layers.
  bool is_known(const std::string& name) const;
  /// With the origin, or the reason why it is unknown.
  /// @throws what an expression of [vars] throws.
  Known<std::int64_t> known(const std::string& name) const { return look_up(name).value; }
  /// The value of a known name, for messages: "4", "'*-*-'", "a list".
  /// @throws as value().
  std::string words_of(const std::string& name) const;
  /// @throws UnknownVariable "unknown variable 'NAME'", or what an expression of [vars] throws.
  std::int64_t value(const std::string& name) const;
  std::int64_t evaluate(const Expression& expression) const;
  /// Of the scope, which must outlive it. Its functions throw as value() does, and Error kBadInput
  /// for an element that a list lacks.
  NameLookup lookup() const;
  /// " (heads is 6: config.json: num_attention_heads)": where the numbers of an expression come
  /// from; empty if all are captures.
  std::string origins_of(const Expression& expression) const;

 private:
  struct Found {
    Known<std::int64_t> value{};
    std::string missing{};  ///< without a value: the name that has to be given
  };
  struct Bound {
    std::string name{};
    Known<std::int64_t> value{};
  };

  /// @throws UnknownVariable if config.json has no list of the name.
  const ModelConfig::List& list_named(const std::string& list) const;
  std::int64_t element(const std::string& list, std::int64_t index, const std::string* text) const;
  const LayerPattern& pattern() const;
  Found look_up(const std::string& name) const;
  Found find(const std::string& name) const;
  Found from_alternatives(const std::string& name, const std::vector<Expression>& all) const;
  Found from_config(const std::string& name) const;
  Found from_keys(const std::string& name) const;
  Found from_setting(const std::string& name, const Setting& setting) const;
  /// What the user or the training's file states, whatever the source shows.
  Known<std::int64_t> stated(const std::string& name) const;
  /// The default of the release that is stated, or that the training's file proves.
  Known<std::int64_t> from_release(const std::string& name, const Setting& setting) const;
  Found from_parts(const std::string& name) const;
  std::string advice_for(const std::string& name) const;

  const Variables& variables_;
  std::vector<Bound> bound_{};
  std::set<std::string> words_{};
  std::function<Known<std::int64_t>(const std::string&)> parts_{};
  mutable std::map<std::string, Found> found_{};
  mutable std::vector<std::string> pending_{};  ///< names whose values are being looked up
};

}  // namespace reshardfs::modelmap
