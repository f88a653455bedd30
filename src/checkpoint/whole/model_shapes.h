// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/shape.h"

#include "storage/source_tree.h"

namespace reshardfs {

/// The full shape of a weight by a model's configuration.
struct StatedShape {
  Shape shape{};
  /// The rows are those of the vocabulary, and some more may fill them up.
  bool may_have_more_rows = false;
  /// The rows in words: "a vocabulary of 16"; empty: there are no words for them.
  std::string rows{};
};

/// What config.json tells of the shapes of weights that networks of Hugging Face have under known
/// names (huggingface/transformers, models/*/modeling_*.py), and torchtitan under its own.
class ModelShapes {
 public:
  /// Knows nothing.
  ModelShapes() = default;
  /// @param text of config.json; what is none tells nothing.
  explicit ModelShapes(const std::string& text);
  /// Knows nothing if there is no such file, or it is larger than a configuration is.
  /// @throws Error kIo.
  static ModelShapes read(const std::filesystem::path& file, const SourceTreePtr& tree);

  bool empty() const noexcept { return numbers_.empty() && !vocabulary_; }
  /// Nothing if the name is not known, or a number that its shape needs is not stated.
  std::optional<StatedShape> find(const std::string& name) const;
  /// What config.json says of embeddings that are the output's weights, too; nothing: not stated.
  std::optional<bool> ties_embeddings() const noexcept { return tied_; }

 private:
  std::map<std::string, std::int64_t, std::less<>> numbers_{};  ///< dimensions by their letters
  std::optional<std::int64_t> vocabulary_{};
  std::optional<bool> tied_{};
};

/// A row for each word of the vocabulary, or some more: by its name an embedding or the output.
bool has_row_for_each_word(std::string_view name);

/// What is there of a weight, against what is stated of it.
enum class ShapeVerdict : std::uint8_t {
  kFits,
  kShort,    ///< one dimension is smaller, and the others are right
  kUnknown,  ///< nothing is stated of it, or of another tensor of that name
};

ShapeVerdict judge_extent(const Shape& found, const std::optional<StatedShape>& stated);

/// "has 8 rows in 1 shard, but config.json states a vocabulary of 16".
/// @param pieces "1 shard"
std::string short_words(const Shape& found, const StatedShape& stated, const std::string& pieces);

}  // namespace reshardfs
