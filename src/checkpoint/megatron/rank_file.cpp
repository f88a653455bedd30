// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/rank_file.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/megatron/hybrid_layers.h"
#include "checkpoint/megatron/tensor_names.h"

namespace reshardfs {
namespace {

// Megatron-LM has about a thousand. A pickle may refer to a long text as often as it likes.
constexpr std::size_t kMostArguments = 16384;
constexpr std::size_t kMostArgumentText = 256;

class RankFileReader {
 public:
  explicit RankFileReader(const TorchArchive& archive) : archive_(archive) {}

  MegatronRankFile read() {
    const PickleTree& tree = archive_.tree();
    out_.args = MegatronArgs(tree, tree.find(tree.root(), "args"));
    const bool is_hybrid = layer_pattern_text(out_.args).has_value();
    TorchSave saved = read_saved(is_hybrid && has_empty_model(tree));
    for (TorchTensor& tensor : saved.tensors) take(std::move(tensor), &MegatronChunk::tensors);
    for (RefusedTensor& tensor : saved.refused) take(std::move(tensor), &MegatronChunk::refused);
    for (SavedValue& value : saved.beside.values) take(std::move(value));
    if (is_hybrid) add_empty_chunks(tree);
    require_chunks(is_hybrid);
    for (MegatronChunk& chunk : out_.chunks) find_layers(chunk);
    out_.iteration = tree.integer(tree.find(tree.root(), "iteration"));
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const char* hint,
                           ErrorKind kind = ErrorKind::kUnsupported) const {
    throw Error(kind, what).in_file(archive_.source().name()).hint(hint);
  }

  /// Whether no part of the model has an entry.
  static bool has_empty_model(const PickleTree& tree) {
    const auto entries = [&](const std::string& key) {
      const PickleValue model = tree.find(tree.root(), key);
      return tree.count(model.is(PickleKind::kDict) ? model : tree.items(model));
    };
    std::size_t all = entries("model");
    for (std::size_t chunk = 0; has_key(tree, chunk); ++chunk) {
      all += entries("model" + std::to_string(chunk));
    }
    return all == 0;
  }

  static bool has_key(const PickleTree& tree, std::size_t chunk) {
    return !tree.find(tree.root(), "model" + std::to_string(chunk)).is(PickleKind::kUnset);
  }

  /// @param may_be_empty the stage may have no layer, embedding and output: then only the model
  ///        counts, and there may be no tensor at all.
  TorchSave read_saved(bool may_be_empty) const {
    try {
      return read_torch_save(archive_);
    } catch (const Error& error) {
      if (!may_be_empty || error.kind() != ErrorKind::kUnsupported) throw;
      return {};
    }
  }

  /// The chunk with a name; nullptr if it is not below a key of the model.
  MegatronChunk* chunk_of(std::string& name) {
    auto parsed = parse_model_name(name);
    if (!parsed) return nullptr;
    (parsed->numbered ? numbered_ : plain_) = true;
    if (out_.chunks.size() <= parsed->chunk) out_.chunks.resize(parsed->chunk + 1);
    name = std::move(parsed->local);
    require_core(name);
    return &out_.chunks[parsed->chunk];
  }

  void require_core(const std::string& name) const {
    if (!name.starts_with("language_model.encoder.") &&
        !name.starts_with("language_model.transformer.")) {
      return;
    }
    refuse(
        "has the names of Megatron-LM before Megatron-Core ('" + printable(name) +
            "'), which cannot be read",
        "convert it with tools/checkpoint/convert.py of Megatron-LM core_r0.13.0 (--loader legacy "
        "--saver core)");
  }

  /// @param list of a chunk, for tensors of this kind.
  template <typename Tensor>
  void take(Tensor tensor, std::vector<Tensor> MegatronChunk::*list) {
    MegatronChunk* const chunk = chunk_of(tensor.name);
    if (chunk == nullptr) {
      note_other(tensor.name);
    } else if (is_extra_state(tensor.name)) {
      ++out_.extra_states;
    } else {
      (chunk->*list).push_back(std::move(tensor));
    }
  }

  void take(SavedValue value) {
    if (const auto parsed = parse_model_name(value.name)) {
      if (is_extra_state(parsed->local)) ++out_.extra_states;
      return;
    }
    // Others lie beside tensors of the optimizer.
    if (value.name.find('.') == std::string::npos) out_.values.push_back(std::move(value));
  }

  void note_other(const std::string& name) {
    out_.other_tensors.insert(name.substr(0, name.find('.')));
  }

  /// A segment of a HybridModel may have no layer, and its stage no embedding and no output.
  void add_empty_chunks(const PickleTree& tree) {
    const bool has_plain = !tree.find(tree.root(), "model").is(PickleKind::kUnset);
    if (out_.chunks.empty() && has_plain) out_.chunks.resize(1);
    while (!has_plain && has_key(tree, out_.chunks.size())) out_.chunks.emplace_back();
  }

  void require_chunks(bool may_be_empty) const {
    if (out_.chunks.empty()) {
      refuse("has no tensors below the key 'model'",
             "name the directory of an iteration that Megatron-LM saved");
    }
    if (plain_ && numbered_) {
      refuse("has both 'model' and 'model0'", "bring the file as it was saved",
             ErrorKind::kBadInput);
    }
    for (std::size_t i = 0; i < out_.chunks.size() && !may_be_empty; ++i) {
      const MegatronChunk& chunk = out_.chunks[i];
      // A stage may have no layer, but then it has an embedding or an output.
      if (!chunk.tensors.empty() || !chunk.refused.empty()) continue;
      refuse("has no tensors below the key 'model" + std::to_string(i) + "', but below that of '" +
                 "model" + std::to_string(out_.chunks.size() - 1) + "'",
             "bring the file as it was saved", ErrorKind::kBadInput);
    }
  }

