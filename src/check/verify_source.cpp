// SPDX-License-Identifier: Apache-2.0
#include "check/verify_source.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "checkpoint/indexes/index_reader.h"
#include "checkpoint/neighbours.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/ranks/rank_statement.h"
#include "checkpoint/series/series.h"
#include "checkpoint/series/set_age.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/steps.h"
#include "checkpoint/set_format.h"
#include "checkpoint/source_links.h"
#include "checkpoint/torch/torch_rank_file.h"
#include "checkpoint/whole/placed_names.h"
#include "conversion/source_opening.h"
#include "format/encrypted/encrypted.h"
#include "format/foreign_content.h"
#include "format/input_format.h"
#include "storage/local/hub_cache.h"
#include "storage/local/open_file_limit.h"

namespace reshardfs {
namespace {

/// Which files make up the step, and what of it is missing.
class FileChoice {
 public:
  FileChoice(const VerifyOptions& options, const CheckpointOptions& checkpoint,
             VerifyReport& report)
      : options_(options), checkpoint_(checkpoint), report_(report) {}

  Discovery choose();

 private:
  std::string choose_step(const FilesByRank& by_rank);
  void take_rank(Rank rank, const FilesByStep& by_step);
  void note_unfinished(const RankFiles& found);
  void add(Rank rank, const std::filesystem::path& file, std::string message);

