// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/conversion.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "base/near_name.h"
#include "base/rank_list.h"
#include "base/state_names.h"
#include "base/text.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/completeness.h"
#include "checkpoint/source_links.h"
#include "format/encrypted.h"
#include "format/index_sum.h"
#include "plan/node_fetches.h"
#include "plan/settle_replicas.h"
#include "plan/target_table.h"
#include "plan/traffic.h"
#include "plan/traffic_survey.h"
#include "report/option_words.h"
#include "report/page.h"
#include "report/parameter_picture.h"
#include "report/traffic_picture.h"
#include "view/completeness.h"
#include "view/derived_fit.h"
#include "view/map_copies.h"
#include "view/model_maps.h"
#include "view/source_input.h"
#include "view/status_json.h"
#include "view/strategy_input.h"
#include "view/tensor_set.h"
#include "view/unmatched_selectors.h"
#include "view/view.h"
#include "view/wanted_views.h"

namespace reshardfs {
namespace {

void require_plain_prefix(const std::string& prefix) {
  const bool hostile = std::any_of(prefix.begin(), prefix.end(), [](char c) {
    return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  // 255 bytes for a name, less ".ckpt" and the rank or "merged".
  if (hostile || prefix.size() > 230) {
    throw Error(ErrorKind::kUsage,
                "the prefix '" + printable(prefix) + "' is not a valid file name")
        .hint("use at most 230 bytes without '/' and control characters");
  }
}

std::vector<Rank> ranks_to_show(std::vector<Rank> ranks, std::int64_t count) {
  const RankRange all(Rank(), count);
  if (ranks.empty()) return {all.begin(), all.end()};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (!all.contains(ranks.back())) {
    throw Error(ErrorKind::kUsage, "there is no target rank " + format_rank_list({ranks.back()}) +
                                       ": the target has " + std::to_string(count) + " (0 to " +
                                       std::to_string(count - 1) + ")");
  }
  return ranks;
}

void require_rank(Rank rank, std::int64_t count) {
  if (RankRange(Rank(), count).contains(rank)) return;
  throw Error(ErrorKind::kUsage, "there is no target rank " + to_string(rank) +
                                     ": the target has " + std::to_string(count));
}

/// The whole model.
/// @param target taken if it is whole itself.
/// @throws Error if it has no whole form (a parameter that the target leaves out may differ between
///         the ranks), or a part of it is in no file (a node may hold only the source ranks that
///         its own destination ranks need).
std::shared_ptr<TargetTable> whole_table(const std::shared_ptr<TargetTable>& target,
                                         const std::shared_ptr<const SourceTable>& source,
                                         const TargetOptions& options) {
  if (options.replicas == Replicas::kOwn) {
    throw Error(ErrorKind::kUsage, "with --replicas own every rank has its own values");
  }
  auto whole =
      target->strategy() ? std::make_shared<TargetTable>(source, std::nullopt, options) : target;
  require_complete(*whole, {kWholeRank});
  return whole;
}

/// @throws Error kUsage where destination ranks have no source rank of their own.
void require_own_ranks(const ConversionOptions& options, const TargetTable& target) {
  const auto& views = options.views;
  const auto whole = std::find_if(views.begin(), views.end(), has_one_value);
  if (whole != views.end()) {
    throw Error(ErrorKind::kUsage, std::string("--views ") + word_of(kViewWords, *whole) +
                                       " has each parameter once, but with --replicas own every "
                                       "rank has its own values")
        .hint("take --views ranks, or --replicas first");
  }
  const SourceTable& source = target.source();
  const std::int64_t ranks = source.states_layouts()
                                 ? source.ranks().all().size()
                                 : source.checkpoint().files().back().rank.number() + 1;
  if (ranks == target.rank_count()) return;
  throw Error(ErrorKind::kUsage, "--replicas own needs as many target ranks as the source has, " +
                                     std::to_string(ranks) + ", but the target has " +
                                     std::to_string(target.rank_count()))
      .hint("--replicas first gives all of them the lowest rank's values");
}

/// @throws Error kMissing if a shown rank's own source rank has no file.
void require_own_files(const TargetTable& target, const std::vector<Rank>& ranks) {
  for (const Rank rank : ranks) {
    const Rank own = target.own_source_rank(rank);
    const CheckpointSet& checkpoint = target.source().checkpoint();
    if (checkpoint.find(own) != nullptr) continue;
    throw Error(ErrorKind::kMissing,
                "source rank " + to_string(own) +
                    " is missing, and with --replicas own no other has what target rank " +
                    to_string(rank) + " is to get")
        .in_file(checkpoint.root().string())
        .hint("bring its file, or leave the rank out with --ranks");
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
  if (options.dcp_shards < 0 || options.dcp_shards > kMostDcpShards) {
    throw Error(ErrorKind::kUsage, std::to_string(options.dcp_shards) + " shards of dcp")
        .hint("use 1 to " + std::to_string(kMostDcpShards));
  }
  if (options.shard_bytes == 0) throw Error(ErrorKind::kUsage, "a shard size of 0 bytes");
}

CheckpointOptions checkpoint_options(const ConversionOptions& options,
                                     const SourceTreePtr& listed) {
  CheckpointOptions checkpoint{options.src_pattern, options.step, options.check_crc, nullptr};
  checkpoint.no_symlinks = options.no_symlinks;
  checkpoint.prefix = options.src_prefix;
  checkpoint.listed = listed;
  checkpoint.decryption = Decryption::load_if_named(options.dec_key_file, options.dec_mode);
  return checkpoint;
}

std::vector<OutputFormat> formats_of(const ConversionOptions& options,
                                     const CheckpointSet& checkpoint) {
  if (!options.formats.empty()) return options.formats;
  const bool ckpt = checkpoint.format().name == "ckpt";
  return {ckpt ? OutputFormat::kCkpt : OutputFormat::kSafetensors};
}

NameFilter filter_of(const ConversionOptions& options) {
  return {options.include, options.exclude, options.weights_only, options.state_prefixes};
}

/// Where a layout of the source does not fit, the message has the destination's too: whoever mixed
/// up two strategies sees it there.
SourceTableResult open_source(const ConversionOptions& options,
                              const std::shared_ptr<const CheckpointSet>& checkpoint,
                              StrategyInput& input, const NameMap& names,
                              const StrategyInput& target) {
  const NameFilter filter = filter_of(options);
  // Through a map other tensors may need what has the name that is not wanted.
  const NameTaker all;
  const NameTaker wanted = [&](const std::string& name) { return takes(filter, names, name); };
  const NameTaker& taken = options.maps.maps.empty() ? wanted : all;
  try {
    return source_table(checkpoint, input, {options.src_join, taken, options.state_prefixes});
  } catch (Error& error) {
    // What is about the strategy's own file has no layout to compare with.
    const bool is_of_layout = error.kind() == ErrorKind::kBadInput && !error.parameter().empty() &&
                              error.file() != options.src_strategy.value_or("").string();
    if (options.src_strategy && is_of_layout) {
      error.explain("; target: " + target.words_for(names.target(error.parameter())));
    }
    throw;
  }
}

ShownModel shown_model(const ModelMaps& maps, const ModelMaps::Result& shown) {
  ShownModel model;
  model.side = shown.side;
  model.config_file = maps.config_file();
  model.has_directory = maps.has_model_directory();
  auto states = std::make_shared<std::set<std::string>>();
  if (!shown.mappings.empty()) {
    for (const modelmap::TargetTensor& target : shown.mappings.back().targets) {
      if (target.state_prefix > 0) states->insert(target.name);
    }
  }
  model.states = std::move(states);
  return model;
}

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

bool selects_by_name(const ConversionOptions& options) {
  return !options.src_join.empty() || !options.include.empty() || !options.exclude.empty() ||
         !options.state_prefixes.empty() || !options.name_map.empty();
}

/// @param names of what could be shown, in the source.
void add_unmatched_filters(const ConversionOptions& options, const std::vector<std::string>& names,
                           const NameMap& name_map, UnmatchedOptions& unmatched) {
  const std::vector<std::string> targets = renamed(names, name_map);
  std::vector<std::string> both = names;
  append(both, targets);
  unmatched.add_globs("--include", options.include, targets);
  unmatched.add_globs("--exclude", options.exclude, targets);
  unmatched.add_prefixes("--state-prefix", options.state_prefixes, both);
  add_unmatched_names(name_map, options.name_map, names, unmatched);
}

/// What maps show; what they may have left out as states of training; and what options leave out
/// with an effect, though nothing shows it: tensors that cannot be made, and second names.
std::vector<std::string> names_through_map(const ModelMaps::Result& shown,
                                           const std::vector<std::string>& names) {
  std::vector<std::string> all = names_in(*shown.table);
  append(all, shown.mappings.back().excused);
  for (const modelmap::SourceAlias& alias : shown.mappings.back().aliases) {
    all.push_back(shown.sources.back()->parameters()[alias.tensor].name);
  }
  std::copy_if(names.begin(), names.end(), std::back_inserter(all),
               [](const std::string& name) { return is_training_state(name); });
  return all;
}

std::shared_ptr<TargetTable> open_target(const ConversionOptions& options,
                                         const std::shared_ptr<const SourceTable>& source,
                                         std::optional<Strategy> strategy,
                                         const TargetOptions& target_options) {
  try {
    return std::make_shared<TargetTable>(source, std::move(strategy), target_options);
  } catch (const Error& error) {
    if (options.dst_sizes.empty() || error.kind() != ErrorKind::kBadInput) throw;
    throw misfit_of_sizes(error, options.dst_sizes, *source, target_options.name_map,
                          target_options.names);
  }
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

// NOLINTNEXTLINE(bugprone-exception-escape): as of ReportSubject
struct Conversion::State {
  std::shared_ptr<const CheckpointSet> checkpoint;
  std::shared_ptr<const TargetTable> target;
  std::shared_ptr<const TargetTable> whole;
  std::string no_whole;     ///< why there is none
  std::vector<Rank> ranks;  ///< those that are shown
  ReportSubject report;
  std::vector<OutputFile> files;
  std::vector<std::string> warnings;
  std::vector<std::string> unmatched;
  std::vector<AbsentFiles> absent;
  std::vector<std::string> notes;

  /// @throws Error kUsage, unless they are allowed.
  void settle(const UnmatchedOptions& found, bool allowed) {
    found.settle(allowed, warnings);
    append(unmatched, found.lines());
  }
  /// @throws Error the same, if the user has named what needs it.
  void leave_out_whole(const Error& error, const ConversionOptions& options);
  void add_views(const ViewContext& context);
};

void Conversion::State::leave_out_whole(const Error& error, const ConversionOptions& options) {
  if (names_whole(options)) throw error;
  no_whole = std::string("no merged file: ") + error.what();
  warnings.push_back(no_whole);
  for (const char* path : {"merged/", "hf/", "unified/"}) absent.push_back({path, error.what()});
}

/// A view that was asked for by its name is there, and some view in any case.
void Conversion::State::add_views(const ViewContext& context) {
  const ConversionOptions& options = context.options;
  std::set<ViewKind> shown;
  for (const View& view : view_registry()) {
    if (view.kind && !is_wanted(*view.kind, options)) continue;
    drop_repeated(warnings);
    std::vector<OutputFile> made = view.build(context);
    if (view.kind && !made.empty()) shown.insert(*view.kind);
    std::move(made.begin(), made.end(), std::back_inserter(files));
  }
  const auto require = [&](bool is_shown, const std::string& what) {
    if (is_shown) return;
    const std::string why =
        absent.empty() ? "nothing of the checkpoint is left for it" : absent.front().why;
    throw Error(ErrorKind::kMissing, what + ": " + why);
  };
  for (const ViewKind kind : options.views) {
    if (kind == ViewKind::kMerged) {
      require(shown.contains(ViewKind::kMergedCkpt) ||
                  shown.contains(ViewKind::kMergedSafetensors) || shown.contains(ViewKind::kHub),
              "there is no file for --views merged");
    } else {
      require(shown.contains(kind), "there is no file for --views " + word_of(kViewWords, kind));
    }
  }
  shown.erase(ViewKind::kStrategy);
  require(!shown.empty() || !options.views.empty(), "no view can be shown");
}

Conversion::Conversion(std::unique_ptr<State> state) : state_(std::move(state)) {}
Conversion::Conversion(Conversion&&) noexcept = default;
Conversion& Conversion::operator=(Conversion&&) noexcept = default;
Conversion::~Conversion() = default;

Conversion Conversion::open(const ConversionOptions& options) {
  require_plain_prefix(options.prefix);
  check_output_options(options);
  auto state = std::make_unique<State>();
  // Strategy files first: they are small, and a wrong one is the most likely mistake.
  const std::filesystem::path linkless_root = options.no_symlinks ? options.source : "";
  StrategyInput source_input(options.src_strategy, {}, linkless_root);
  StrategyInput target_input(options.dst_strategy, options.dst_sizes, linkless_root);
  const NameMap name_map = options.name_map.empty() ? NameMap() : NameMap::load(options.name_map);
  const SourceTreePtr listed = listed_once(options.source, {}).listed;
  const ModelMaps maps(options.maps, options.source, linkless_root, listed);
  maps.require_shared_values(options.replicas);
  state->checkpoint = std::make_shared<const CheckpointSet>(
      CheckpointSet::open(options.source, checkpoint_options(options, listed)));
  state->notes = state->checkpoint->notes();
  state->warnings = state->checkpoint->warnings();
  source_input.allow_unmatched(options.allow_unmatched);
  target_input.allow_unmatched(options.allow_unmatched);
  // Before anything that a misspelt option makes go wrong.
  const std::vector<std::string> names =
      selects_by_name(options) ? names_in(*state->checkpoint) : std::vector<std::string>();
  const auto ranks = source_input.source_ranks();
  const bool allowed =
      options.allow_unmatched || (ranks && lacks_a_stage(*state->checkpoint, *ranks));
  UnmatchedOptions unmatched;
  unmatched.add_globs("--src-join", options.src_join, names);
  if (maps.empty()) add_unmatched_filters(options, names, name_map, unmatched);
  state->settle(unmatched, allowed);

  SourceTableResult opened =
      open_source(options, state->checkpoint, source_input, name_map, target_input);
  MappedSourceOptions mapped{true, source_input.is_rules(), options.state_prefixes, {}, {}};
  const NameFilter filter = filter_of(options);
  if (!options.include.empty() || !options.exclude.empty()) {
    mapped.wants = [&](const std::string& name) { return takes(filter, name_map, name); };
  }
  if (options.weights_only) {
    mapped.leaves_out = [&](const std::string& name) {
      return is_training_state(name, options.state_prefixes);
    };
  }
  const ModelMaps::Result shown =
      maps.apply(std::move(opened.table), {&target_input, &name_map}, mapped);
  if (options.check_replicas) {
    append(state->warnings, check_map_copies(maps, shown, mapped, options.replicas));
  }
  const std::shared_ptr<const SourceTable> source = shown.table;
  if (!maps.empty() && selects_by_name(options)) {
    UnmatchedOptions of_shown;
    add_unmatched_filters(options, names_through_map(shown, names), name_map, of_shown);
    state->settle(of_shown, allowed);
  }
  const TargetOptions target_options{options.unmatched,
                                     filter_of(options),
                                     name_map,
                                     options.state_prefixes,
                                     Casts(options.casts),
                                     source_input.is_rules() && maps.empty(),
                                     !target_input.is_rules() && !target_input.is_sizes(),
                                     options.replicas};
  std::optional<Strategy> target_strategy = target_input.for_target(*source, name_map);
  const auto target = open_target(options, source, std::move(target_strategy), target_options);
  state->target = target;
  append(opened.unmatched, target_input.take_warnings());
  append(state->unmatched, opened.unmatched);
  append(state->warnings, opened.unmatched);
  append(state->warnings,
         warnings_of(state->checkpoint->completeness(), [&](const std::string& name) {
           return !maps.empty() || takes(filter, name_map, name);
         }));
  append(state->warnings, opened.warnings);
  append(state->warnings, target->warnings());
  append(state->warnings, source->catalogue().warnings());
  append(state->notes, opened.notes);
  append(state->notes, maps.notes());
  append(state->notes, shown.notes);
  append(state->notes, target->notes());

  if (options.replicas == Replicas::kOwn) require_own_ranks(options, *target);
  state->ranks = ranks_to_show(options.ranks, target->rank_count());
  if (options.replicas == Replicas::kOwn) require_own_files(*target, state->ranks);
  const std::vector<OutputFormat> formats = formats_of(options, *state->checkpoint);
  if (!options.allow_idle_view_options) {
    UnmatchedOptions of_views;
    add_idle_view_options(options, formats, of_views);
    state->settle(of_views, options.allow_unmatched);
  }
  std::shared_ptr<TargetTable> whole;
  if (wants_whole(options)) {
    try {
      whole = whole_table(target, source, target_options);
    } catch (const Error& error) {
      state->leave_out_whole(error, options);
    }
  } else {
    state->no_whole = "the whole model is not among --views";
  }
  state->whole = whole;
  if (!options.casts.empty()) {
    UnmatchedOptions casts;
    add_unmatched_casts(options.casts, {target.get(), whole.get()},
                        renamed(names_in(*source), name_map), casts);
    state->settle(casts, allowed);
  }
  if (options.check_replicas) {
    const SettledReplicas settled =
        settle_replicas({*target, whole.get(), state->ranks}, options.replicas);
    append(state->warnings, settled.warnings);
    append(state->notes, settled.notes);
  }
  const ShownModel model = shown_model(maps, shown);
  const ViewContext context{options,      formats,         state->ranks, state->target,
                            whole,        state->warnings, state->notes, model,
                            state->files, state->absent};
  state->add_views(context);
  state->report = report_subject(context);
  return Conversion(std::move(state));
}

std::int64_t Conversion::rank_count() const {
  return state_->target->rank_count();
}

std::size_t Conversion::parameter_count() const {
  return state_->target->parameters().size();
}

const std::vector<OutputFile>& Conversion::files() const {
  return state_->files;
}

TensorSet Conversion::tensors(Rank rank) const {
  require_rank(rank, rank_count());
  if (!std::binary_search(state_->ranks.begin(), state_->ranks.end(), rank)) {
    throw Error(ErrorKind::kUsage, "target rank " + to_string(rank) + " is not among --ranks");
  }
  require_complete(*state_->target, {rank});
  return TensorSet(std::make_shared<const TensorSet::State>(state_->target, rank));
}

TensorSet Conversion::whole_tensors() const {
  if (state_->whole == nullptr) throw Error(ErrorKind::kUsage, state_->no_whole);
  return TensorSet(std::make_shared<const TensorSet::State>(state_->whole, kWholeRank));
}

std::vector<SourceTraffic> Conversion::traffic(Rank rank) const {
  require_rank(rank, rank_count());
  return traffic_of(*state_->target, rank);
}

std::vector<NodeFetches> Conversion::node_fetches(std::int64_t nodes) const {
  const std::size_t ranks = state_->ranks.size();
  if (nodes < 1 || static_cast<std::uint64_t>(nodes) > ranks) {
    throw Error(ErrorKind::kUsage, counted(ranks, "target rank") + " cannot be spread over " +
                                       std::to_string(nodes) + " nodes")
        .hint("each node needs at least one rank");
  }
  return reshardfs::node_fetches(*state_->target,
                                 ranks_of_nodes(state_->ranks, static_cast<std::size_t>(nodes)));
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
    std::vector<std::string> names;
    for (const TargetParameter& parameter : parameters) names.push_back(parameter.name);
    throw Error(ErrorKind::kMissing, "the target has no parameter of this name")
        .for_parameter(name)
        .hint(did_you_mean(name, names))
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
  std::unordered_map<const FileIndex*, std::uint64_t> sums;  // files that are alike share one
  for (const RankFile& file : state_->checkpoint->files()) {
    const FileStamp stamp = file.source->stamp();
    const auto [sum, is_new] = sums.try_emplace(file.index.get(), 0);
    if (is_new) sum->second = index_sum(*file.index);
    files.push_back({file.path, file.source->size(), file.source->mtime_ns(), stamp.ctime_ns,
                     stamp.device, stamp.inode, sum->second});
  }
  return files;
}

std::int64_t Conversion::mtime_ns() const {
  return state_->checkpoint->mtime_ns();
}
const std::string& Conversion::step() const {
  return state_->checkpoint->step();
}
const std::string& Conversion::series() const {
  return state_->checkpoint->series();
}
const std::vector<std::string>& Conversion::steps() const {
  return state_->checkpoint->steps();
}
const std::vector<std::string>& Conversion::warnings() const {
  return state_->warnings;
}
const std::vector<std::string>& Conversion::unmatched() const {
  return state_->unmatched;
}
std::string Conversion::why_absent(const std::string& path) const {
  for (const AbsentFiles& absent : state_->absent) {
    const bool is_directory = absent.path.ends_with('/');
    if (path == absent.path || (is_directory && (path + "/").starts_with(absent.path))) {
      return absent.why;
    }
  }
  return {};
}
const std::vector<std::string>& Conversion::rules() const {
  return state_->target->notes();
}
const std::vector<std::string>& Conversion::notes() const {
  return state_->notes;
}

}  // namespace reshardfs
