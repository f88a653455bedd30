// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/conversion.h"

#include <algorithm>
#include <functional>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "base/rank_list.h"
#include "checkpoint/checkpoint_set.h"
#include "format/encrypted.h"
#include "plan/target_table.h"
#include "plan/traffic.h"
#include "plan/traffic_survey.h"
#include "view/completeness.h"
#include "view/parameter_picture.h"
#include "view/report_page.h"
#include "view/strategy_input.h"
#include "view/traffic_picture.h"
#include "view/view.h"

namespace reshardfs {
namespace {

void require_plain_prefix(const std::string& prefix) {
  const bool hostile = std::any_of(prefix.begin(), prefix.end(), [](char c) {
    return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  // 255 bytes for a name, less ".ckpt" and the rank or "merged".
  if (hostile || prefix.size() > 230) {
    throw Error(ErrorKind::kUsage, "the prefix '" + printable(prefix) + "' is no file name")
        .hint("use at most 230 bytes without '/' and control characters");
  }
}

std::vector<std::int64_t> ranks_to_show(const std::vector<std::int64_t>& chosen,
                                        std::int64_t count) {
  std::vector<std::int64_t> ranks = chosen;
  if (ranks.empty()) {
    for (std::int64_t rank = 0; rank < count; ++rank) ranks.push_back(rank);
    return ranks;
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.front() < 0 || ranks.back() >= count) {
    throw Error(ErrorKind::kUsage, "there is no destination rank " +
                                       format_rank_list({ranks.back()}) + ": the target has " +
                                       std::to_string(count) + " (0 to " +
                                       std::to_string(count - 1) + ")");
  }
  return ranks;
}

/// The whole model, or nothing and a warning: what has no whole form (a parameter that the target
/// leaves out may differ between the ranks) must not keep the rank files from being shown. And a
/// node may hold only the source ranks that its own destination ranks need.
/// @param target taken if it is whole itself.
std::shared_ptr<const TargetTable> whole_table(const std::shared_ptr<const TargetTable>& target,
                                               const std::shared_ptr<const SourceTable>& source,
                                               const TargetOptions& options,
                                               std::vector<std::string>& warnings) {
  try {
    auto whole = target->strategy()
                     ? std::make_shared<const TargetTable>(source, std::nullopt, options)
                     : target;
    require_complete(*whole, {0});
    return whole;
  } catch (const Error& error) {
    warnings.push_back(std::string("no merged file: ") + error.what());
    return nullptr;
  }
}

/// @throws Error kUsage for what the command line cannot have checked.
void check_output_options(const ConversionOptions& options) {
  const bool power_of_two = (options.align & (options.align - 1)) == 0;
  if (!power_of_two || options.align < 8 || options.align > 4096) {
    throw Error(ErrorKind::kUsage, "an alignment of " + std::to_string(options.align) + " bytes")
        .hint("use 8, 16, 32, ... 4096");
  }
  if (options.safetensors_metadata != "ms" && options.safetensors_metadata != "pt") {
    throw Error(ErrorKind::kUsage, "the metadata format '" +
                                       printable(options.safetensors_metadata) +
                                       "' is neither ms nor pt");
  }
  if (options.shard_bytes == 0) throw Error(ErrorKind::kUsage, "a shard size of 0 bytes");
}

CheckpointOptions checkpoint_options(const ConversionOptions& options) {
  CheckpointOptions checkpoint{options.src_pattern, options.step, options.check_crc, nullptr};
  checkpoint.no_symlinks = options.no_symlinks;
  checkpoint.decryption = Decryption::load_if_named(options.dec_key_file, options.dec_mode);
  return checkpoint;
}

std::vector<OutputFormat> formats_of(const ConversionOptions& options,
                                     const CheckpointSet& checkpoint) {
  if (!options.formats.empty()) return options.formats;
  const bool safetensors = checkpoint.format().name == "safetensors";
  return {safetensors ? OutputFormat::kSafetensors : OutputFormat::kCkpt};
}

bool is_wanted(const View& view, const ConversionOptions& options) {
  const auto& wanted = options.views;
  return !view.kind || wanted.empty() ||
         std::find(wanted.begin(), wanted.end(), *view.kind) != wanted.end();
}

/// Where a layout of the source does not fit, the message has the destination's too: whoever mixed
/// up two strategies sees it there.
std::shared_ptr<const SourceTable> source_table(
    const ConversionOptions& options, const std::shared_ptr<const CheckpointSet>& checkpoint,
    StrategyInput& input, const std::function<std::string(const std::string&)>& target_words) {
  try {
    return std::make_shared<const SourceTable>(checkpoint, input.for_source(*checkpoint),
                                               options.src_join);
  } catch (Error& error) {
    if (options.src_strategy && error.kind() == ErrorKind::kBadInput &&
        !error.parameter().empty()) {
      error.explain("; destination: " + target_words(error.parameter()));
    }
    throw;
  }
}

bool shows_the_whole(const ConversionOptions& options) {
  const auto& wanted = options.views;
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [](ViewKind kind) {
           return kind != ViewKind::kRanks && kind != ViewKind::kStrategy;
         });
}

/// Several views may have the same to say.
void drop_repeated(std::vector<std::string>& lines) {
  std::vector<std::string> once;
  for (std::string& line : lines) {
    if (std::find(once.begin(), once.end(), line) == once.end()) once.push_back(std::move(line));
  }
  lines = std::move(once);
}

}  // namespace

struct Conversion::State {
  std::shared_ptr<const CheckpointSet> checkpoint;
  std::shared_ptr<const TargetTable> target;
  std::vector<std::int64_t> ranks;  ///< those that are shown
  ReportSubject report;
  std::vector<OutputFile> files;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

Conversion::Conversion(std::unique_ptr<State> state) : state_(std::move(state)) {}
Conversion::Conversion(Conversion&&) noexcept = default;
Conversion& Conversion::operator=(Conversion&&) noexcept = default;
Conversion::~Conversion() = default;

Conversion Conversion::open(const ConversionOptions& options) {
  require_plain_prefix(options.prefix);
  check_output_options(options);
  auto state = std::make_unique<State>();
  // Strategy files first: they are small, and a wrong one is the most likely mistake.
  StrategyInput source_input(options.src_strategy);
  StrategyInput target_input(options.dst_strategy, options.dst_sizes);
  const NameMap name_map = options.name_map.empty() ? NameMap() : NameMap::load(options.name_map);
  state->checkpoint = std::make_shared<const CheckpointSet>(
      CheckpointSet::open(options.source, checkpoint_options(options)));
  state->notes = state->checkpoint->notes();

  const auto source = source_table(options, state->checkpoint, source_input, [&](const auto& name) {
    return target_input.words_for(name_map.target(name));
  });
  const TargetOptions target_options{options.unmatched,
                                     {options.include, options.exclude},
                                     name_map,
                                     options.state_prefixes,
                                     Casts(options.casts),
                                     source_input.is_rules()};
  std::optional<Strategy> target_strategy = target_input.for_target(*source, name_map);
  state->target =
      std::make_shared<const TargetTable>(source, std::move(target_strategy), target_options);
  state->warnings = state->target->warnings();
  state->notes.insert(state->notes.end(), state->target->notes().begin(),
                      state->target->notes().end());

  state->ranks = ranks_to_show(options.ranks, state->target->rank_count());
  const auto whole = shows_the_whole(options)
                         ? whole_table(state->target, source, target_options, state->warnings)
                         : nullptr;
  const std::vector<OutputFormat> formats = formats_of(options, *state->checkpoint);
  const ViewContext context{options, formats,         state->ranks, state->target,
                            whole,   state->warnings, state->notes};
  for (const View& view : view_registry()) {
    if (!is_wanted(view, options)) continue;
    drop_repeated(state->warnings);
    for (OutputFile& file : view.build(context)) state->files.push_back(std::move(file));
  }
  state->report = report_subject(context);
  return Conversion(std::move(state));
}

std::int64_t Conversion::rank_count() const {
  return state_->target->rank_count();
}

const std::vector<OutputFile>& Conversion::files() const {
  return state_->files;
}

std::vector<SourceTraffic> Conversion::traffic(std::int64_t rank) const {
  if (rank < 0 || rank >= rank_count()) {
    throw Error(ErrorKind::kUsage, "there is no destination rank " + std::to_string(rank) +
                                       ": the target has " + std::to_string(rank_count()));
  }
  return traffic_of(*state_->target, rank);
}

void Conversion::draw_traffic(const TextSink& out) const {
  BoundedWriter writer(out);
  reshardfs::draw_traffic(survey_traffic(*state_->target, state_->ranks, kMostDrawnRanks),
                          Placement::kDocument, writer);
  writer.flush();
}

void Conversion::draw_parameter(const std::string& name, const TextSink& out) const {
  const auto& parameters = state_->target->parameters();
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const auto& parameter) { return parameter.name == name; });
  if (found == parameters.end()) {
    throw Error(ErrorKind::kMissing, "the destination has no parameter of this name")
        .for_parameter(name)
        .hint("'reshardfs inspect' lists the names in the source");
  }
  BoundedWriter writer(out);
  reshardfs::draw_parameter(*state_->target, *found, state_->ranks, Placement::kDocument, writer);
  writer.flush();
}

void Conversion::write_report(const TextSink& out) const {
  reshardfs::write_report(state_->report, std::nullopt, out);
}

std::vector<ConversionSource> Conversion::source_files() const {
  std::vector<ConversionSource> files;
  for (const RankFile& file : state_->checkpoint->files()) {
    files.push_back({file.path, file.source->size(), file.source->mtime_ns()});
  }
  return files;
}

std::int64_t Conversion::mtime_ns() const {
  return state_->checkpoint->mtime_ns();
}
const std::string& Conversion::step() const {
  return state_->checkpoint->step();
}
const std::vector<std::string>& Conversion::warnings() const {
  return state_->warnings;
}
const std::vector<std::string>& Conversion::rules() const {
  return state_->target->notes();
}
const std::vector<std::string>& Conversion::notes() const {
  return state_->notes;
}

}  // namespace reshardfs