  const VerifyOptions& options_;
  const CheckpointOptions& checkpoint_;
  VerifyReport& report_;
  Discovery out_;
};

void FileChoice::add(Rank rank, const std::filesystem::path& file, std::string message) {
  Problem problem;
  problem.kind = ProblemKind::kStep;
  problem.rank = rank;
  problem.file = file.string();
  problem.message = std::move(message);
  report_.problems.push_back(std::move(problem));
}

/// The newest that any rank has. Where not all have it, that is what is wrong.
std::string FileChoice::choose_step(const FilesByRank& by_rank) {
  if (options_.source.step == kLatestStep) {
    std::string newest;
    for (const auto& [rank, by_step] : by_rank) {
      newest = std::max(newest, by_step.rbegin()->first, OlderStep());
    }
    return newest;
  }
  const bool known = std::any_of(by_rank.begin(), by_rank.end(), [&](const auto& rank) {
    return rank.second.contains(options_.source.step);
  });
  // Says which steps there are.
  return known ? options_.source.step : discover(options_.source.path, checkpoint_).step;
}

void FileChoice::take_rank(Rank rank, const FilesByStep& by_step) {
  const auto found = by_step.find(out_.step);
  if (found == by_step.end()) {
    const std::string& newest = by_step.rbegin()->first;
    add(rank, by_step.rbegin()->second.front().path.parent_path(),
        "no file of " + step_words(out_.step) + "; the newest there is of " + step_words(newest));
    return;
  }
  std::vector<FoundFile> files = found->second;
  if (const auto problem = rank_part_problem(options_.source.path, files)) {
    add(rank, files.front().path.parent_path(), problem->message());
    return;
  }
  std::sort(files.begin(), files.end(),
            [](const FoundFile& a, const FoundFile& b) { return a.part < b.part; });
  for (FoundFile& file : files) out_.files.push_back(std::move(file));
}

void FileChoice::note_unfinished(const RankFiles& found) {
  for (const FoundFile& file : found.unfinished) {
    if (std::is_neq(compare_steps(file.step, out_.step))) continue;
    const bool finished =
        std::any_of(found.files.begin(), found.files.end(), [&](const FoundFile& other) {
          return other.rank == file.rank && other.part == file.part && other.step == file.step;
        });
    if (!finished) add(file.rank, file.path, "is there instead of a finished file");
  }
}

Discovery FileChoice::choose() {
  if (auto described = discover_described_set(options_.source.path, checkpoint_)) {
    described->notes.clear();
    for (std::string& warning : described->warnings) {
      report_.warnings.push_back(std::move(warning));
    }
    note_neighbours(options_.source.path, checkpoint_,
                    source_tree(options_.source.path, checkpoint_), {}, *described);
    return std::move(*described);
  }
  SourceFiles files = find_source_files(options_.source.path, checkpoint_);
  if (files.name_map || files.is_whole) return discover(options_.source.path, checkpoint_);
  out_.notes = std::move(files.notes);
  for (std::string& warning : files.warnings) report_.warnings.push_back(std::move(warning));
  if (auto warning = ranks_without(files.series, files.found)) {
    report_.warnings.push_back(std::move(*warning));
  }
  const FilesByRank by_rank = group_by_rank(files.found.files);
  out_.step = choose_step(by_rank);
  for (const auto& [rank, by_step] : by_rank) take_rank(rank, by_step);
  note_unfinished(files.found);
  const std::filesystem::path& source = options_.source.path;
  state_files(files, source, out_);
  note_neighbours(source, checkpoint_, source_tree(source, checkpoint_),
                  {files.pattern.empty(), {}}, out_);
  return std::move(out_);
}

/// The ranks below `source` that have a directory.
std::set<Rank> ranks_with_directory(const VerifyOptions& options,
                                    const CheckpointOptions& checkpoint) {
  if (find_described_steps(options.source.path, checkpoint)) return {};
  const RankFiles found = find_source_files(options.source.path, checkpoint).found;
  std::set<Rank> ranks = found.ranks_with_directory;
  ranks.insert(found.ranks_of_other_series.begin(), found.ranks_of_other_series.end());
  return ranks;
}

void read_index_of(RankFile& file, const CheckpointOptions& options) {
  if (file.index) return;  // by the set's metadata
  try {
    file.index =
        std::make_shared<const FileIndex>(read_index(input_format_of(file.path), *file.source));
  } catch (Error& error) {
    if (options.decryption) options.decryption->explain(error);
    throw;
  }
}

using Failures = std::vector<std::optional<Error>>;

/// Calls work(i) for all files that have not failed; what it throws is noted.
void for_each_file(std::size_t files, std::size_t jobs, Failures& failures,
                   const std::function<void(std::size_t)>& work) {
  parallel_for(
      files,
      [&](std::size_t i) {
        if (failures[i]) return;
        try {
          work(i);
        } catch (const Error& error) {
          failures[i] = error;
        }
      },
      jobs);
}

/// The files of a set, or why not. If all are whole they share what is alike in their indexes.
std::vector<RankFile> open_files(const Discovery& found, CheckpointOptions options,
                                 std::size_t jobs, Failures& failures) {
  options.examine_all = true;
  std::vector<RankFile> files(found.files.size());
  failures.resize(files.size());
  for_each_file(files.size(), jobs, failures,
                [&](std::size_t i) { files[i] = open_rank_file(found.files[i], options); });
  for_each_file(files.size(), jobs, failures, [&](std::size_t i) {
    SavedBeside beside;
    open_if_torch(files[i], options, beside);
  });
  const bool all_open = std::none_of(failures.begin(), failures.end(),
                                     [](const auto& failure) { return failure.has_value(); });
  try {
    if (all_open) {
      read_indexes(files, options);
      return files;
    }
  } catch (const Error&) {
    // Below each file says for itself what is wrong.
  }
  for_each_file(files.size(), jobs, failures,
                [&](std::size_t i) { read_index_of(files[i], options); });
  return files;
}

/// Of a whole model in several files: what a file lacks that the map says it has.
void check_places(const Discovery& found, const std::vector<RankFile>& files,
                  VerifyReport& report) {
  for (const auto& [name, number] : found.places) {
    const RankFile& file = files[number];
    if (!file.index || file.index->lists(name)) continue;
    Problem problem;
    problem.kind = ProblemKind::kMissingPart;
    problem.file = file.path.string();
    problem.parameter = name;
    problem.message = "is missing from the file that the directory's name map lists for it";
    report.problems.push_back(std::move(problem));
  }
}

/// @return of each file, whether it has what the set's table says of it, if there is one.
std::vector<char> compare_with_table(const std::vector<FoundFile>& found,
                                     const std::vector<RankFile>& files, std::size_t jobs) {
  std::vector<char> fits(files.size(), 1);
  parallel_for(
      files.size(),
      [&](std::size_t i) {
        try {
          const auto& content = found[i].content;
          fits[i] =
              content == nullptr || content->examine(*files[i].source, /*read_all=*/true).empty();
        } catch (const Error&) {
          fits[i] = 0;
        }
      },
      jobs);
  return fits;
}

/// A key for files of which none is encrypted is a wrong option, and no damage.
/// @throws the first failure, if each file has failed for that.
void refuse_key(const Failures& failures) {
  const std::string message = not_encrypted({}).message();
  const auto is_plain = [&](const auto& failure) {
    return failure && failure->message() == message;
  };
  if (!failures.empty() && std::all_of(failures.begin(), failures.end(), is_plain)) {
    throw Error(*failures.front());
  }
}

/// A source that is something else altogether is no damaged checkpoint.
/// @throws the first failure, if each file is what another program keeps its data in.
void refuse_foreign(const std::vector<RankFile>& files, const Failures& failures) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const bool foreign = failures[i] && failures[i]->kind() != ErrorKind::kIo &&
                         files[i].source != nullptr && foreign_content(*files[i].source);
    if (!foreign) return;
  }
  if (!files.empty()) throw Error(*failures.front());
}

