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

UniversalStatement::UniversalStatement(const fs::path& directory, const SourceTreePtr& tree)
    : files_(model_files(directory, tree)) {
  if (files_.empty()) {
    throw Error(ErrorKind::kMissing,
                "has no file of model states, such as mp_rank_00_model_states.pt, which a "
                "conversion copies last: it was interrupted, or is not copied completely")
        .in_file(directory.string())
        .hint("convert it again with DeepSpeed's ds_to_universal.py, or bring the missing files");
  }
  std::vector<ZeroModelStates> models(files_.size());
  sources_.resize(files_.size());
  parallel_for(
      files_.size(),
      [&](std::size_t i) {
        sources_[i] = open_file(directory / files_[i], tree);
        models[i] = read_archive(*sources_[i], read_zero_model);
      },
      is_url(directory) ? kRequestsAtOnce : 0);
  std::vector<ZeroFile> facts;
  std::set<std::int64_t> ranks;  // of tensor parallelism or a pipeline
  for (std::size_t i = 0; i < files_.size(); ++i) {
    facts.push_back({files_[i], std::move(models[i].facts)});
    ranks.insert(parse_zero_name(files_[i])->model);
    for (const auto& group : models[i].groups) {
      for (const ZeroShape& parameter : group) {
        shapes_[parameter.name].push_back({i, parameter.shape});
      }
    }
  }
  try {
    require_one_zero_save(facts);
  } catch (Error& error) {
    throw error.in_file(directory.string());
  }
  steps_ = models.front().steps;
  are_whole_ = models.front().tensor_world.value_or(static_cast<std::int64_t>(ranks.size())) == 1;
}

void UniversalStatement::require_names(const std::vector<std::string>& names) const {
  for (const auto& [name, stated] : shapes_) {
    if (std::binary_search(names.begin(), names.end(), name)) continue;
    throw Error(ErrorKind::kMissing,
                "has no directory of it, but " + files_[stated.front().file] + " lists it")
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
                                          files_[stated.file] + " states " +
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
  out.grounds.push_back("the names in " + (files_.size() == 1 ? files_.front()
                                                              : counted(files_.size(), "file") +
                                                                    " such as " + files_.front()));
}

std::optional<std::int64_t> read_universal_step(const ByteSource& file) {
  return read_archive(file, [](const TorchArchive& archive) {
    return saved_number(archive, archive.tree().root());
  });
}

}  // namespace reshardfs
