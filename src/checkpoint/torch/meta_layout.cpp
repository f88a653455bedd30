// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/meta_layout.h"

#include <array>
#include <cstdint>

#include "reshardfs/error.h"

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

/// What a dimension of a whole tensor is.
enum class Extent : std::uint8_t {
  kNone,  ///< there is no such dimension
  kDim,
  kQueryRows,
  kKeyRows,
  kHalfHead,
  kVocabulary,
  kInner,  ///< of the feed-forward network: params.json has only what it is computed from
};

enum class Cut : std::uint8_t { kNone, kRows, kColumns, kRowsOrColumns };

struct WeightCut {
  std::string_view name;  ///< behind "layers.N."
  Extent rows;
  Extent columns;
  Cut cut;
};

constexpr std::array kOfLayer{
    WeightCut{"attention.wq.weight", Extent::kQueryRows, Extent::kDim, Cut::kRows},
    WeightCut{"attention.wk.weight", Extent::kKeyRows, Extent::kDim, Cut::kRows},
    WeightCut{"attention.wv.weight", Extent::kKeyRows, Extent::kDim, Cut::kRows},
    WeightCut{"attention.wo.weight", Extent::kDim, Extent::kQueryRows, Cut::kColumns},
    WeightCut{"feed_forward.w1.weight", Extent::kInner, Extent::kDim, Cut::kRows},
    WeightCut{"feed_forward.w2.weight", Extent::kDim, Extent::kInner, Cut::kColumns},
    WeightCut{"feed_forward.w3.weight", Extent::kInner, Extent::kDim, Cut::kRows},
    WeightCut{"attention_norm.weight", Extent::kDim, Extent::kNone, Cut::kNone},
    WeightCut{"ffn_norm.weight", Extent::kDim, Extent::kNone, Cut::kNone},
};

constexpr std::array kOfModel{
    // Columns until Llama 2, rows since Llama 3.
    WeightCut{"tok_embeddings.weight", Extent::kVocabulary, Extent::kDim, Cut::kRowsOrColumns},
    WeightCut{"output.weight", Extent::kVocabulary, Extent::kDim, Cut::kRows},
    WeightCut{"norm.weight", Extent::kDim, Extent::kNone, Cut::kNone},
    WeightCut{"rope.freqs", Extent::kHalfHead, Extent::kNone, Cut::kNone},
};

template <typename Rows>
const WeightCut* cut_in(const Rows& rows, std::string_view name) {
  for (const WeightCut& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const WeightCut* cut_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) return cut_in(kOfModel, name);
  name.remove_prefix(kLayers.size());
  if (!take_number<std::int64_t>(name) || !name.starts_with('.')) return nullptr;
  return cut_in(kOfLayer, name.substr(1));
}

/// nullopt: params.json does not say.
std::optional<std::int64_t> stated(Extent extent, const MetaSizes& sizes) {
  switch (extent) {
    case Extent::kDim:
      return sizes.dim;
    case Extent::kQueryRows:
      return sizes.query_rows;
    case Extent::kKeyRows:
      return sizes.key_rows;
    case Extent::kHalfHead:
      return sizes.head_dim / 2;
    case Extent::kVocabulary:
      return sizes.vocabulary;
    case Extent::kInner:
    case Extent::kNone:
      break;
  }
  return std::nullopt;
}

Error does_not_fit(const Shape& part, std::int64_t files) {
  const std::string of = files == 1 ? "in the only file" : "in each of " + std::to_string(files);
  return Error(ErrorKind::kBadInput, "has the shape " + to_string(part) + " " + of +
                                         (files == 1 ? "" : " files") +
                                         ", which is not what params.json states");
}

/// @throws does_not_fit() if the whole is not what params.json states.
MetaPart joined(const WeightCut& row, const Shape& part, std::int64_t files,
                std::optional<std::size_t> cut, const MetaSizes& sizes) {
  MetaPart out{part, files > 1 ? cut : std::nullopt};
  if (out.cut) out.full_shape[*out.cut] *= files;
  const std::array extents{row.rows, row.columns};
  for (std::size_t d = 0; d < part.size(); ++d) {
    const auto wanted = stated(extents[d], sizes);
    if (wanted && out.full_shape[d] != *wanted) throw does_not_fit(part, files);
  }
  return out;
}

}  // namespace

MetaSizes MetaSizes::of(const modelmap::ModelConfig& params) {
  // So that the product of two is a number in 64 bits.
  constexpr std::int64_t kMost = std::int64_t{1} << 31U;
  const auto number = [&](const char* key) {
    const auto value = params.find(key);
    return value && *value > 0 && *value <= kMost ? value : std::nullopt;
  };
  const auto dim = number("dim");
  const auto heads = number("n_heads");
  if (!dim || !heads) {
    throw Error(ErrorKind::kBadInput, std::string("has no number '") + (dim ? "n_heads" : "dim") +
                                          "', which a params.json of Meta has");
  }
  auto head_dim = number("head_dim");
  if (!head_dim && *dim % *heads == 0) head_dim = *dim / *heads;
  if (!head_dim) throw Error(ErrorKind::kBadInput, "'dim' is no multiple of 'n_heads'");
  MetaSizes sizes;
  sizes.dim = *dim;
  sizes.head_dim = *head_dim;
  sizes.query_rows = *heads * *head_dim;
  sizes.key_rows = number("n_kv_heads").value_or(*heads) * *head_dim;
  sizes.vocabulary = number("vocab_size");
  return sizes;
}

std::optional<std::int64_t> proven_files(std::string_view name, const Shape& part,
                                         const MetaSizes& sizes) {
  const WeightCut* const row = cut_of(name);
  if (row == nullptr || row->rows != Extent::kQueryRows) return std::nullopt;
  if (part.size() == 2 && part[0] > 0 && part[1] == sizes.dim && sizes.query_rows % part[0] == 0) {
    return sizes.query_rows / part[0];
  }
  throw Error(ErrorKind::kBadInput, "has the shape " + to_string(part) +
                                        ", but according to params.json it should have " +
                                        std::to_string(sizes.dim) + " columns, and a part of " +
                                        std::to_string(sizes.query_rows) + " rows")
      .for_parameter(std::string(name))
      .hint("bring the params.json that belongs to these files");
}

MetaPart meta_part(std::string_view name, const Shape& part, std::int64_t files,
                   const MetaSizes& sizes) {
  const WeightCut* const row = cut_of(name);
  if (row == nullptr) {
    if (files == 1) return {part, std::nullopt};
    throw Error(ErrorKind::kUnsupported,
                "Meta's layout of Llama does not state how the files cut a tensor of this name");
  }
  const std::size_t rank = row->columns == Extent::kNone ? 1 : 2;
  if (part.size() != rank) throw does_not_fit(part, files);
  switch (row->cut) {
    case Cut::kRows:
      return joined(*row, part, files, 0, sizes);
    case Cut::kColumns:
      return joined(*row, part, files, 1, sizes);
    case Cut::kRowsOrColumns:
      return joined(*row, part, files, part[1] == sizes.dim ? 0 : 1, sizes);
    case Cut::kNone:
      break;
  }
  return joined(*row, part, files, std::nullopt, sizes);
}

}  // namespace reshardfs
