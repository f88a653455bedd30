// SPDX-License-Identifier: Apache-2.0
#include "view/megatron/extra_states.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "format/torch/pickle_writer.h"
#include "format/torch/torch_zip_writer.h"
#include "view/megatron/core_names.h"

namespace reshardfs {
namespace {

/// Layers times experts. The largest models have some ten thousand.
constexpr std::int64_t kMostFront = 1'000'000;

/// What DCP makes of an object is torch.save of a list with the object of each shard
/// (megatron/core/dist_checkpointing/strategies/torch.py, mcore_to_pyt_state_dict).
std::string none_in_a_list() {
  PickleWriter out;
  out.empty_list();
  out.mark();
  out.none();
  out.append_all();
  return torch_archive(std::move(out).finish());
}

/// Routers are modules of Megatron-Core, and not of Transformer Engine.
bool is_router(std::string_view module) {
  return module.ends_with(".router");
}

/// "....self_attention.core_attention" of "....self_attention.linear_qkv"; empty: it is in none.
std::string core_attention_of(std::string_view module) {
  constexpr std::string_view kAttention = ".self_attention.";
  const std::size_t found = module.find(kAttention);
  if (found == std::string_view::npos) return {};
  return std::string(module.substr(0, found)) + std::string(kAttention) + "core_attention";
}

/// The axes in front of a module's tensors, by module.
class Modules {
 public:
  void add(const TargetParameter& weight) {
    const CoreName name = parse_core_name(weight.name);
    const Shape& shape = weight.grid->full_shape();
    const std::size_t axes = name.leading_axes();
    if (shape.size() < axes || element_count(shape) == 0) {
      throw Error(ErrorKind::kBadInput,
                  "has the shape " + to_string(shape) +
                      ", which is no weight of Megatron-Core: its first dimensions are the layers "
                      "and experts that its name tells of")
          .for_parameter(weight.name);
    }
    const Shape front(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axes));
    if (element_count(front) > kMostFront) {
      throw Error(ErrorKind::kUnsupported, "is of " + std::to_string(element_count(front)) +
                                               " layers and experts; at most " +
                                               std::to_string(kMostFront) + " are supported")
          .for_parameter(weight.name);
    }
    if (name.layers == CoreName::Layers::kStacked) require_layers(front.front(), weight);
    if (name.module.empty() || is_router(name.module)) return;
    const auto [known, is_new] = front_.emplace(name.module, front);
    if (known->second != front) {
      throw Error(ErrorKind::kBadInput, "has the shape " + to_string(shape) +
                                            ", but another tensor of its module has " +
                                            to_string(known->second) + " in front")
          .for_parameter(weight.name);
    }
    const std::string core = core_attention_of(name.module);
    if (!core.empty()) front_.emplace(core, front);
  }

  const std::map<std::string, Shape>& all() const noexcept { return front_; }

 private:
  void require_layers(std::int64_t layers, const TargetParameter& weight) {
    if (layers_of_ == nullptr) {
      layers_ = layers;
      layers_of_ = &weight;
    }
    if (layers == layers_) return;
    throw Error(ErrorKind::kBadInput, "has " + std::to_string(layers) + " layers, but '" +
                                          printable(layers_of_->name) + "' has " +
                                          std::to_string(layers_))
        .for_parameter(weight.name);
  }

  std::map<std::string, Shape> front_;
  std::int64_t layers_ = 0;
  const TargetParameter* layers_of_ = nullptr;
};

std::string joined(const Shape& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    text += (text.empty() ? "" : ".") + std::to_string(number);
  }
  return text;
}

/// As megatron/core/dist_checkpointing/mapping.py, ShardedObject.unique_key.
std::string key_of(const std::string& module, const Shape& offset, const Shape& of) {
  return module + "._extra_state/shard_" + joined(offset) + "_" + joined(of);
}

}  // namespace

std::vector<PassedObject> extra_states(const std::vector<const TargetParameter*>& weights) {
  Modules modules;
  for (const TargetParameter* weight : weights) modules.add(*weight);
  const auto none = std::make_shared<const std::string>(none_in_a_list());
  std::vector<PassedObject> objects;
  for (const auto& [module, front] : modules.all()) {
    const Shape of = front.empty() ? Shape{1} : front;
    Shape offset(of.size(), 0);
    const std::int64_t count = element_count(of);
    for (std::int64_t i = 0; i < count; ++i) {
      objects.push_back({key_of(module, offset, of), nullptr, {}, none});
      for (std::size_t d = of.size(); d-- > 0;) {
        if (++offset[d] < of[d]) break;
        offset[d] = 0;
      }
    }
  }
  return objects;
}

}  // namespace reshardfs
