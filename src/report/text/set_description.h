// SPDX-License-Identifier: Apache-2.0
/// What a checkpoint is, in a few lines: what is stated or proven, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/rank.h"

#include "base/json/json_writer.h"

namespace reshardfs {

struct Statement {
  std::string words{};
  std::string by{};  ///< what states or proves it; empty: that is evident
};

struct ModelFacts {
  /// Whose names all weights have: "MindFormers"; several if networks have the same names.
  std::vector<std::string> networks{};
  /// The installed maps that have all of these names.
  std::vector<std::string> maps{};
  std::string model_type{};  ///< by config.json: "qwen3"
  std::vector<std::string> architectures{};
  /// Nothing: names do not count them.
  std::optional<std::uint64_t> layers{};
  /// Of a HybridModel of Megatron-Core, a symbol for each layer; empty for other models.
  std::string layer_pattern{};
  std::uint64_t weights = 0;  ///< names
  std::uint64_t states = 0;   ///< number of names that only training needs
  /// Of all weights, each whole and once; nothing: that is not known.
  std::optional<std::uint64_t> elements{};
  std::uint64_t bytes = 0;  ///< of these elements
  /// The methods by which weights are quantized, "awq 4 bits", and the file that states them.
  std::vector<std::string> quantization{};
  std::string quantization_by{};
};

struct LayoutFacts {
  std::vector<Rank> ranks{};  ///< that have files, ascending
  std::optional<std::int64_t> stages{};
  std::optional<std::int64_t> devices{};  ///< of each stage
  /// All weights that are cut are cut over one axis, some by rows and some by columns.
  std::optional<std::int64_t> tp{};
  std::optional<std::int64_t> dp{};  ///< ranks with the same slices, where tp is known
  std::int64_t most_slices = 0;      ///< of any weight; 0: not known
  bool optimizer_cut = false;        ///< weights are cut once more for the optimizer
  std::string by{};                  ///< what states it
};

/// A strategy that lies near a checkpoint.
struct NearStrategy {
  std::string path{};     ///< as it can be given on the command line
  std::string misfit{};   ///< why it is not the checkpoint's; empty: it fits
  std::string same_as{};  ///< of those that fit: one before it that states the same layouts
};

/// What headers and an index state beside the tensors: keys, and values as JSON.
using StatedMetadata = std::vector<std::pair<std::string, std::string>>;

/// A command for a shell, and what it is good for.
struct NextCommand {
  std::string job{};  ///< "check all data"
  std::string command{};

  friend bool operator==(const NextCommand&, const NextCommand&) = default;
};

struct SetDescription {
  std::string kind{};                ///< for programs: "rank_files"
  std::string format{};              ///< for people
  std::vector<std::string> place{};  ///< what it is a part of
  std::vector<Statement> written_by{};
  ModelFacts model{};
  /// By what method weights are quantized, and how they are shown; empty: they are not.
  std::string quantized{};
  StatedMetadata headers{};
  StatedMetadata index{};
  LayoutFacts layout{};
  /// What is missing to mount it; empty: nothing.
  std::string lacks{};
  std::vector<NearStrategy> strategies{};
  /// What --src-strategy must be, where it is needed and only one fits; else empty.
  std::string src_strategy{};
  std::vector<NextCommand> next{};
};

/// The lines for people, each with a line feed; without the commands.
/// @param columns see wrapped().
std::string description_text(const SetDescription& description, std::size_t columns);

/// The same for a file that is not a checkpoint by itself: what it is, and what it is a part of.
/// @param path as the user names it.
std::string part_text(const std::string& path, const SetDescription& part, std::size_t columns);

/// The commands, each on a line of its own that is not broken, below a blank line and a heading.
/// Jobs are comments of the shell above them.
std::string next_text(const std::vector<NextCommand>& commands);

/// The "description" of `inspect --json`, as a member.
void write_description(JsonWriter& json, const SetDescription& description);

}  // namespace reshardfs
