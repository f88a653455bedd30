// SPDX-License-Identifier: Apache-2.0
#include "conversion/shown_model.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/text/url_path.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/whole/stated_words.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

/// Of a run, the configuration of the step that is read: beside its files, or in a directory
/// between them and the source; empty: there is none.
std::filesystem::path config_beside_files(const CheckpointSet& set, const SourceTreePtr& tree) {
  std::filesystem::path directory = set.files().front().path.parent_path();
  for (; directory != set.root() && is_inside_by_name(directory, set.root());
       directory = directory.parent_path()) {
    const std::filesystem::path config = config_of(directory, {});
    try {
      if (path_kind(config, tree) == PathKind::kOther) return config;
    } catch (const Error&) {
      if (!is_url(config)) throw;
      return {};  // a server need not tell
    }
  }
  return {};
}

}  // namespace

ShownModel shown_model(const ModelMaps& maps, const ModelMaps::Result& shown,
                       const CheckpointSet& set, const SourceTreePtr& tree) {
  ShownModel model;
  model.side = shown.side;
  model.settings = shown.settings;
  model.config_file = maps.config_file();
  model.has_directory = maps.has_model_directory();
  if (model.config_file.empty()) {
    model.config_file = config_beside_files(set, tree);
    model.has_directory = !model.config_file.empty();
  }
  model.words = std::make_shared<const StatedWords>(read_stated_words(set, tree));
  auto states = std::make_shared<std::set<std::string>>();
  if (!shown.mappings.empty()) {
    for (const modelmap::TargetTensor& target : shown.mappings.back().targets) {
      if (target.state_prefix > 0) states->insert(target.name);
    }
  }
  model.states = std::move(states);
  return model;
}

}  // namespace reshardfs
