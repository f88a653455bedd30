// SPDX-License-Identifier: Apache-2.0
#include "check/verify.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/rank_list.h"
#include "base/text/text.h"
#include "check/coverage.h"
#include "check/manifest.h"
#include "check/problem.h"
#include "check/verify_map.h"
#include "check/verify_parameter.h"
#include "check/verify_quantized.h"
#include "checkpoint/ranks/joined_ranks.h"
#include "checkpoint/whole/whole_catalogue.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "conversion/unmatched_selectors.h"
#include "plan/replicas/settle_replicas.h"
#include "plan/replicas/step_counters.h"
#include "plan/source/strategy_catalogue.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

class Verification {
 public:
  Verification(const VerifyOptions& options, Progress& progress)
      : options_(options), progress_(progress) {}

  VerifyReport run();

 private:
  std::shared_ptr<const Catalogue> catalogue(SourceOpening& opening, bool incomplete);
  void check_options(const SourceOpening& opening, bool some_names_are_unknown);
  /// @param stored name of a parameter.
  bool takes(const std::string& stored) const {
    const auto name = renames_(stored);
    return name && options_.names.takes(*name);
  }
  void check_crcs();
  void check_list();
  std::optional<Problem> problem_of(const ManifestLine& line) const;
  std::filesystem::path resolve(const std::string& name) const;
  void warn_of_unlisted();
  void lose_whole_stages(const VerifyContext& context, AbsentRanks& absent) const;
  /// Reports tensors that the set has twice.
  void check_copies();
  void report_lost_names(const VerifyContext& context);
  void report_refused(const CheckpointSet& set);
  void note_read_files(VerifyContext& context) const;
  void check_parameters(VerifyContext& context);
  void compare_counters(const HeldParameter& parameter);
  void warn_of_missing_names();
  void hint_at_strategy();
  void require_strategy(const VerifyContext& context);
  void require_any() const;
  void report_missing();
  void open(SourceOpening& opening);
  void lay_out(const SourceOpening& opening);
  void state_model(const SourceOpening& opening);
  void state_completeness(const VerifyContext& context);
  void report_open_extents();
  void finish();

  VerifyOptions options_;
  Progress& progress_;
  VerifyReport report_;
  std::shared_ptr<const CheckpointSet> set_;  ///< of the files that can be read
  SetFaults faults_;
  PreviewOfSet preview_;
  Renames renames_;
  const Strategy* strategy_ = nullptr;  ///< the catalogue's
  std::vector<HeldParameter> parameters_;
  std::vector<CrcFinding> crcs_;  ///< of faults_.stored
  std::vector<ManifestLine> manifest_;
  LinklessTreePtr tree_;  ///< of the source, if symbolic links are refused
};

/// nullptr: no layouts are stated.
std::shared_ptr<const Catalogue> Verification::catalogue(SourceOpening& opening, bool incomplete) {
  const auto wanted = [this](const std::string& name) { return options_.names.takes(name); };
  const StatedLayouts stated =
      opening.state_layouts(opening.renames().taking(wanted), incomplete, report_.warnings);
  strategy_ = stated.strategy;
  return stated.catalogue;
}

/// @param some_names_are_unknown since files of the set could not be read.
void Verification::check_options(const SourceOpening& opening, bool some_names_are_unknown) {
  const NameFilter& filter = options_.names;
  const bool filters = !filter.include.empty() || !filter.exclude.empty() || filter.weights_only;
  if (!filters && !selects_by_name(options_.source)) return;
  const std::vector<std::string> stored = names_in(*set_);
  const std::vector<std::string> names = renames_.of(stored);
  UnmatchedOptions unmatched;
  unmatched.add_globs("--include", options_.names.include, names);
  unmatched.add_globs("--exclude", options_.names.exclude, names);
  opening.add_unmatched(stored, unmatched);
  unmatched.add_prefixes("--state-prefix", options_.source.state_prefixes, names);
  unmatched.settle(options_.source.allow_unmatched || some_names_are_unknown, report_.warnings);
  const bool any = std::any_of(names.begin(), names.end(),
                               [&](const std::string& name) { return options_.names.takes(name); });
  if (any || names.empty() || options_.source.allow_unmatched) return;
  throw Error(ErrorKind::kUsage, "no parameter of the checkpoint is left to check")
      .in_file(options_.source.path.string())
      .hint("check --include, --exclude and --weights-only");
}

