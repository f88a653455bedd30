// SPDX-License-Identifier: Apache-2.0
#include "cli/shown_words.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"
#include "reshardfs/tensor.h"

#include "base/text/name_groups.h"
#include "base/text/text.h"
#include "conversion/auto_map.h"
#include "view/view.h"

namespace reshardfs {
namespace {

/// The names directly below the mount point that are listed.
std::vector<std::string> top_names(const Conversion& conversion) {
  std::set<std::string> names;
  for (const OutputFile& output : ConversionAccess::listed(conversion)) {
    if (!output.hidden) names.insert(output.path.substr(0, output.path.find('/')));
  }
  for (const DeferredView& view : ConversionAccess::deferred(conversion)) {
    names.insert(view.directory.substr(0, view.directory.find('/')));
  }
  return {names.begin(), names.end()};
}

}  // namespace

std::string contents_words(const Conversion& conversion, const ConversionOptions& options) {
  const std::string ranks = counted(static_cast<std::size_t>(conversion.rank_count()), "rank");
  const std::set<Rank> shown(options.ranks.begin(), options.ranks.end());
  const std::string cast = cast_words(conversion, options);
  return fmt::format("{}; {}{}, {}{}{}", fmt::join(group_names(top_names(conversion)), ", "),
                     shown.empty() ? "" : std::to_string(shown.size()) + " of ", ranks,
                     counted(conversion.parameter_count(), "parameter"), cast.empty() ? "" : "; ",
                     cast);
}

std::string cast_words(const Conversion& conversion, const ConversionOptions& options) {
  if (options.casts.empty()) return {};
  return fmt::format("--cast converts {} of {}", conversion.cast_count(),
                     counted(conversion.parameter_count(), "parameter"));
}

std::string way_to_hugging_face(const Conversion& conversion, const ConversionOptions& options) {
  if (!options.views.empty() || !options.source.maps.maps.empty()) return {};
  const std::vector<std::string> shown = top_names(conversion);
  if (std::binary_search(shown.begin(), shown.end(), "hf")) return {};
  std::vector<std::string> names;
  try {
    const TensorSet whole = conversion.whole_tensors();
    for (std::size_t i = 0; i < whole.size(); ++i) names.push_back(whole.info(i).name);
  } catch (const Error&) {
    return {};  // the model cannot be shown as a whole
  }
  const std::string maps = hugging_face_maps(names, options.source.state_prefixes);
  if (maps.empty()) return {};
  return "hf/, for transformers and vLLM, needs " + maps + kAndModelConfig;
}

}  // namespace reshardfs
