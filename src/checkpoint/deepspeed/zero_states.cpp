// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_states.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "reshardfs/error.h"

#include "format/torch/pickle_globals.h"
#include "format/torch/torch_values.h"

namespace reshardfs {
namespace {

class StatesReader {
 public:
  explicit StatesReader(const TorchArchive& archive)
      : archive_(archive), tree_(archive.tree()), root_(tree_.root()) {}

  ZeroModelStates read_model() const {
    ZeroModelStates out;
    out.folder = archive_.folder();
    const PickleValue shapes = tree_.find(root_, "param_shapes");
    if (shapes.is(PickleKind::kUnset)) {
      refuse("has no 'param_shapes', so it was not saved by DeepSpeed's ZeRO");
    }
    if (shapes.is(PickleKind::kDict)) out.groups.push_back(named_shapes(shapes));
    tree_.for_each(shapes, [&](PickleValue group) {
      out.groups.push_back(named_shapes(group));
      return true;
    });
    const PickleValue frozen = tree_.find(root_, "frozen_param_shapes");
    if (frozen.is(PickleKind::kDict)) out.frozen = named_shapes(frozen);
    out.frozen_fragments = named_tensors(tree_.find(root_, "frozen_param_fragments"));
    read_aliases(out);
    read_module(out);
    out.data_world = tree_.integer(tree_.find(root_, "dp_world_size"));
    out.model_world = tree_.integer(tree_.find(root_, "mp_world_size"));
    out.steps = tree_.integer(tree_.find(root_, "global_steps"));
    const PickleValue degrees = tree_.find(root_, "checkpoint_parallel_dimensions");
    out.tensor_world = tree_.integer(tree_.find(degrees, "tp_degree"));
    out.pipeline_world = tree_.integer(tree_.find(degrees, "pp_degree"));
    read_cuts(out);
    out.is_disordered = is_disordered(out);
    out.facts = zero_model_facts(archive_);
    return out;
  }

  ZeroOptimizerStates read_optimizer() const {
    ZeroOptimizerStates out;
    out.folder = archive_.folder();
    const PickleValue states = tree_.find(root_, "optimizer_state_dict");
    PickleValue weights = tree_.find(states, "single_partition_of_fp32_groups");
    PickleValue optimizer = tree_.find(states, "base_optimizer_state");
    if (weights.is(PickleKind::kUnset)) {
      weights = tree_.find(states, "fp32_flat_groups");
      optimizer = tree_.find(states, "optimizer_state_dict");
      out.is_stage3 = true;
    }
    if (!weights.is(PickleKind::kList)) {
      refuse("has no flat groups of float32, so it is not of DeepSpeed's ZeRO stage 1, 2 or 3");
    }
    tree_.for_each(weights, [&](PickleValue group) {
      out.weights.push_back(flat_tensor(group));
      return true;
    });
    if (out.weights.empty()) refuse("has an empty list of flat groups", ErrorKind::kBadInput);
    read_paddings(states, out);
    read_moments(optimizer, out);
    out.is_round_robin = is_round_robin();
    read_fragments(tree_.find(states, "param_slice_mappings"), out);
    out.world = largest(tree_.find(states, "partition_count"));
    out.facts = zero_optimizer_facts(archive_, optimizer, out.steps);
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& what,
                           ErrorKind kind = ErrorKind::kUnsupported) const {
    throw Error(kind, what).in_file(archive_.source().name());
  }

  bool is_round_robin() const {
    const PickleValue config = tree_.find(tree_.find(root_, "ds_config"), "zero_optimization");
    return tree_.boolean(tree_.find(config, "round_robin_gradients")) == true;
  }

  /// Round-robin deals the parameters of a group to the ranks: as long as none gets two, the order
  /// stays. BF16_Optimizer and stage 3 do not deal.
  bool is_disordered(const ZeroModelStates& model) const {
    const PickleValue config = tree_.find(root_, "ds_config");
    const auto stage = tree_.integer(tree_.find(tree_.find(config, "zero_optimization"), "stage"));
    if (!is_round_robin() || (stage != 1 && stage != 2)) return false;
    const auto sums = tree_.text(tree_.find(tree_.find(config, "data_types"), "grad_accum_dtype"));
    const bool is_bf16 = tree_.boolean(tree_.find(tree_.find(config, "bf16"), "enabled")) == true;
    if (stage == 1 && is_bf16 && sums == "fp32") return false;
    if (!model.data_world) return true;
    return *model.data_world > 1 &&
           std::any_of(model.groups.begin(), model.groups.end(), [&](const auto& group) {
             return static_cast<std::int64_t>(group.size()) > *model.data_world;
           });
  }