  static void find_layers(MegatronChunk& chunk) {
    std::set<std::int64_t> layers;
    const auto add = [&](const std::string& name) {
      if (const auto layer = decoder_layer(name)) layers.insert(*layer);
    };
    for (const TorchTensor& tensor : chunk.tensors) add(tensor.name);
    for (const RefusedTensor& tensor : chunk.refused) add(tensor.name);
    chunk.layers.assign(layers.begin(), layers.end());
  }

  const TorchArchive& archive_;
  bool plain_ = false;
  bool numbered_ = false;
  MegatronRankFile out_;
};

}  // namespace

MegatronArgs::MegatronArgs(const PickleTree& tree, PickleValue object) {
  tree.for_each_pair(tree.state(object), [&](PickleValue key, PickleValue value) {
    const auto name = tree.text(key);
    if (!name) return true;
    values_.emplace(*name, read(tree, value));
    if (values_.size() > kMostArguments) {
      throw Error(ErrorKind::kBadInput, "has more than 16384 arguments of a training");
    }
    return true;
  });
}

MegatronArgs::Value MegatronArgs::read(const PickleTree& tree, PickleValue value) {
  if (value.is(PickleKind::kNone)) return std::monostate();
  if (const auto truth = tree.boolean(value)) return *truth;
  if (const auto number = tree.integer(value)) return *number;
  if (const auto text = tree.text(value); text && text->size() <= kMostArgumentText) {
    return std::string(*text);
  }
  // Python 3 calls the module "__builtin__" in protocol 2.
  const auto maker = tree.maker(value);
  const bool is_set = maker && maker->name == "set" &&
                      (maker->module == "__builtin__" || maker->module == "builtins");
  const auto arguments = tree.tuple(tree.arguments(value));
  if (!is_set || arguments.size() != 1) return Unread();
  Numbers numbers;
  tree.for_each(arguments[0], [&](PickleValue element) {
    if (const auto number = tree.integer(element)) numbers.insert(*number);
    return numbers.size() <= kMostArguments;
  });
  return numbers.size() == tree.count(arguments[0]) ? Value(std::move(numbers)) : Value(Unread());
}

const MegatronArgs::Value* MegatronArgs::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> MegatronArgs::number(std::string_view name) const {
  const Value* const value = find(name);
  const auto* const number = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::int64_t MegatronArgs::size_or_one(std::string_view name) const {
  if (!is_set(name)) return 1;
  const auto size = number(name);
  if (size && *size >= 1) return *size;
  throw Error(ErrorKind::kBadInput,
              "states " + words(name) + " as " + std::string(name) + " in its arguments");
}

std::optional<bool> MegatronArgs::flag(std::string_view name) const {
  const Value* const value = find(name);
  const bool* const truth = value == nullptr ? nullptr : std::get_if<bool>(value);
  return truth == nullptr ? std::nullopt : std::optional(*truth);
}

std::optional<std::string_view> MegatronArgs::text(std::string_view name) const {
  const Value* const value = find(name);
  const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::nullopt : std::optional<std::string_view>(*text);
}

std::optional<std::set<std::int64_t>> MegatronArgs::numbers(std::string_view name) const {
  const Value* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* const set = std::get_if<Numbers>(value)) return *set;
  const auto words = text(name);
  if (!words) return std::nullopt;
  Numbers numbers;
  for (std::string_view rest = *words;; rest.remove_prefix(1)) {
    const auto number = take_number<std::int64_t>(rest);
    if (!number || !(rest.empty() || rest.starts_with(','))) return std::nullopt;
    numbers.insert(*number);
    if (rest.empty()) return numbers;
  }
}

bool MegatronArgs::is_none(std::string_view name) const {
  const Value* const value = find(name);
  return value != nullptr && std::holds_alternative<std::monostate>(*value);
}

bool MegatronArgs::is_set(std::string_view name) const {
  const Value* const value = find(name);
  return value != nullptr && !std::holds_alternative<std::monostate>(*value) &&
         flag(name) != std::optional(false);
}

std::optional<std::string_view> MegatronArgs::difference(
    const MegatronArgs& other, std::span<const std::string_view> names) const {
  const auto differs = [&](std::string_view name) {
    const Value* const mine = find(name);
    const Value* const its = other.find(name);
    return mine == nullptr || its == nullptr ? mine != its : *mine != *its;
  };
  const auto found = std::find_if(names.begin(), names.end(), differs);
  return found == names.end() ? std::nullopt : std::optional(*found);
}

std::string MegatronArgs::words(std::string_view name) const {
  const Value* const value = find(name);
  if (value == nullptr) return "not stated";
  if (const auto truth = flag(name)) return *truth ? "True" : "False";
  if (const auto number = this->number(name)) return std::to_string(*number);
  if (const auto* const text = std::get_if<std::string>(value)) {
    return "'" + printable(*text) + "'";
  }
  const auto* const numbers = std::get_if<Numbers>(value);
  if (numbers == nullptr) return is_none(name) ? "None" : "a value of another type";
  std::string list;
  for (const std::int64_t number : *numbers) {
    list += (list.empty() ? "" : ",") + std::to_string(number);
  }
  return "{" + list + "}";
}

MegatronRankFile read_megatron_rank(const TorchArchive& archive) {
  return RankFileReader(archive).read();
}

}  // namespace reshardfs
