// SPDX-License-Identifier: Apache-2.0
#include "cli/advice/opened_source.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/checkpoint.h"
#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "checkpoint/catalogue.h"
#include "checkpoint/source_links.h"
#include "cli/advice/command_text.h"
#include "cli/describe/near_strategies.h"
#include "cli/options/table.h"
#include "cli/words/shared_words.h"
#include "conversion/contents.h"

namespace reshardfs {
namespace {

DescribedSource described_source(const std::string& named, const Given& given) {
  CheckpointQuery query;
  query.src_pattern = option_text(given, "src-pattern");
  query.src_prefix = option_text(given, "src-prefix");
  query.state_key = option_text(given, "state-key");
  query.dequantize =
      find_option(given.command(), "dequantize") != nullptr && given.flag("dequantize");
  if (const std::string step = option_text(given, "step"); !step.empty()) query.step = step;
  query.dec_key_file = option_text(given, "dec-key-file");
  if (const std::string mode = option_text(given, "dec-mode"); !mode.empty()) query.dec_mode = mode;
  query.no_symlinks =
      find_option(given.command(), "no-symlinks") != nullptr && given.flag("no-symlinks");
  DescribedSource source;
  source.named = named;
  source.diff.path = located(named);
  source.diff.pattern = query.src_pattern;
  source.diff.prefix = query.src_prefix;
  source.diff.state_key = query.state_key;
  source.diff.dequantize = query.dequantize;
  source.diff.step = query.step;
  source.diff.dec_key_file = query.dec_key_file;
  source.diff.dec_mode = query.dec_mode;
  source.diff.no_symlinks = query.no_symlinks;
  source.options = listed_once(source.diff.path, options_of(query));
  source.set =
      std::make_shared<const CheckpointSet>(CheckpointSet::open(source.diff.path, source.options));
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
    DiffSource with = source_.diff;
    with.strategy = std::filesystem::absolute(strategy);
    require_cover(DiffSide::open(with, source_.set));
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
