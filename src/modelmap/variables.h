// SPDX-License-Identifier: Apache-2.0
/// What all rules of a map may refer to: options, [vars], config.json and the training's file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace reshardfs::modelmap