  /// Lists may refer to one dictionary as often as they like.
  void count_value() const {
    if (++values_ > tree_.size()) {
      refuse("has lists that refer to the same values again and again", ErrorKind::kBadInput);
    }
  }

  std::string name_of(PickleValue key) const {
    const auto name = tree_.text(key);
    if (!name) refuse("has a parameter whose name is no text", ErrorKind::kBadInput);
    return std::string(*name);
  }

  /// Names the file and the parameter in what `work` throws.
  template <typename Work>
  auto of_parameter(const std::string& name, Work&& work) const {
    try {
      return work();
    } catch (Error& error) {
      throw error.in_file(archive_.source().name()).for_parameter(name);
    }
  }

  /// torch.Size((...)), or a tuple.
  Shape shape_of(PickleValue value, const std::string& name) const {
    const auto arguments = tree_.tuple(tree_.arguments(value));
    return of_parameter(name, [&] {
      return torch_sizes(tree_, arguments.empty() ? value : arguments[0], "its shape");
    });
  }

  std::vector<ZeroShape> named_shapes(PickleValue dict) const {
    if (!dict.is(PickleKind::kDict)) {
      refuse("has no dictionary of the parameters' shapes", ErrorKind::kBadInput);
    }
    std::vector<ZeroShape> shapes;
    tree_.for_each_pair(dict, [&](PickleValue key, PickleValue value) {
      count_value();
      std::string name = name_of(key);
      Shape shape = shape_of(value, name);
      shapes.push_back({std::move(name), std::move(shape)});
      return true;
    });
    return shapes;
  }

  TorchTensor tensor_of(PickleValue value, const std::string& name) const {
    TorchTensor tensor = of_parameter(name, [&] { return archive_.tensor(value); });
    tensor.name = name;
    return tensor;
  }

  std::vector<TorchTensor> named_tensors(PickleValue dict) const {
    std::vector<TorchTensor> tensors;
    tree_.for_each_pair(dict, [&](PickleValue key, PickleValue value) {
      tensors.push_back(tensor_of(value, name_of(key)));
      return true;
    });
    return tensors;
  }

  void read_cuts(ZeroModelStates& out) const {
    if (!out.tensor_world || *out.tensor_world == 1) return;
    try {
      out.cuts = read_affine_map(tree_, tree_.find(root_, "universal_checkpoint_info"));
      if (out.cuts.empty()) return;
      // DeepSpeed lists what is whole on every rank, too.
      for (const auto& group : out.groups) {
        for (const ZeroShape& parameter : group) {
          out.cuts.try_emplace(parameter.name,
                               AffineTensor{{}, {}, "the affine_map does not state how it is cut"});
        }
      }
    } catch (Error& error) {
      throw error.in_file(archive_.source().name());
    }
  }

  void read_module(ZeroModelStates& out) const {
    std::unordered_set<std::string_view> known;
    for (const auto& group : out.groups) {
      for (const ZeroShape& parameter : group) known.insert(parameter.name);
    }
    const std::size_t in_groups = known.size();
    std::unordered_map<std::string_view, PickleValue> module;
    tree_.for_each_pair(tree_.find(root_, "module"), [&](PickleValue key, PickleValue value) {
      if (const auto name = tree_.text(key)) module.insert_or_assign(*name, value);
      return true;
    });
    if (!module.empty()) {
      for (const auto& group : out.groups) {
        for (const ZeroShape& parameter : group) {
          const auto found = module.find(parameter.name);
          if (found == module.end()) {
            out.lost.push_back(parameter.name);
          } else if (archive_.is_tensor(found->second)) {
            read_copy(found->second, parameter.name, out);
          }
        }
      }
    }
    // Frameworks that nest the module's state have other names there.
    if (out.lost.size() == in_groups) out.lost.clear();
    for (const auto& [alias, name] : out.aliases) known.insert(alias);
    read_others(known, out);
    tree_.for_each(tree_.find(root_, "buffer_names"), [&](PickleValue key) {
      const std::string name = name_of(key);
      const auto value = module.find(name);
      // Buffers that are not persistent have a name, but are not saved.
      if (value != module.end()) read_rest(value->second, name, out.buffers, out);
      return true;
    });
  }

  void read_copy(PickleValue value, const std::string& name, ZeroModelStates& out) const {
    try {
      out.copies.push_back(tensor_of(value, name));
    } catch (const Error& error) {
      // What cannot be read is not compared: nothing of it is shown.
      if (error.kind() != ErrorKind::kUnsupported) throw;
    }
  }

  void read_others(const std::unordered_set<std::string_view>& known, ZeroModelStates& out) const {
    tree_.for_each_pair(tree_.find(root_, "module"), [&](PickleValue key, PickleValue value) {
      const auto name = tree_.text(key);
      if (name && !known.contains(*name) && archive_.is_tensor(value)) {
        read_rest(value, std::string(*name), out.others, out);
      }
      return true;
    });
  }

