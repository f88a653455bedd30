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

#include "base/known.h"
#include "modelmap/variables.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// The full shape of a weight according to a model's configuration.
struct StatedShape {
  Shape shape{};
  /// The rows are those of the vocabulary, possibly padded with more rows.
  bool may_have_more_rows = false;
  /// Describes the rows: "a vocabulary of 16"; empty: no description.
  std::string rows{};
  /// Whether it depends on the number of heads, or on the width of dense layers.
  bool is_of_heads = false;
  /// Whether it depends on other sizes still.
  bool is_of_others = false;
  /// Where the sizes come from: "config.json: num_attention_heads; config.json: hidden_size".
  std::string origins{};
};

/// The shapes, according to config.json, of weights with known names in networks of Hugging Face
/// (huggingface/transformers, models/*/modeling_*.py) and torchtitan.
class ModelShapes {
 public:
  /// An object that knows no shapes.
  ModelShapes() = default;
  /// @param text of config.json; invalid text gives no shapes.
  explicit ModelShapes(const std::string& text);
  explicit ModelShapes(const modelmap::ModelConfig& config);
  /// Knows no shapes if the file does not exist, or is too large for a configuration.
  /// @throws Error kIo.
  static ModelShapes read(const std::filesystem::path& file, const SourceTreePtr& tree);

  bool empty() const noexcept { return numbers_.empty(); }
  /// nullopt if the name is unknown, or config.json lacks a number that the shape needs.
  std::optional<StatedShape> find(const std::string& name) const;
  /// Whether config.json says that the embeddings are also the output's weights; nullopt: it does
  /// not say.
  std::optional<bool> ties_embeddings() const noexcept { return tied_; }

 private:
  /// Dimensions, by their letters.
  std::map<std::string, Known<std::int64_t>, std::less<>> numbers_{};
  std::optional<bool> tied_{};
};

/// Whether a tensor has a row for each word of the vocabulary (or more rows): by its name it is an
/// embedding or the output.
bool has_row_for_each_word(std::string_view name);

/// The result of comparing a weight's shape with the stated one.
enum class ShapeVerdict : std::uint8_t {
  kFits,
  kShort,    ///< one dimension is smaller, and the others are equal
  kUnknown,  ///< no shape is stated, or it is that of another tensor with this name
};

ShapeVerdict judge_extent(const Shape& found, const std::optional<StatedShape>& stated);

/// "has 8 rows in 1 shard, but config.json states a vocabulary of 16".
/// @param pieces "1 shard"
std::string short_words(const Shape& found, const StatedShape& stated, const std::string& pieces);

/// A tensor with the shape that the files show.
struct NamedExtent {
  const std::string& name;
  const Shape& shape;
};

/// The names of tensors that have as many rows as this one, if they exist: the bias of a weight,
/// the weight of a state.
std::vector<std::string> twin_names(const std::string& name);

enum class RowsVerdict : std::uint8_t { kUnknown, kSame, kFirstIsShort, kSecondIsShort };

/// What `b` says of the rows of `a`, where whole tensors have as many: one is in the twin_names()
/// of the other, or both have a row for each word. A bias has an element for each row of its
/// weight, [out, in, ...]; of a transposed one, for each column, so that it says nothing of the
/// rows of a weight with as many columns.
RowsVerdict judge_rows(const NamedExtent& a, const NamedExtent& b);

/// "has 8 rows in 2 shards, but 'w.bias' has 12 elements".
std::string short_words(const NamedExtent& found, const NamedExtent& twin,
                        const std::string& pieces);

}  // namespace reshardfs
