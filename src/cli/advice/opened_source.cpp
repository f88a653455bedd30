// SPDX-License-Identifier: Apache-2.0
#include "cli/advice/opened_source.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "checkpoint/catalogue.h"
#include "checkpoint/source_links.h"
#include "cli/advice/command_text.h"
#include "cli/describe/near_strategies.h"
#include "cli/words/shared_words.h"
#include "cli/words/source_request.h"
#include "conversion/source_opening.h"

namespace reshardfs {
namespace {

DescribedSource described_source(const std::string& named, const Given& given) {
  DescribedSource source;
  source.named = named;
  source.request = set_request(given, located(named));
  CheckpointOptions options = set_options(source.request);
  options.examine_all = true;
  source.options = listed_once(source.request.path, options);
  source.set = open_set(source.request, source.options);
  source.carried = [](const std::string&) { return std::vector<std::string>(); };
  return source;
}

}  // namespace

std::optional<OpenedSource> OpenedSource::open(const std::string& named, const Given& given) {
  try {
    return OpenedSource(described_source(named, given));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<std::string> OpenedSource::known_layout() const {
  try {
    const auto catalogue = source_.set->catalogue();
    if (catalogue != nullptr && catalogue->states_layouts()) return std::nullopt;
    std::string known = describe_set(source_).src_strategy;
    if (known.empty()) return std::nullopt;
    return known;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool OpenedSource::is_laid_out_by(const std::filesystem::path& strategy) const {
  try {
    SourceRequest with = source_.request;
    with.strategy = std::filesystem::absolute(strategy);
    require_cover(DiffSide::open(with, {}, source_.set));
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool OpenedSource::has_files_of_all_ranks(const std::filesystem::path& strategy) const {
  try {
    std::set<Rank> ranks;
    for (const RankFile& file : source_.set->files()) ranks.insert(file.rank);
    return Strategy::load(strategy).rank_count() <= static_cast<std::int64_t>(ranks.size());
  } catch (const Error&) {
    return false;
  }
}

Given with_known_layout(Given given, std::size_t place, const std::string& option) {
  if (given.has(option)) return given;
  const auto source = OpenedSource::open(given.arguments[place], given);
  const auto layout = source ? source->known_layout() : std::nullopt;
  return layout ? with_option(std::move(given), option, *layout) : given;
}

}  // namespace reshardfs
