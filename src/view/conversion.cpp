// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/conversion.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/process/retry_once.h"
#include "base/text/near_name.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/deepspeed/joined_source.h"
#include "checkpoint/whole/stated_words.h"
#include "conversion/completeness.h"
#include "conversion/conversion_tables.h"
#include "conversion/option_words.h"
#include "conversion/target_ranks.h"
#include "conversion/wanted_views.h"
#include "format/index/index_sum.h"
#include "plan/target/target_table.h"
#include "plan/traffic/node_fetches.h"
#include "plan/traffic/traffic.h"
#include "plan/traffic/traffic_survey.h"
#include "report/page.h"
#include "report/parameter_picture.h"
#include "report/traffic_picture.h"
#include "storage/local/hub_cache.h"
#include "view/control/control_json.h"
#include "view/files/shown_words.h"
#include "view/tensor_set.h"
#include "view/view.h"

namespace reshardfs {
namespace {

/// What a view makes.
struct MadeView {
  std::vector<OutputFile> files;
  std::vector<std::string> warnings;
  std::vector<DeferredView> deferred;
  std::vector<AbsentFiles> absent;

  void build(const View& view, const ViewContext& context) {
    const ViewContext own{context.options, context.formats, context.ranks, context.target,
                          context.whole,   warnings,        context.notes, context.model,
                          files,           context.sizes,   deferred,      absent,
                          context.inputs};
    files = view.build(own);
  }
};

/// Fewer than this, in all ranks, are shown sooner than a thread starts.
constexpr std::size_t kFewParameters = 20'000;

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
  ConversionTables tables;
  ReportSubject report;
  std::vector<OutputFile> files;
  std::vector<DeferredView> deferred;
  std::vector<AbsentFiles> absent;
  std::vector<Input> inputs;
  std::vector<Input> companions;
  std::vector<SavedInput> saved;
  RetryOnce once;               ///< guards all
  std::vector<OutputFile> all;  ///< with the deferred ones

  void add_views(const ViewContext& context);
  void add(MadeView made);
  void make_all();
};

/// A view that was asked for by its name is there, and some view in any case.
void Conversion::State::add_views(const ViewContext& context) {
  const ConversionOptions& options = context.options;
  std::set<ViewKind> shown;
  std::vector<const View*> wanted;
  for (const View& view : view_registry()) {
    if (view.kind && is_wanted(*view.kind, options)) wanted.push_back(&view);
  }
  std::vector<MadeView> made(wanted.size());
  const bool are_few =
      tables.target->parameters().size() * (tables.ranks.size() + 1) < kFewParameters;
  parallel_for(
      wanted.size(), [&](std::size_t i) { made[i].build(*wanted[i], context); }, are_few ? 1 : 0);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!made[i].files.empty()) shown.insert(*wanted[i]->kind);
    add(std::move(made[i]));
  }
  tell_lost_words(context, shown);
  drop_repeated(tables.warnings);
  // These tell of all that came before.
  for (const View& view : view_registry()) {
    if (view.kind) continue;
    MadeView last;
    last.files = view.build(context);
    add(std::move(last));
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
                  shown.contains(ViewKind::kMergedSafetensors) ||
                  shown.contains(ViewKind::kMergedTorch) || shown.contains(ViewKind::kHub),
              "there is no file for --views merged");
    } else {
      require(shown.contains(kind), "there is no file for --views " + word_of(kViewWords, kind));
    }
  }
  shown.erase(ViewKind::kStrategy);
  require(!shown.empty() || !options.views.empty(), "no view can be shown");
}

void Conversion::State::add(MadeView made) {
  for (DeferredView& view : made.deferred) {
    view.position += files.size();
    deferred.push_back(std::move(view));
  }
  const auto take = [](auto& from, auto& to) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
  };
  take(made.files, files);
  take(made.warnings, tables.warnings);
  take(made.absent, absent);
}