  /// A buffer is computed from the configuration, as `freqs_cis` of complex numbers is: the
  /// parameters are the model without it, too.
  void read_rest(PickleValue value, const std::string& name, std::vector<TorchTensor>& tensors,
                 ZeroModelStates& out) const {
    try {
      tensors.push_back(tensor_of(value, name));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      const bool is_new =
          std::none_of(out.refused_buffers.begin(), out.refused_buffers.end(),
                       [&](const RefusedTensor& other) { return other.name == name; });
      if (is_new) out.refused_buffers.push_back({name, error.message()});
    }
  }

  /// {alias: name}, or a list of pairs.
  void read_aliases(ZeroModelStates& out) const {
    const PickleValue shared = tree_.find(root_, "shared_params");
    tree_.for_each_pair(shared, [&](PickleValue alias, PickleValue name) {
      out.aliases.emplace_back(name_of(alias), name_of(name));
      return true;
    });
    tree_.for_each(shared, [&](PickleValue pair) {
      const auto names = tree_.tuple(pair);
      if (names.size() == 2) out.aliases.emplace_back(name_of(names[0]), name_of(names[1]));
      return true;
    });
  }

  TorchTensor flat_tensor(PickleValue value) const {
    TorchTensor tensor = tensor_of(value, "");
    if (tensor.shape.size() != 1 || !is_contiguous(tensor)) {
      refuse("has a flat group that is not one row of elements", ErrorKind::kBadInput);
    }
    return tensor;
  }

  std::vector<std::int64_t> numbers(PickleValue list) const {
    std::vector<std::int64_t> out;
    tree_.for_each(list, [&](PickleValue value) {
      const auto number = tree_.integer(value);
      if (!number || *number < 0) refuse("has paddings that are no lengths", ErrorKind::kBadInput);
      out.push_back(*number);
      return true;
    });
    return out;
  }

  void read_paddings(PickleValue states, ZeroOptimizerStates& out) const {
    const PickleValue paddings = tree_.find(states, "group_paddings");
    if (paddings.is(PickleKind::kList)) {
      out.paddings = numbers(paddings);
      if (out.paddings->size() != out.weights.size()) {
        refuse("has group_paddings of another number of groups", ErrorKind::kBadInput);
      }
    }
    tree_.for_each(tree_.find(states, "param_alignment_paddings"), [&](PickleValue group) {
      count_value();
      out.alignments.push_back(numbers(group));
      return true;
    });
    out.excess.resize(out.weights.size());
  }

  /// {"state": {group: {"exp_avg": flat tensor, "step": ..., ...}}}, or without padding a list with
  /// the states of each group.
  void read_moments(PickleValue optimizer, ZeroOptimizerStates& out) const {
    if (optimizer.is(PickleKind::kList)) {
      std::size_t group = 0;
      tree_.for_each(optimizer, [&](PickleValue values) {
        if (group == out.weights.size()) {
          refuse("has states of more groups than weights", ErrorKind::kBadInput);
        }
        read_states(group++, values, 0, out);
        return true;
      });
      return;
    }
    out.has_states = !optimizer.is(PickleKind::kUnset) && !optimizer.is(PickleKind::kNone);
    if (!out.has_states) return;
    if (!optimizer.is(PickleKind::kDict)) {
      refuse("has states of the optimizer in an unknown form");
    }
    const PickleValue states = tree_.find(optimizer, "state");
    out.has_other_states = !states.is(PickleKind::kUnset) && !states.is(PickleKind::kDict);
    tree_.for_each_pair(states, [&](PickleValue key, PickleValue values) {
      const auto group = tree_.integer(key);
      if (!group || *group < 0 || *group >= static_cast<std::int64_t>(out.weights.size()) ||
          !values.is(PickleKind::kDict)) {
        out.has_other_states = true;
        return true;
      }
      const auto number = static_cast<std::size_t>(*group);
      std::optional<std::int64_t> padding;
      if (out.paddings) padding = (*out.paddings)[number];
      if (out.is_stage3) padding = 0;
      read_states(number, values, padding, out);
      return true;
    });
  }

  /// Padding may be longer than a rank's part, of which nothing is left then.
  static bool is_padding(std::int64_t excess, std::int64_t count,
                         std::optional<std::int64_t> stated) {
    return excess == 0 || !stated || excess == *stated || (count == 0 && excess < *stated);
  }

  /// States of bitsandbytes, which 0.50 saves in a dictionary of their own. Not seen in files: as
  /// they are in its memory, side by side.
  bool is_scaled(PickleValue values) const {
    return !tree_.find(values, "qmap1").is(PickleKind::kUnset) ||
           !tree_.find(values, "__bnb_optimizer_quant_state__").is(PickleKind::kUnset);
  }

