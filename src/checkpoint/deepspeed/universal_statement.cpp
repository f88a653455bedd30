// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/universal_statement.h"

#include <algorithm>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/deepspeed/zero_names.h"
#include "checkpoint/deepspeed/zero_states.h"
#include "checkpoint/torch/archive_folder.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// Where the vocabulary is: its rows may have been filled up.
constexpr std::size_t kVocabulary = 0;

std::vector<std::string> model_files(const fs::path& directory, const SourceTreePtr& tree) {
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    const auto name = parse_zero_name(entry.name);
    if (entry.is_regular && name && !name->optimizer) names.push_back(entry.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

UniversalStatement::UniversalStatement(const fs::path& directory, const SourceTreePtr& tree) {
  for (std::string& name : model_files(directory, tree)) {
    models_.push_back({std::move(name), nullptr, {}, 0});
  }
  if (models_.empty()) {
    throw Error(ErrorKind::kMissing,
                "has no file of model states, such as mp_rank_00_model_states.pt, which a "
                "conversion copies last: it was interrupted, or is not copied completely")
        .in_file(directory.string())
        .hint("convert it again with DeepSpeed's ds_to_universal.py, or bring the missing files");
  }
  parallel_for(
      models_.size(),
      [&](std::size_t i) {
        models_[i].file = open_file(directory / models_[i].name, tree);
        models_[i].states = read_archive(*models_[i].file, read_zero_model);
      },
      is_url(directory) ? kRequestsAtOnce : 0);
  std::set<std::int64_t> ranks;  // of tensor parallelism or a pipeline
  for (std::size_t i = 0; i < models_.size(); ++i) {
    ZeroModelStates& states = models_[i].states;
    facts_.push_back({models_[i].name, std::move(states.facts)});
    const auto name = parse_zero_name(models_[i].name);
    ranks.insert(name->model);
    is_stage3_ = is_stage3_ || name->data.has_value();
    for (const auto& group : states.groups) {
      for (const ZeroShape& parameter : group) {
        shapes_[parameter.name].push_back({i, parameter.shape});
      }
    }
  }
  try {
    require_one_zero_save(facts_);
    if (is_stage3_) require_each_rank();
  } catch (Error& error) {
    throw error.in_file(directory.string());
  }
  const ZeroModelStates& first = models_.front().states;
  if (first.is_disordered) {
    throw Error(ErrorKind::kUnsupported,
                "was converted from a run with round_robin_gradients, for which DeepSpeed's script "
                "mixes up the elements of parameters")
        .in_file(directory.string())
        .hint("name the directory of the run: reshardfs reads its files directly");
  }
  steps_ = first.steps;
  are_whole_ = first.tensor_world.value_or(static_cast<std::int64_t>(ranks.size())) == 1;
  has_module_ = ranks.size() == 1;
}

/// Stage 3 cuts what is not trained among them.
void UniversalStatement::require_each_rank() {
  std::sort(models_.begin(), models_.end(), [](const ZeroModelFile& a, const ZeroModelFile& b) {
    return parse_zero_name(a.name)->data < parse_zero_name(b.name)->data;
  });
  const auto world = models_.front().states.data_world;
  if (!world || *world == static_cast<std::int64_t>(models_.size())) return;
  throw Error(ErrorKind::kMissing, "has " + counted(models_.size(), "file") +
                                       " of model states, but '" + printable(models_.front().name) +
                                       "' states dp_world_size " + std::to_string(*world));
}

const Shape* UniversalStatement::shape_of(const std::string& name) const {
  const auto found = shapes_.find(name);
  return found == shapes_.end() ? nullptr : &found->second.front().shape;
}

void UniversalStatement::require_names(const std::vector<std::string>& names) const {
  for (const auto& [name, stated] : shapes_) {
    if (std::binary_search(names.begin(), names.end(), name)) continue;
    throw Error(ErrorKind::kMissing,
                "has no directory, but " + models_[stated.front().file].name + " lists it")
        .for_parameter(name);
  }
}

void UniversalStatement::require_shape(const UniversalTensor& weight) const {
  const auto found = shapes_.find(weight.name);
  if (found == shapes_.end()) return;
  for (const Stated& stated : found->second) {
    bool fits = stated.shape.size() == weight.shape.size();
    for (std::size_t d = 0; fits && d < weight.shape.size(); ++d) {
      if (weight.is_vocabulary && d == kVocabulary) {
        fits = !are_whole_ || weight.shape[d] <= stated.shape[d];
      } else {
        // Of a tensor that ranks share, each states its part.
        fits = are_whole_ ? weight.shape[d] == stated.shape[d] : weight.shape[d] >= stated.shape[d];
      }
    }
    if (fits) continue;
    throw Error(ErrorKind::kBadInput, "has the shape " + to_string(weight.shape) + ", but " +
                                          models_[stated.file].name + " states " +
                                          (are_whole_ ? "" : "a part of ") +
                                          to_string(stated.shape) + " in param_shapes")
        .for_parameter(weight.name)
        .hint("bring all files from one conversion");
  }
}

void UniversalStatement::require_step(std::int64_t step, const std::string& name) const {
  require_steps({{0, step}}, name, steps_);
}

void UniversalStatement::state(Completeness& out) const {
  out.grounds.push_back(
      "the names in " +
      (models_.size() == 1 ? models_.front().name
                           : counted(models_.size(), "file") + " such as " + models_.front().name));
}

std::optional<std::int64_t> read_universal_step(const ByteSource& file) {
  return read_archive(file, [](const TorchArchive& archive) {
    return saved_number(archive, archive.tree().root());
  });
}

}  // namespace reshardfs
