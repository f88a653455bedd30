// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/dequantize.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/content_size.h"
#include "base/text/text.h"
#include "checkpoint/appended_source.h"
#include "checkpoint/quantized/dequantized_content.h"
#include "checkpoint/quantized/layouts.h"

namespace reshardfs {
namespace {

std::string leave_out(std::string_view option) {
  return "leave " + std::string(option) + " out: the tensors are then shown as they are";
}

bool has_slices(std::span<const RankFile> files) {
  return std::any_of(files.begin(), files.end(), [&](const RankFile& file) {
    return file.rank != files.front().rank || file.index->has_boxes();
  });
}

void require_whole(std::span<const RankFile> files, bool has_layouts, std::string_view option) {
  if (!has_layouts && !has_slices(files)) return;
  throw Error(
      ErrorKind::kUsage,
      std::string(option) + " takes a model of whole tensors, and this checkpoint has slices")
      .hint("leave it out, or export the whole model first");
}

struct Method {
  std::string_view name;
  void (*find)(ModelParts& parts, const QuantizationStatement& statement);
};

/// Without a statement, 8-bit floats are looked for, to say what lacks.
constexpr std::array<Method, 8> kMethods{{{"", find_float_blocks},
                                          {"fp8", find_float_blocks},
                                          {"mxfp8", find_float_blocks},
                                          {"mxfp4", find_gpt_oss},
                                          {"compressed-tensors", find_compressed_tensors},
                                          {"modelopt", find_modelopt},
                                          {"gptq", find_integer_words},
                                          {"awq", find_integer_words}}};

void find_weights(ModelParts& parts, const QuantizationStatement& statement) {
  const auto* const known =
      std::find_if(kMethods.begin(), kMethods.end(),
                   [&](const Method& method) { return method.name == statement.method; });
  if (known != kMethods.end()) return known->find(parts, statement);
  throw Error(ErrorKind::kUnsupported,
              "states the quant_method '" + printable(statement.method) + "', which is not known")
      .in_file(statement.file);
}

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What belongs to quantized weights alone: where it is left over, something lacks or is not
/// understood.
void refuse_the_rest(ModelParts& parts) {
  constexpr std::array<std::string_view, 9> kParts{
      "weight_packed",       "weight_scale",   "weight_zero_point",
      "weight_global_scale", "weight_scale_2", "weight_shape",
      "weight_g_idx",        "qweight",        "qzeros"};
  for (const TensorEntry* const entry : parts.entries()) {
    const std::string& name = entry->name;
    const auto [module, part] = module_name(name);
    if (part == "pre_quant_scale") {
      parts.refuse_form("it scales the inputs of its module, which weights alone cannot express",
                        name);
    } else if (part.starts_with("svdquant_lora_") || part == "bitmask") {
      parts.refuse_form("it changes a weight in a way that is not known", name);
    }
    if (parts.is_used(*entry) || parts.is_refused(name)) continue;
    if (!weight_of_scale(name).empty()) {
      parts.refuse("is a scale of no weight in 8-bit floats (F8_E4M3)", name);
    } else if (is_one_of(part, kParts)) {
      parts.refuse("it belongs to no weight that config.json says is quantized", name);
    } else if (is_block_weight(entry->dtype)) {
      parts.refuse("there is no scale of it", name);
    }
  }
}

/// Scales of activations and caches.
void leave_out_activations(ModelParts& parts) {
  constexpr std::array<std::string_view, 5> kOfModules{
      "input_scale", "input_global_scale", "activation_scale", "input_amax", "output_scale"};
  constexpr std::array<std::string_view, 3> kOfCaches{"k_scale", "v_scale", "q_scale"};
  constexpr std::array<std::string_view, 6> kAttention{"self_attn", "attn",   "attention",
                                                       "q_proj",    "k_proj", "v_proj"};
  for (const TensorEntry* const entry : parts.entries()) {
    const auto [module, part] = module_name(entry->name);
    const bool is_of_cache = is_one_of(part, kOfCaches);
    if (!is_of_cache && !is_one_of(part, kOfModules)) continue;
    const bool is_attention = is_one_of(module_name(module).part, kAttention);
    if (parts.has_weight(module) || (is_of_cache && is_attention)) {
      parts.leave_out(*entry);
    }
  }
}

[[noreturn]] void fail(const ModelParts& parts, std::string_view option,
                       const std::string& directory, const std::filesystem::path& config,
                       bool is_stated) {
  std::string words;
  for (const auto& [why, names] : parts.refused()) {
    words += (words.empty() ? "" : "; ") + name_list(names) + ": " + why;
  }
  Error error(ErrorKind::kUnsupported, std::string(option) + " cannot scale " + words);
  error.in_file(directory);
  if (is_stated) throw error.hint(leave_out(option));
  throw error.hint(config.empty() ? "bring the config.json that belongs to the model beside it"
                                  : printable(config.string()) + " must state it");
}

/// BFloat16.
class DequantizedWeights final : public WeightForm {
 public:
  std::string_view option() const override { return "--dequantize"; }

