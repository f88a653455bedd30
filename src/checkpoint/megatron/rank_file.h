// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "format/listed_items.h"
#include "format/torch/pickle_tree.h"
#include "format/torch/torch_archive.h"
#include "format/torch/torch_save.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// The arguments of the training that Megatron-LM saves beside the model: an argparse.Namespace.
class MegatronArgs {
 public:
  MegatronArgs() = default;
  /// @param object whatever its class. None, truth values, integers of 64 bits, texts of at most
  ///        256 bytes and sets of integers are read of its attributes.
  /// @throws Error kBadInput, without the file, if there are more than 16384 attributes.
  MegatronArgs(const PickleTree& tree, PickleValue object);

  /// Whether there are none.
  bool empty() const noexcept { return values_.empty(); }
  /// Nothing if it is no integer, or is not there.
  std::optional<std::int64_t> number(std::string_view name) const;
  /// 1 if it is None or not there, as before the argument existed.
  /// @throws Error kBadInput, without the file, if it is no positive number.
  std::int64_t size_or_one(std::string_view name) const;
  /// Nothing if it is no truth value, or is not there.
  std::optional<bool> flag(std::string_view name) const;
  /// Nothing if it is no text, or is not there.
  std::optional<std::string_view> text(std::string_view name) const;
  /// Of a set, or of a text such as "0,3"; nothing if it is neither, or is not there.
  std::optional<std::set<std::int64_t>> numbers(std::string_view name) const;
  bool is_none(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Whether it is there and is neither None nor False.
  bool is_set(std::string_view name) const;

  /// The first of the names whose values are not the same in both.
  std::optional<std::string_view> difference(const MegatronArgs& other,
                                             std::span<const std::string_view> names) const;
  /// For messages: "4", "None", "not stated".
  std::string words(std::string_view name) const;

 private:
  struct Unread {
    bool operator==(const Unread&) const = default;
  };
  using Numbers = std::set<std::int64_t>;
  using Value = std::variant<std::monostate, bool, std::int64_t, std::string, Numbers, Unread>;

  static Value read(const PickleTree& tree, PickleValue value);

  const Value* find(std::string_view name) const;

  std::map<std::string, Value, std::less<>> values_;
};

/// A part of the model that one virtual stage has.
struct MegatronChunk {
  std::vector<TorchTensor> tensors{};    ///< by their names below the key of the model
  std::vector<RefusedTensor> refused{};  ///< the same
  std::vector<std::int64_t> layers{};    ///< those of the decoder, ascending
};

/// What is in a model_optim_rng.pt.
struct MegatronRankFile {
  std::vector<MegatronChunk> chunks{};  ///< more than one with virtual stages
  MegatronArgs args{};
  std::optional<std::int64_t> iteration{};
  std::size_t extra_states = 0;           ///< of modules: no weights
  std::vector<SavedValue> values{};       ///< at the top, without tensors in them
  std::set<std::string> other_tensors{};  ///< keys at the top beside the model, with tensors
};

/// @throws Error kUnsupported if it has no model, or one with the names from before
///         Megatron-Core; kBadInput if a virtual stage is missing; what read_torch_save() throws.
MegatronRankFile read_megatron_rank(const TorchArchive& archive);

}  // namespace reshardfs