void Verification::check_crcs() {
  crcs_ = compare_crcs(faults_.stored, options_.jobs, &progress_);
  for (std::size_t i = 0; i < crcs_.size(); ++i) {
    const StoredFile& file = faults_.stored[i];
    const std::optional<Error>& error = crcs_[i].error;
    report_.crc_good += crcs_[i].check == CrcCheck::kGood ? 1U : 0U;
    report_.crc_none += crcs_[i].check == CrcCheck::kNoTrailer && !error ? 1U : 0U;
    if (!error) continue;
    Problem problem = problem_from(*error);
    if (crcs_[i].check == CrcCheck::kBad) problem.kind = ProblemKind::kCrc;
    if (file.number) problem.rank = set_->files()[*file.number].rank;
    problem.file = file.path.string();
    report_.problems.push_back(std::move(problem));
  }
}

/// Names in a list of sums are relative to the source, else to the list itself.
std::filesystem::path Verification::resolve(const std::string& name) const {
  const bool directory = path_kind(options_.source.path) == PathKind::kDirectory;
  const std::filesystem::path root =
      directory ? options_.source.path : options_.source.path.parent_path();
  std::filesystem::path path = root / name;
  if (path_kind(path) != PathKind::kMissing) return path;
  std::filesystem::path beside = options_.manifest.parent_path() / name;
  return path_kind(beside) != PathKind::kMissing ? beside : path;
}

std::optional<Problem> Verification::problem_of(const ManifestLine& line) const {
  try {
    const std::string found = sha256_of_file(resolve(line.name), progress_, tree_);
    if (found == line.sha256) return std::nullopt;
    Problem problem;
    problem.kind = ProblemKind::kManifest;
    problem.message = "SHA-256 " + found + " instead of " + line.sha256;
    return problem;
  } catch (const Error& error) {
    return problem_from(error);
  }
}

void Verification::check_list() {
  std::vector<std::optional<Problem>> problems(manifest_.size());  // each is set by one thread
  parallel_for(
      manifest_.size(), [&](std::size_t i) { problems[i] = problem_of(manifest_[i]); },
      options_.jobs);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (!problems[i]) {
      ++report_.manifest_good;
      continue;
    }
    problems[i]->file = resolve(manifest_[i].name).string();
    report_.problems.push_back(std::move(*problems[i]));
  }
  if (!manifest_.empty()) warn_of_unlisted();
}

void Verification::warn_of_unlisted() {
  std::set<std::filesystem::path> listed;
  for (const ManifestLine& line : manifest_) {
    listed.insert(std::filesystem::weakly_canonical(resolve(line.name)));
  }
  for (const std::filesystem::path& path : faults_.paths) {
    if (listed.contains(std::filesystem::weakly_canonical(path))) continue;
    report_.warnings.push_back(printable(path.string()) + " is not in the manifest " +
                               printable(options_.manifest.string()));
  }
}

/// Of a stage without any file nothing but the strategy tells the parameters.
void Verification::lose_whole_stages(const VerifyContext& context, AbsentRanks& absent) const {
  std::set<std::string_view> held;
  const Strategy& strategy = *strategy_;
  const std::int64_t devices = strategy.devices_per_stage();
  for (std::int64_t stage = 0; stage < strategy.stage_count(); ++stage) {
    std::vector<Rank> ranks;
    for (const Rank rank : context.catalogue->ranks().of_stage(stage)) {
      if (absent.contains(rank)) ranks.push_back(rank);
    }
    if (static_cast<std::int64_t>(ranks.size()) < devices) continue;
    if (held.empty()) {
      for (const HeldParameter& parameter : parameters_) held.insert(parameter.name);
    }
    std::size_t number = parameters_.size();
    for (const auto& [name, layout] : strategy.stage(stage)) {
      if (held.contains(name) || !takes(name)) continue;
      absent.lose(ranks, name, number++);
    }
  }
}