  void show(const TensorEntry& codes, const ModelParts::Shown& shown, AppendedSource& file,
            std::vector<TensorEntry>& out) override {
    TensorEntry weight = codes;
    const Shape shape = shown.weight.shown_shape();
    weight.name = shown.name;
    weight.shape = shape;
    weight.dtype = DType::kBFloat16;
    weight.content_bytes =
        static_cast<std::uint64_t>(content_size(shape, weight.dtype, "the size of a tensor"));
    if (weight.content_bytes > 0) {
      weight.extents = FileExtents{
          file.append(std::make_unique<const DequantizedContent>(shown.weight, file.stored()))};
    }
    out.push_back(std::move(weight));
  }
};

}  // namespace

QuantizedModel quantized_model(std::span<const RankFile> files, const std::filesystem::path& config,
                               const SourceTreePtr& tree) {
  if (files.empty() || has_slices(files)) return {};
  const QuantizationStatement statement = read_quantization(config, tree);
  if (statement.method.empty()) return {};
  ModelParts parts(files);
  find_weights(parts, statement);
  refuse_the_rest(parts);
  QuantizedModel model{statement.file, {}, parts.refused(), parts.forms()};
  for (const TensorEntry* const entry : parts.entries()) {
    const ModelParts::Shown* const shown = parts.shown(*entry);
    if (shown != nullptr) model.weights.push_back(*shown);
  }
  return model;
}

void show_weights(std::vector<RankFile>& files, bool has_layouts,
                  const std::filesystem::path& config, const SourceTreePtr& tree,
                  WeightForm& form) {
  require_whole(files, has_layouts, form.option());
  QuantizationStatement statement;
  // The new indexes take the places of those that `parts` refers to.
  const std::vector<RankFile> before = files;
  ModelParts parts(before);
  const std::string directory = files.front().path.parent_path().string();
  try {
    statement = read_quantization(config, tree);
    find_weights(parts, statement);
  } catch (Error& error) {
    const bool is_stated =
        error.kind() == ErrorKind::kBadInput || error.kind() == ErrorKind::kUnsupported;
    if (is_stated && error.hint().empty()) error.hint(leave_out(form.option()));
    throw;
  }
  refuse_the_rest(parts);
  if (parts.refused().empty()) form.check(parts);
  if (!parts.refused().empty()) {
    fail(parts, form.option(), directory, config, !statement.method.empty());
  }
  if (parts.weights() == 0) {
    throw Error(ErrorKind::kUsage, "has no quantized weights")
        .in_file(directory)
        .hint("leave " + std::string(form.option()) + " out");
  }
  leave_out_activations(parts);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto appended = std::make_shared<AppendedSource>(before[i].source);
    std::vector<TensorEntry> entries;
    for (const TensorEntry& entry : before[i].index->entries()) {
      if (parts.is_left_out(entry)) continue;
      const ModelParts::Shown* const shown = parts.shown(entry);
      if (shown == nullptr) {
        entries.push_back(entry);
      } else {
        form.show(entry, *shown, *appended, entries);
      }
    }
    files[i].index = std::make_shared<const FileIndex>(std::move(entries), IndexHints{},
                                                       BoxOffsets{}, before[i].index->refused());
    files[i].source = appended;
    files[i].unexamined = nullptr;
  }
}

void dequantize(std::vector<RankFile>& files, bool has_layouts, const std::filesystem::path& config,
                const SourceTreePtr& tree) {
  DequantizedWeights form;
  show_weights(files, has_layouts, config, tree, form);
}

}  // namespace reshardfs