void Conversion::State::make_all() {
  std::vector<OutputFile> made;
  auto next = files.begin();
  for (const DeferredView& view : deferred) {
    const auto end = files.begin() + static_cast<std::ptrdiff_t>(view.position);
    made.insert(made.end(), next, end);
    next = end;
    view.files->make([&](std::string_view path, std::shared_ptr<const VirtualFile> file) {
      made.push_back({view.directory + "/" + std::string(path), std::move(file)});
    });
  }
  made.insert(made.end(), next, files.end());
  all = std::move(made);
}

Conversion::Conversion(std::unique_ptr<State> state) : state_(std::move(state)) {}
Conversion::Conversion(Conversion&&) noexcept = default;
Conversion& Conversion::operator=(Conversion&&) noexcept = default;
Conversion::~Conversion() = default;

Conversion Conversion::open(const ConversionOptions& options) {
  return ConversionAccess::open(options, {});
}

Conversion ConversionAccess::open(const ConversionOptions& given,
                                  const std::vector<SavedInput>& saved) {
  ConversionOptions options = given;
  options.source.path = settled_source(options.source.path);
  auto state = std::make_unique<Conversion::State>();
  ConversionTables& tables = state->tables;
  tables = open_tables(options, std::make_shared<Inputs>(saved));
  state->inputs = tables.inputs->list();
  if (tables.no_whole) {
    for (const char* path : {"merged/", "hf/", "unified/"}) {
      state->absent.push_back({path, tables.no_whole->what()});
    }
  }
  const auto sizes = std::make_shared<SafetensorsSizes>();
  const ViewContext context{options,      tables.formats,  tables.ranks,    tables.target,
                            tables.whole, tables.warnings, tables.notes,    tables.model,
                            state->files, sizes,           state->deferred, state->absent,
                            tables.inputs};
  state->add_views(context);
  const std::vector<Input> all = tables.inputs->list();
  std::set_difference(all.begin(), all.end(), state->inputs.begin(), state->inputs.end(),
                      std::back_inserter(state->companions));
  state->saved = tables.inputs->saved();
  sizes->forget();
  state->report = report_subject(context);
  return Conversion(std::move(state));
}

std::int64_t Conversion::rank_count() const {
  return state_->tables.target->rank_count();
}

std::string Conversion::target_strategy() const {
  const std::optional<Strategy>& strategy = state_->tables.target->strategy();
  return strategy ? to_json(*strategy) : std::string();
}

std::size_t Conversion::parameter_count() const {
  return state_->tables.target->parameters().size();
}

std::size_t Conversion::cast_count() const {
  return state_->tables.target->cast_count();
}

const std::vector<OutputFile>& Conversion::files() const {
  if (state_->deferred.empty()) return state_->files;
  state_->once.call([this] { state_->make_all(); });
  return state_->all;
}

const std::vector<OutputFile>& ConversionAccess::listed(const Conversion& conversion) {
  return conversion.state_->files;
}

const std::vector<DeferredView>& ConversionAccess::deferred(const Conversion& conversion) {
  return conversion.state_->deferred;
}

const std::vector<Input>& ConversionAccess::inputs(const Conversion& conversion) {
  return conversion.state_->inputs;
}

std::map<std::string, std::string> ConversionAccess::metadata(const Conversion& conversion) {
  const auto& words = conversion.state_->tables.model.words;
  return words == nullptr ? std::map<std::string, std::string>() : words->header;
}

const std::vector<SavedInput>& ConversionAccess::saved(const Conversion& conversion) {
  return conversion.state_->saved;
}

const std::vector<Input>& ConversionAccess::companions(const Conversion& conversion) {
  return conversion.state_->companions;
}

TensorSet Conversion::tensors(Rank rank) const {
  require_rank(rank, rank_count());
  if (!std::binary_search(state_->tables.ranks.begin(), state_->tables.ranks.end(), rank)) {
    throw Error(ErrorKind::kUsage, "target rank " + to_string(rank) + " is not among --ranks");
  }
  require_complete(*state_->tables.target, {rank});
  return TensorSet(std::make_shared<const TensorSet::State>(state_->tables.target, rank));
}