/// What the set itself says that it has, but no file of it.
void Verification::check_copies() {
  if (!set_->compare_copies()) return;
  const CopyQuestion question{[this](const std::string& name) { return takes(name); },
                              options_.jobs, progress_};
  for (const Error& error : set_->compare_copies()(question)) {
    Problem problem = problem_from(error);
    if (error.kind() == ErrorKind::kBadInput) problem.kind = ProblemKind::kReplica;
    report_.problems.push_back(std::move(problem));
  }
}

void Verification::report_lost_names(const VerifyContext& context) {
  const std::vector<std::string> required = context.catalogue->required_names();
  if (required.empty()) return;
  std::set<std::string_view> held;
  for (const HeldParameter& parameter : parameters_) held.insert(parameter.name);
  for (const std::string& name : required) {
    if (held.contains(name) || !takes(name)) continue;
    Problem problem;
    problem.kind = ProblemKind::kMissingPart;
    problem.parameter = name;
    problem.message = "is in no file, though the set's metadata names it";
    report_.problems.push_back(std::move(problem));
  }
}

void Verification::report_refused(const CheckpointSet& set) {
  for (const RefusedTensor& tensor : set.refused()) {
    if (!takes(tensor.name)) continue;
    Problem problem;
    problem.kind = ProblemKind::kUnsupported;
    problem.parameter = tensor.name;
    problem.message = "cannot be shown: " + tensor.reason;
    report_.problems.push_back(std::move(problem));
  }
}

/// Of all files, whatever their stages are: they are of one save.
void Verification::compare_counters(const HeldParameter& parameter) {
  if (options_.source.replicas != Replicas::kSame || !is_step_counter(parameter.name)) return;
  try {
    const auto differing = differing_counters(parameter.holders);
    if (!differing) return;
    Problem problem = problem_from(of_two_saves(parameter.name, *differing));
    problem.kind = ProblemKind::kReplica;
    problem.rank = differing->second.file->rank;
    report_.problems.push_back(std::move(problem));
  } catch (const Error& error) {
    report_.problems.push_back(problem_from(error));
  }
}

/// A rank may leave a parameter to its replicas; but a file that was cut off looks the same.
void Verification::warn_of_missing_names() {
  const std::vector<RankFile>& files = set_->files();
  std::vector<std::uint64_t> by_file(files.size());
  for (const HeldParameter& parameter : parameters_) {
    for (const Holding& holder : parameter.holders) {
      ++by_file[static_cast<std::size_t>(holder.file - files.data())];
    }
  }
  std::map<Rank, std::uint64_t> by_rank;
  for (std::size_t i = 0; i < files.size(); ++i) by_rank[files[i].rank] += by_file[i];
  std::uint64_t most = 0;
  for (const auto& [rank, count] : by_rank) most = std::max(most, count);
  std::vector<Rank> fewer;
  for (const auto& [rank, count] : by_rank) {
    if (count < most) fewer.push_back(rank);
  }
  if (fewer.empty()) return;
  report_.warnings.push_back(rank_words(fewer) + (fewer.size() == 1 ? " has" : " have") +
                             " fewer parameters than other ranks");
}

/// Those of which all bytes were compared with CRCs.
void Verification::note_read_files(VerifyContext& context) const {
  for (std::size_t i = 0; i < context.set.files().size(); ++i) {
    if (faults_.fits_table[i] != 0) context.read_files.insert(&context.set.files()[i]);
  }
  for (std::size_t i = 0; i < crcs_.size(); ++i) {
    const bool is_read = crcs_[i].check != CrcCheck::kNoTrailer;
    const auto number = faults_.stored[i].number;
    if (number && !is_read) context.read_files.erase(&context.set.files()[*number]);
  }
}