/// Nor is one that has nothing that can be read.
/// @throws the first failure, if all files fail because they cannot be read by their kind.
void refuse_unsupported(const Failures& failures) {
  const auto is_unsupported = [](const auto& failure) {
    return failure && failure->kind() == ErrorKind::kUnsupported;
  };
  if (!failures.empty() && std::all_of(failures.begin(), failures.end(), is_unsupported)) {
    throw Error(*failures.front());
  }
}

void show_dequantized(CheckpointSet& set, const VerifyOptions& options,
                      const CheckpointOptions& checkpoint, VerifyReport& report) {
  try {
    set.dequantize(options.source.path, checkpoint);
  } catch (const Error& error) {
    report.problems.push_back(problem_from(error));
  }
}

}  // namespace

Problem problem_from(const Error& error) {
  Problem problem;
  switch (error.kind()) {
    case ErrorKind::kIo:
    case ErrorKind::kChanged:
      problem.kind = ProblemKind::kIo;
      break;
    case ErrorKind::kInternal:
      throw error;
    case ErrorKind::kUnsupported:
      problem.kind = ProblemKind::kUnsupported;
      break;
    default:
      problem.kind = ProblemKind::kFile;
  }
  problem.file = error.file();
  problem.parameter = error.parameter();
  problem.offset = error.offset();
  problem.message = error.message();
  return problem;
}

VerifySource open_for_verify(const VerifyOptions& options, VerifyReport& report) {
  const CheckpointOptions checkpoint =
      listed_once(options.source.path, set_options(options.source));
  settled_source(options.source.path);  // for its errors: the path is settled
  if (auto warning = unfinished_download(options.source.path)) {
    report.warnings.push_back(std::move(*warning));
  }
  Discovery found = FileChoice(options, checkpoint, report).choose();
  raise_open_file_limit(found.files.size());
  Failures failures;
  std::vector<RankFile> files = open_files(found, checkpoint, options.jobs, failures);

  VerifySource out;
  out.step = found.step;
  out.files = found.files.size();
  const bool described = !found.files.empty() && found.files.front().content != nullptr;
  if (described && checkpoint.decryption) throw not_encrypted(options.source.path.string());
  std::set<Rank> empty = ranks_with_directory(options, checkpoint);
  for (const FoundFile& file : found.files) {
    out.paths.push_back(file.path);
    empty.erase(file.rank);
  }
  out.empty_ranks.assign(empty.begin(), empty.end());
  check_places(found, files, report);
  const std::vector<std::string> elsewhere = take_places(found.places, files);
  if (!elsewhere.empty()) report.warnings.push_back(in_two_files(elsewhere));
  if (auto warning = newer_than_table(found, files)) {
    report.warnings.push_back(std::move(*warning));
  }
  for (const FoundFile& file : found.missing) {
    Problem problem;
    problem.kind = ProblemKind::kFile;
    problem.rank = file.rank;
    problem.file = file.path.string();
    problem.message = "is missing, though the set's metadata names it";
    report.problems.push_back(std::move(problem));
  }
  refuse_foreign(files, failures);
  refuse_key(failures);
  refuse_unsupported(failures);
  std::vector<RankFile> readable;
  std::vector<FoundFile> read;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!failures[i]) {
      readable.push_back(std::move(files[i]));
      read.push_back(found.files[i]);
      continue;
    }
    Problem problem = problem_from(*failures[i]);
    problem.rank = found.files[i].rank;
    problem.file = found.files[i].path.string();
    report.problems.push_back(std::move(problem));
  }
  out.completeness = std::move(found.completeness);
  if (out.completeness.config.empty()) {
    out.completeness.config = config_of(options.source.path, checkpoint);
  }
  if (!readable.empty()) {
    const bool all = readable.size() == files.size();
    out.stored = stored_files(read, readable, found.catalogue.get());
    out.fits_table = compare_with_table(read, readable, options.jobs);
    auto set = std::make_shared<CheckpointSet>(std::move(readable), std::move(found.catalogue));
    // Without those that cannot be read, everything is smaller.
    if (all && found.by_contents) found.by_contents(set->files(), out.completeness);
    set->select_below(checkpoint);
    set->set_completeness(out.completeness);
    if (checkpoint.dequantize) show_dequantized(*set, options, checkpoint, report);
    out.set = std::move(set);
  }
  return out;
}

}  // namespace reshardfs