  /// @param padding behind the elements of the weights; nothing: any.
  void read_states(std::size_t group, PickleValue values, std::optional<std::int64_t> padding,
                   ZeroOptimizerStates& out) const {
    if (is_scaled(values)) {
      out.has_scaled_states = true;
      return;
    }
    const std::int64_t count = out.weights[group].shape.front();
    tree_.for_each_pair(values, [&](PickleValue name, PickleValue value) {
      count_value();
      const auto text = tree_.text(name);
      if (value.is(PickleKind::kDict)) out.has_other_states = true;
      if (!text || !archive_.is_tensor(value)) return true;
      TorchTensor tensor = tensor_of(value, std::string(*text));
      if (tensor.shape.size() != 1 || *text == "step") return true;
      const std::int64_t excess = tensor.shape.front() - count;
      if (!is_contiguous(tensor) || excess < 0 || !is_padding(excess, count, padding)) {
        refuse("has '" + printable(std::string(*text)) + "' of " + to_string(tensor.shape) +
                   " elements for weights of " + to_string(out.weights[group].shape) +
                   (out.paddings && !out.is_stage3
                        ? ", and group_paddings says " + std::to_string((*out.paddings)[group])
                        : std::string()),
               ErrorKind::kBadInput);
      }
      out.excess[group] = std::max(out.excess[group], excess);
      tensor.shape = {count};
      out.moments[std::string(*text)].insert_or_assign(group, std::move(tensor));
      return true;
    });
  }

  /// [{name: fragment_address(numel, start)}], one for each group.
  void read_fragments(PickleValue list, ZeroOptimizerStates& out) const {
    tree_.for_each(list, [&](PickleValue group) {
      std::map<std::string, ZeroFragment>& fragments = out.fragments.emplace_back();
      tree_.for_each_pair(group, [&](PickleValue key, PickleValue value) {
        count_value();
        const auto count = field(value, "numel", 0);
        const auto start = field(value, "start", 1);
        if (!count || !start) {
          refuse("does not state where a parameter's part is", ErrorKind::kBadInput);
        }
        fragments[name_of(key)] = {*count, *start};
        return true;
      });
      return true;
    });
  }

  /// A number of a dataclass or of a named tuple.
  std::optional<std::int64_t> field(PickleValue object, std::string_view name,
                                    std::size_t position) const {
    const auto values = tree_.tuple(tree_.arguments(object));
    if (position < values.size()) return tree_.integer(values[position]);
    return tree_.integer(tree_.find(tree_.state(object), name));
  }

  /// A number, or the largest of a list of them.
  std::optional<std::int64_t> largest(PickleValue value) const {
    std::optional<std::int64_t> most = tree_.integer(value);
    tree_.for_each(value, [&](PickleValue element) {
      const auto number = tree_.integer(element);
      if (number && (!most || *number > *most)) most = number;
      return true;
    });
    return most;
  }

  const TorchArchive& archive_;
  const PickleTree& tree_;
  PickleValue root_;
  mutable std::size_t values_ = 0;  ///< that were read
};

}  // namespace

DictTensors named_tensors(const TorchArchive& archive, PickleValue dict) {
  DictTensors out;
  out.folder = archive.folder();
  const PickleTree& tree = archive.tree();
  tree.for_each_pair(dict, [&](PickleValue key, PickleValue value) {
    const auto name = tree.text(key);
    if (!name || !archive.is_tensor(value)) return true;
    try {
      TorchTensor tensor = archive.tensor(value);
      tensor.name = *name;
      out.tensors.push_back(std::move(tensor));
    } catch (Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) {
        throw error.in_file(archive.source().name()).for_parameter(std::string(*name));
      }
      out.refused.push_back({std::string(*name), error.message()});
    }
    return true;
  });
  return out;
}

DictTensors read_module_file(const TorchArchive& archive) {
  const PickleTree& tree = archive.tree();
  const PickleValue root = tree.root();
  for (const char* key : {"module", "global_steps", "optimizer_state_dict"}) {
    if (root.is(PickleKind::kDict) && tree.find(root, key).is(PickleKind::kUnset)) continue;
    throw Error(ErrorKind::kBadInput, "has no tensors of a layer or an expert, as its name says");
  }
  return named_tensors(archive, root);
}

ZeroModelStates read_zero_model(const TorchArchive& archive) {
  return StatesReader(archive).read_model();
}

ZeroOptimizerStates read_zero_optimizer(const TorchArchive& archive) {
  return StatesReader(archive).read_optimizer();
}

}  // namespace reshardfs