void Verification::check_parameters(VerifyContext& context) {
  AbsentRanks absent(context.set.missing_ranks(context.catalogue ? context.catalogue->ranks().all()
                                                                 : RankRange()));
  note_read_files(context);
  for (const HeldParameter& parameter : parameters_) {
    const bool may_be_alone = parameter.holders.size() == 1;
    for (const Holding& holder : parameter.holders) {
      if (may_be_alone && context.read_files.contains(holder.file)) continue;
      progress_.expect_bytes(holder.entry->content_bytes);
    }
  }
  std::vector<ParameterFindings> findings(parameters_.size());
  const std::vector<std::size_t> ends = ends_of_parts(parameters_);
  parallel_for(
      ends.size(),
      [&](std::size_t part) {
        const ParameterVerifier verifier(context, absent, progress_);
        for (std::size_t i = part == 0 ? 0 : ends[part - 1]; i < ends[part]; ++i) {
          findings[i] = verifier.check(parameters_[i], i);
        }
      },
      options_.jobs);
  if (strategy_ != nullptr) {
    lose_whole_stages(context, absent);
  } else if (!context.catalogue) {
    warn_of_missing_names();
    for (std::string& line : warnings_without_layouts(context.set)) {
      report_.warnings.push_back(std::move(line));
    }
  }
  absent.report_to(report_);
  report_refused(context.set);
  const bool is_as_stored = !options_.source.dequantize && options_.source.quantize.empty();
  if (is_as_stored) {
    check_quantized(
        context.set, [this](const std::string& name) { return takes(name); }, report_);
  }
  if (context.catalogue) {
    report_lost_names(context);
    for (std::string& line : context.catalogue->warnings()) {
      report_.warnings.push_back(std::move(line));
    }
  }
  for (std::size_t i = 0; i < findings.size(); ++i) {
    compare_counters(parameters_[i]);
    if (findings[i].per_rank) report_.per_rank.push_back(parameters_[i].name);
    if (findings[i].own_values) report_.own_values.push_back(parameters_[i].name);
    std::move(findings[i].problems.begin(), findings[i].problems.end(),
              std::back_inserter(report_.problems));
  }
}

/// Many differing parameters usually mean the strategy of another model.
void Verification::hint_at_strategy() {
  if (options_.source.strategy && options_.source.replicas == Replicas::kSame &&
      report_.per_rank.size() * 4 >= report_.parameters && !report_.per_rank.empty()) {
    const bool one = report_.per_rank.size() == 1;
    report_.warnings.push_back(std::to_string(report_.per_rank.size()) + " of " +
                               counted(report_.parameters, "parameter") +
                               (one ? " is not in the source strategy and differs between "
                                    : " are not in the source strategy and differ between ") +
                               "ranks, as '" + printable(report_.per_rank.front()) +
                               "': a mount would refuse them; was the checkpoint saved with this "
                               "strategy?");
  }
}

/// Where most matrices differ between ranks, and no layout is stated, the ranks hold slices: the
/// strategy is what is wrong. @throws Error kBadInput, if nothing else is.
void Verification::require_strategy(const VerifyContext& context) {
  if (context.catalogue || context.joined != nullptr ||
      options_.source.replicas != Replicas::kSame) {
    return;
  }
  // Most bytes in which a rank differs from the first one.
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max() / 8;
  std::unordered_map<std::string_view, std::uint64_t> differing;
  for (const Problem& problem : report_.problems) {
    const bool is_shape = problem.kind == ProblemKind::kShape;
    if (!is_shape && problem.kind != ProblemKind::kReplica) return;
    std::uint64_t& most = differing[problem.parameter];
    most = std::max(most, is_shape ? kAll : problem.differing_bytes);
  }
  if (differing.empty()) return;
  std::size_t matrices = 0;
  std::size_t cut = 0;
  for (const HeldParameter& parameter : parameters_) {
    const TensorEntry& entry = *parameter.holders.front().entry;
    if (entry.shape.size() < 2) continue;
    ++matrices;
    // Of slices most elements differ, of damaged replicas a few bytes.
    const auto found = differing.find(parameter.name);
    if (found != differing.end() && 8 * found->second >= entry.content_bytes) ++cut;
  }
  if (2 * cut > matrices) throw slices_without_strategy(*set_);
  if (cut == 0) return;
  report_.warnings.push_back(std::to_string(cut) +
                             (cut == 1 ? " matrix differs" : " matrices differ") +
                             " between ranks in most elements: if these are slices, such as "
                             "experts, give the strategy with "
                             "--src-strategy");
}

