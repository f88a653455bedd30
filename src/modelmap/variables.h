// SPDX-License-Identifier: Apache-2.0
/// What names in expressions stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "modelmap/expression.h"

namespace reshardfs::modelmap {

inline constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20U;  ///< of a config.json

/// [vars]: the first of the expressions that has no unknown name counts.
using VariableTable = std::map<std::string, std::vector<Expression>>;

/// The integers and booleans of a config.json, of the top level and of `text_config`.
class ModelConfig {
 public:
  ModelConfig() = default;
  /// @param text of config.json.
  /// @throws Error kBadInput if it is no JSON object, or is larger than kMaxConfigBytes.
  static ModelConfig parse(const std::string& text);

  std::optional<std::int64_t> find(const std::string& key) const;

 private:
  std::map<std::string, std::int64_t> top_{};
  std::map<std::string, std::int64_t> text_{};
};

/// What holds for all rules of a map.
struct Variables {
  std::map<std::string, std::int64_t> given{};  ///< --map-var
  VariableTable table{};
  ModelConfig config{};

  /// These names, and all that their values may depend on.
  std::set<std::string> with_dependencies(const std::vector<std::string>& names) const;
};

/// "NAME=VALUE" of --map-var.
/// @throws Error kUsage.
std::pair<std::string, std::int64_t> parse_map_variable(const std::string& text);

/// Names as one rule sees them for one target. Not for several threads.
class Scope {
 public:
  /// @param variables must outlive it.
  explicit Scope(const Variables& variables) : variables_(variables) {}

  /// A capture, or a name that a shape binds.
  void bind(const std::string& name, std::int64_t value);
  /// Of a capture that has been joined.
  void unbind(const std::string& name);
  /// A capture that is a word, so that using it as a number can be explained.
  void bind_word(const std::string& name) { words_.insert(name); }
  /// What `tp` and `from_tp` are unless something else says so.
  void set_parts(std::function<std::int64_t(const std::string& name)> parts) {
    parts_ = std::move(parts);
  }

  bool is_known(const std::string& name) const { return look_up(name).value.has_value(); }
  /// @throws Error kBadInput "unknown variable 'NAME'", or what an expression of [vars] throws.
  std::int64_t value(const std::string& name) const;
  std::int64_t evaluate(const Expression& expression) const;

 private:
  struct Found {
    std::optional<std::int64_t> value{};
    std::string why{};  ///< there is no value
  };

  Found look_up(const std::string& name) const;
  Found find(const std::string& name) const;
  Found from_alternatives(const std::string& name, const std::vector<Expression>& all) const;
  Found from_config(const std::string& name) const;
  Found from_known_keys(const std::string& name) const;

  const Variables& variables_;
  std::map<std::string, std::int64_t> bound_{};
  std::set<std::string> words_{};
  std::function<std::int64_t(const std::string&)> parts_{};
  mutable std::map<std::string, Found> found_{};
  mutable std::vector<std::string> pending_{};  ///< names whose values are being looked up
};

}  // namespace reshardfs::modelmap
