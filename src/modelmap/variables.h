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

#include "reshardfs/error.h"

#include "base/known.h"
#include "modelmap/expression.h"
#include "modelmap/layer_pattern.h"
#include "modelmap/training_settings.h"

namespace reshardfs {
class JsonReader;
}

namespace reshardfs::modelmap {

inline constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20U;  ///< of a config.json

/// [vars]: the first of the expressions that has no unknown name counts.
using VariableTable = std::map<std::string, std::vector<Expression>>;

/// The integers and booleans of a config.json, its texts, and its lists of them; of the top level
/// and of `text_config`.
class ModelConfig {
 public:
  /// A text or a number of a list.
  struct Element {
    std::optional<std::int64_t> number{};
    std::string text{};
  };
  using List = std::vector<Element>;

  ModelConfig() = default;
  /// @param text of config.json.
  /// @param file that it is, for messages.
  /// @throws Error kBadInput if it is no JSON object, or is larger than kMaxConfigBytes.
  static ModelConfig parse(const std::string& text, std::string file = "config.json");

  /// Whatever the file says.
  void state_model_type(const std::string& type);

  std::optional<std::int64_t> find(const std::string& key) const;
  /// nullptr: there is no list of integers, booleans and texts of this name.
  const List* find_list(const std::string& key) const;
  /// Nothing if it is no text.
  std::optional<std::string> find_text(const std::string& key) const;
  /// Whether there is a file: only then does a key that it lacks mean anything.
  bool is_read() const noexcept { return !file_.empty(); }
  const std::string& file() const noexcept { return file_; }
  /// "qwen3"; empty if the file does not say.
  const std::string& model_type() const noexcept { return model_type_; }
  /// Of the whole, then of its text_config, where they say.
  std::vector<std::string> model_types() const;

 private:
  struct Level {
    std::map<std::string, std::int64_t> numbers{};
    std::map<std::string, List> lists{};
    std::map<std::string, std::string> texts{};

    void add(JsonReader& reader);
  };

  Level top_{};
  Level text_{};
  Level vision_{};  ///< numbers of vision_config count as "vision_" and the key
  std::string file_{};
  std::string model_type_{};
};

/// A pattern of layers that is stated, and where.
struct StatedPattern {
  std::string text{};
  std::string origin{};
};

/// Whether config.json may have the name under keys of its own: "heads".
bool has_config_keys(const std::string& name);

/// What holds for all rules of a map.
struct Variables {
  std::map<std::string, std::int64_t> given{};  ///< --map-var
  VariableTable table{};
  ModelConfig config{};
  SettingTable settings{};
  std::vector<ReleaseProof> release_proofs{};
  TrainingConfig training{};
  std::optional<Release> release{};  ///< of the framework that trains, as --map-var states it
  /// What names and shapes of tensors prove of names that nothing above tells.
  std::map<std::string, Known<std::int64_t>> proven{};
  /// What the source itself shows, whatever else is stated: see Setting::is_shown_by().
  std::map<std::string, Known<std::int64_t>> shown{};
  /// The layers of a HybridModel.
  Known<LayerPattern> pattern{};

  /// As with_dependencies() below.
  std::set<std::string> with_dependencies(const std::vector<std::string>& names) const;
};

/// These names, and all that their values may depend on.
std::set<std::string> with_dependencies(std::vector<std::string> names, const VariableTable& table,
                                        const SettingTable& settings);

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

/// The name under which --map-var states the model's type, whatever config.json says.
inline constexpr const char* kTypeVariable = "model_type";
/// The name under which --map-var states the release of a framework.
inline constexpr const char* kReleaseVariable = "release";

/// "NAME=VALUE" of --map-var.
/// @throws Error kUsage.
std::pair<std::string, std::int64_t> parse_map_variable(const std::string& text);

/// "release=1.6".
/// @throws Error kUsage.
Release parse_release(const std::string& text);

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