/// @throws Error kUsage if there is nothing to find a fault in: that is no good set.
void Verification::require_any() const {
  if (!parameters_.empty() || !report_.problems.empty()) return;
  Error error(ErrorKind::kUsage, options_.source.state_key.empty()
                                     ? "has no parameter to verify"
                                     : "has no tensor below the key '" +
                                           printable(options_.source.state_key) +
                                           "' of --state-key");
  throw error.in_file(options_.source.path.string());
}

/// Problems are reported under the parameter that has them.
void Verification::lay_out(const SourceOpening& opening) {
  const auto wanted = [this](const std::string& name) { return options_.names.takes(name); };
  try {
    preview_.table = opening.preview(opening.needed(wanted));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    preview_.failure = error;
  }
}

/// What the model's own numbers say of it, if nothing else is wrong.
void Verification::state_model(const SourceOpening& opening) {
  ModelQuestion question = model_question(options_.source, *set_, opening.tree());
  question.table = preview_.table.get();
  if (options_.source.maps.maps.empty()) {
    question.takes = [&](const std::string& name) { return options_.names.takes(name); };
  }
  report_.completeness = reshardfs::state_model(question);
}

/// What names, an index or config.json state, and no file has.
void Verification::report_missing() {
  const Completeness& statement = report_.completeness;
  const auto report = [&](const Error& error, ProblemKind kind) {
    Problem problem = problem_from(error);
    problem.kind = kind;
    if (problem.file.empty()) problem.file = options_.source.path.string();
    report_.problems.push_back(std::move(problem));
  };
  for (const Error& error : statement.missing) report(error, ProblemKind::kMissingPart);
  for (const Error& error : statement.differences) report(error, ProblemKind::kFile);
  for (const Error& error : statement.short_parameters) {
    if (takes(error.parameter())) report(error, ProblemKind::kMissingPart);
  }
  for (const std::string& doubt : statement.doubts) report_.warnings.push_back(doubt);
}

/// What is stated outside of the set.
void Verification::state_completeness(const VerifyContext& context) {
  Completeness& statement = report_.completeness;
  if (strategy_ != nullptr) {
    const auto ranks = static_cast<std::size_t>(context.catalogue->ranks().all().size());
    statement.grounds.push_back("the strategy of " + counted(ranks, "rank"));
    statement.unstated.clear();
  }
  if (context.joined == nullptr) return;
  Completeness joined = context.joined->statement();
  std::move(joined.grounds.begin(), joined.grounds.end(), std::back_inserter(statement.grounds));
  statement.open_extents = std::move(joined.open_extents);
  if (!joined.unstated.empty()) statement.unstated = std::move(joined.unstated);
}

void Verification::report_open_extents() {
  Completeness& statement = report_.completeness;
  std::erase_if(statement.open_extents, [&](const OpenShape& open) { return !takes(open.name); });
  if (statement.open_extents.empty()) return;
  const OpenShape& first = statement.open_extents.front();
  const std::size_t others = statement.open_extents.size() - 1;
  Problem problem;
  problem.kind = ProblemKind::kExtent;
  problem.file = options_.source.path.string();
  problem.parameter = first.name;
  problem.message =
      "is " + to_string(first.shape) + " by the files that are there, but it is unknown " +
      statement.unstated +
      (others == 0 ? "" : "; the same holds for " + counted(others, "more parameter"));
  report_.problems.push_back(std::move(problem));
}