TensorSet Conversion::whole_tensors() const {
  const ConversionTables& tables = state_->tables;
  if (tables.no_whole) {
    throw Error(ErrorKind::kUsage, std::string("no merged file: ") + tables.no_whole->what());
  }
  if (tables.whole == nullptr) {
    throw Error(ErrorKind::kUsage, "the whole model is not among --views");
  }
  return TensorSet(std::make_shared<const TensorSet::State>(state_->tables.whole, kWholeRank));
}

std::vector<SourceTraffic> Conversion::traffic(Rank rank) const {
  require_rank(rank, rank_count());
  return traffic_of(*state_->tables.target, rank);
}

std::vector<NodeFetches> Conversion::node_fetches(std::int64_t nodes) const {
  const std::size_t ranks = state_->tables.ranks.size();
  if (nodes < 1 || static_cast<std::uint64_t>(nodes) > ranks) {
    throw Error(ErrorKind::kUsage, counted(ranks, "target rank") + " cannot be spread over " +
                                       std::to_string(nodes) + " nodes")
        .hint("each node needs at least one rank");
  }
  return reshardfs::node_fetches(
      *state_->tables.target,
      ranks_of_nodes(state_->tables.ranks, static_cast<std::size_t>(nodes)));
}

void Conversion::draw_traffic(const TextSink& out) const {
  BoundedWriter writer(out);
  reshardfs::draw_traffic(
      survey_traffic(*state_->tables.target, state_->tables.ranks, kMostDrawnRanks),
      Placement::kDocument, writer);
  writer.flush();
}

void Conversion::draw_parameter(const std::string& name, const TextSink& out) const {
  const auto& parameters = state_->tables.target->parameters();
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
  reshardfs::draw_parameter(*state_->tables.target, *found, state_->tables.ranks,
                            Placement::kDocument, DrawnSlices::kOfBothSides, writer);
  writer.flush();
}

void Conversion::write_report(const TextSink& out) const {
  reshardfs::write_report(state_->report, std::nullopt, out);
}

std::vector<ConversionSource> Conversion::source_files() const {
  std::vector<ConversionSource> files;
  std::unordered_map<const FileIndex*, std::uint64_t> sums;  // files that are alike share one
  for (const RankFile& file : state_->tables.checkpoint->files()) {
    const auto [sum, is_new] = sums.try_emplace(file.index.get(), 0);
    if (is_new) sum->second = index_sum(*file.index);
    const auto add = [&](const std::filesystem::path& path, const ByteSource& source) {
      const FileStamp stamp = source.stamp();
      files.push_back({path, source.size(), source.mtime_ns(), stamp.ctime_ns, stamp.device,
                       stamp.inode, sum->second});
    };
    const auto* const joined = dynamic_cast<const JoinedSource*>(file.source.get());
    if (joined == nullptr) {
      add(file.path, *file.source);
      continue;
    }
    for (const ByteSourcePtr& part : joined->files()) add(part->name(), *part);
  }
  return files;
}

std::int64_t Conversion::mtime_ns() const {
  return state_->tables.checkpoint->mtime_ns();
}
const std::string& Conversion::step() const {
  return state_->tables.checkpoint->step();
}
const std::string& Conversion::series() const {
  return state_->tables.checkpoint->series();
}
const std::vector<std::string>& Conversion::steps() const {
  return state_->tables.checkpoint->steps();
}
const std::vector<std::string>& Conversion::warnings() const {
  return state_->tables.warnings;
}
const std::string& Conversion::unstated() const noexcept {
  return state_->tables.unstated;
}

const std::vector<std::string>& Conversion::unmatched() const {
  return state_->tables.unmatched;
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
  return state_->tables.target->notes();
}
const std::vector<std::string>& Conversion::notes() const {
  return state_->tables.notes;
}

}  // namespace reshardfs