void Verification::finish() {
  hint_at_strategy();
  std::set<std::string> damaged;
  std::set<std::string> hints;  // many problems have the same
  for (const Problem& problem : report_.problems) {
    const bool is_new = !problem.hint.empty() && hints.insert(problem.hint).second;
    if (is_new) report_.warnings.push_back(problem.hint);
    report_.differing_bytes += problem.differing_bytes;
    if (!problem.parameter.empty()) damaged.insert(problem.parameter);
  }
  report_.damaged_parameters = damaged.size();
  progress_.expect_no_more();
}

void Verification::open(SourceOpening& opening) {
  set_ = opening.open_readable(faults_, options_.jobs);
  tree_ = linkless_tree_of(linkless_root(options_.source), options_.source.path);
  for (const SetFault& fault : faults_.list) report_.problems.push_back(problem_from(fault));
  report_.warnings = std::move(faults_.warnings);
  report_.step = faults_.step;
  report_.files = faults_.paths.size();
  report_.completeness = std::move(faults_.completeness);
  if (set_) {
    renames_ = opening.renames();
    options_.names.state_prefixes = opening.state_prefixes();
    opening.require_distinct_names(
        [this](const std::string& name) { return options_.names.takes(name); });
    const bool is_sound = report_.problems.empty();
    if (is_sound || !opening.maps().empty()) lay_out(opening);
    if (is_sound) state_model(opening);
  }
  report_missing();
}

VerifyReport Verification::run() {
  // Strategy and list first: they are small, and a wrong one is the most likely mistake.
  SourceOpening opening(options_.source);
  if (!options_.manifest.empty()) manifest_ = read_manifest(options_.manifest);
  open(opening);
  for (const ManifestLine& line : manifest_) {
    std::error_code missing;
    const std::uintmax_t size = std::filesystem::file_size(resolve(line.name), missing);
    if (!missing) progress_.expect_bytes(size);
  }
  if (!set_) {
    check_list();
    finish();
    return std::move(report_);
  }
  const bool incomplete = !report_.problems.empty() || opening.allows_unmatched();
  check_options(opening, incomplete);
  const std::shared_ptr<const Catalogue> stated = catalogue(opening, incomplete);
  std::optional<JoinedRanks> joined;
  if (!stated && !options_.source.join.empty()) joined.emplace(*set_, options_.source.join);
  VerifyContext context{*set_,
                        stated,
                        joined ? &*joined : nullptr,
                        options_.names.state_prefixes,
                        {},
                        options_.source.replicas};
  // A file of the set may be read from several.
  report_.files += faults_.stored.size() - set_->files().size();
  for (const StoredFile& file : faults_.stored) {
    if (file.source) report_.bytes += file.source->size();
  }
  parameters_ = held_parameters(*set_, [this](const std::string& name) { return takes(name); });
  report_.parameters = parameters_.size();
  for (const Rank rank : faults_.empty_ranks) {
    if (context.catalogue) break;  // then what is lost with a rank decides
    Problem problem;
    problem.kind = ProblemKind::kMissingRank;
    problem.rank = rank;
    problem.message = "its directory has no file of the checkpoint";
    report_.problems.push_back(std::move(problem));
  }
  check_crcs();
  check_list();
  check_parameters(context);
  require_strategy(context);
  check_copies();
  require_any();
  state_completeness(context);
  report_open_extents();
  verify_maps(opening.maps(), preview_, options_, progress_, report_);
  finish();
  return std::move(report_);
}

}  // namespace

VerifyReport verify(const VerifyOptions& options, Progress& progress) {
  return Verification(options, progress).run();
}

}  // namespace reshardfs
