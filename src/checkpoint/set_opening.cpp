// SPDX-License-Identifier: Apache-2.0
/// From a path to a set: CheckpointSet::open(), which throws the first thing that is wrong, and
/// open_readable(), which notes all of them.
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/process/resource_limits.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/indexes/index_cache.h"
#include "checkpoint/indexes/index_reader.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/set_age.h"
#include "checkpoint/set_faults.h"
#include "checkpoint/source_links.h"
#include "checkpoint/stated_crcs.h"
#include "checkpoint/torch/torch_file.h"
#include "checkpoint/whole/placed_names.h"
#include "format/foreign_content.h"
#include "storage/local/hub_cache.h"

namespace reshardfs {
namespace {

/// @return a warning if any file states no CRC. @throws Error if a file does not match its CRC.
std::optional<std::string> require_crcs(std::span<const StoredFile> files, std::size_t threads) {
  const std::vector<CrcFinding> findings = compare_crcs(files, threads, nullptr);
  std::size_t without = 0;
  const StoredFile* first = nullptr;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (findings[i].error) throw Error(*findings[i].error);
    if (findings[i].check == CrcCheck::kGood) continue;
    if (without++ == 0) first = &files[i];
  }
  // MindSpore, too, loads a file without one when it is told to check CRCs.
  if (without == 0) return std::nullopt;
  if (without == files.size()) {
    return "--check-crc checks nothing: no file of the checkpoint has a CRC";
  }
  return "--check-crc: CRC good in " + counted(files.size() - without, "file") + ", none in " +
         counted(without, "file") + ", such as " + printable(first->path.string());
}

RankFile open_as_it_is(const FoundFile& found) {
  RankFile file;
  file.rank = found.rank;
  file.part = found.part;
  file.path = found.path;
  if (found.content) file.source = found.content->opened();
  if (!file.source) file.source = open_file(found.path, found.tree);
  return file;
}

/// Gives the file what the set's metadata states about it.
void describe(RankFile& file, const FoundFile& found) {
  if (!found.content) return;
  file.index = found.content->index();
  file.source = found.content->tensors(std::move(file.source));
  if (found.content->is_torch(file.path)) file.saved = file.source;
}

/// Looking at so many places of local files takes less than a second, even if none is in memory.
constexpr std::size_t kCheapPlaces = 2000;

bool are_cheap(const std::vector<FoundFile>& files) {
  std::size_t places = 0;
  for (const FoundFile& file : files) places += file.content ? file.content->places() : 0;
  return places <= kCheapPlaces;
}

void make_plain(RankFile& file, const CheckpointOptions& options) {
  if (file.index || !input_format_of(file.path).may_be_encrypted) {
    if (options.decryption) throw not_encrypted(file.source->name());
    return;
  }
  file.source = open_plain(std::move(file.source), options.decryption);
}

bool any_of_torch(const std::vector<RankFile>& files) {
  return std::any_of(files.begin(), files.end(),
                     [](const RankFile& file) { return file.of_torch(); });
}

void note_snapshot(const std::filesystem::path& source, Discovery& found) {
  const std::string words = snapshot_words(source);
  if (!words.empty()) found.notes.push_back("using " + words);
  if (auto warning = unfinished_download(source)) found.warnings.push_back(std::move(*warning));
}

/// Whether each name is in the file whose number stands beside it.
bool are_in_place(const std::vector<std::pair<std::string_view, std::size_t>>& places,
                  const std::vector<RankFile>& files) {
  std::unordered_map<std::string_view, std::size_t> wanted;
  wanted.reserve(places.size());
  for (const auto& [name, number] : places) {
    if (!wanted.emplace(name, number).second) return false;
  }
  const auto take = [&](std::string_view name, std::size_t number) {
    const auto place = wanted.find(name);
    if (place != wanted.end() && place->second == number) wanted.erase(place);
  };
  for (std::size_t i = 0; i < files.size() && !wanted.empty(); ++i) {
    for (const TensorEntry& entry : files[i].index->entries()) take(entry.name, i);
    for (const RefusedTensor& tensor : files[i].index->refused()) take(tensor.name, i);
  }
  return wanted.empty();
}

using Failures = std::vector<std::optional<Error>>;

/// A source that is something else altogether, or whose files need or take no key, is no damaged
/// set. @throws the first failure, if each file has failed for that.
void refuse_other_kinds(const std::vector<RankFile>& files, const Failures& failures) {
  if (failures.empty()) return;
  const auto require_other = [&](const auto& fails_for_it) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (!failures[i] || !fails_for_it(files[i], *failures[i])) return;
    }
    throw Error(*failures.front());
  };
  require_other([](const RankFile& file, const Error& error) {
    return error.kind() != ErrorKind::kIo && file.source != nullptr &&
           foreign_content(*file.source);
  });
  require_other([message = not_encrypted({}).message()](const RankFile&, const Error& error) {
    return error.message() == message;
  });
  require_other(
      [](const RankFile&, const Error& error) { return error.kind() == ErrorKind::kUnsupported; });
}

}  // namespace

class CheckpointSet::Opening {
 public:
  /// @param faults gets what is wrong; nullptr: the first is thrown.
  Opening(const std::filesystem::path& named, const CheckpointOptions& options, SetFaults* faults)
      : path_(settled_source(named)), options_(options), faults_(faults) {
    // A search for faults examines all files now instead of in later reads.
    if (faults_ != nullptr) options_.examine_all = true;
  }

  /// @return nothing if there are faults, and no file is readable.
  std::optional<CheckpointSet> run();

 private:
  /// Servers answer many requests at once.
  std::size_t threads() const {
    if (options_.threads != 0 || found_.files.empty()) return options_.threads;
    return is_url(found_.files.front().path) ? kRequestsAtOnce : 0;
  }
  /// Calls work(i) for each file that is not known to be bad.
  void for_each_file(const std::function<void(std::size_t)>& work);
  bool any_failed() const;
  /// The first fault ends the opening, or all are noted.
  void report(FaultKind kind, std::optional<Rank> rank, Error error);
  void require_stated() const;
  void open_files();
  void read_all_indexes(const IndexCache& cache);
  void require_places();
  void drop_unreadable();
  void note_contents();
  CheckpointSet make_set();

  std::filesystem::path path_;
  CheckpointOptions options_;
  SetFaults* faults_;
  Discovery found_{};
  bool is_described_ = false;
  std::vector<RankFile> files_{};
  Failures failures_{};
  bool lacks_files_ = false;  ///< because they could not be read
  SavedBeside beside_{};
  std::vector<std::vector<RefusedTensor>> unreadable_{};
  std::optional<ObjectKey> identity_{};
  std::vector<std::string> warnings_{};
};

void CheckpointSet::Opening::for_each_file(const std::function<void(std::size_t)>& work) {
  parallel_for(
      found_.files.size(),
      [&](std::size_t i) {
        if (failures_[i]) return;
        try {
          work(i);
        } catch (Error& error) {
          error.in_file(found_.files[i].path.string());
          if (faults_ == nullptr) throw;
          failures_[i] = error;
        }
      },
      threads());
}

bool CheckpointSet::Opening::any_failed() const {
  return std::any_of(failures_.begin(), failures_.end(),
                     [](const auto& failure) { return failure.has_value(); });
}

void CheckpointSet::Opening::report(FaultKind kind, std::optional<Rank> rank, Error error) {
  if (faults_ == nullptr) throw Error(error);
  faults_->list.push_back({kind, rank, std::move(error)});
}

/// What is missing by names and tables is part of the statement, which a lenient caller gets.
void CheckpointSet::Opening::require_stated() const {
  if (faults_ != nullptr || found_.completeness.missing.empty()) return;
  throw Error(found_.completeness.missing.front());
}

void CheckpointSet::Opening::open_files() {
  files_.resize(found_.files.size());
  failures_.resize(files_.size());
  unreadable_.resize(is_described_ ? files_.size() : 0);
  const bool cheap = are_cheap(found_.files);
  for_each_file([&](std::size_t i) {
    files_[i] = open_as_it_is(found_.files[i]);
    if (!found_.files[i].content) return;
    describe(files_[i], found_.files[i]);
    const ByteSource& tensors = *files_[i].source;
    if (faults_ != nullptr) return;
    unreadable_[i] = found_.files[i].content->examine(tensors, cheap && !tensors.is_far());
  });
  // Nothing is kept of what is decrypted, and what is kept hides what has become of the files.
  const bool may_keep = !options_.decryption && !is_described_ && faults_ == nullptr;
  const IndexCache cache = may_keep ? IndexCache(files_) : IndexCache();
  std::vector<SavedBeside> beside(files_.size());
  if (!is_described_ && !cache.load(files_, options_)) {
    for_each_file([&](std::size_t i) {
      make_plain(files_[i], options_);
      open_if_torch(files_[i], options_, beside[i]);
    });
    read_all_indexes(cache);
  }
  if (!any_of_torch(files_)) identity_ = cache.key();
  beside.push_back(std::move(found_.beside));
  beside_ = joined(std::move(beside));
}

/// If all files are whole, they share what is alike in their indexes.
void CheckpointSet::Opening::read_all_indexes(const IndexCache& cache) {
  if (!any_failed()) {
    try {
      const Likenesses likenesses = read_indexes(files_, options_);
      // What lies behind the end of a file of torch.save is not kept with its index.
      if (!any_of_torch(files_)) cache.store(files_, likenesses);
      return;
    } catch (const Error&) {
      if (faults_ == nullptr) throw;
      // Below, each file says for itself what is wrong.
    }
  }
  for_each_file([&](std::size_t i) {
    RankFile& file = files_[i];
    if (file.index) return;  // by the set's metadata, or of torch.save
    try {
      file.index =
          std::make_shared<const FileIndex>(read_index(input_format_of(file.path), *file.source));
    } catch (Error& error) {
      if (options_.decryption) options_.decryption->explain(error);
      throw;
    }
  });
}

/// A map that does not fit its files may belong to another version of the model.
void CheckpointSet::Opening::require_places() {
  const bool fits = !any_failed() && (are_all_in_place(found_.places, files_) ||
                                      are_in_place(found_.places, files_));
  if (fits) return;
  for (const auto& [name, number] : found_.places) {
    const RankFile& file = files_[number];
    if (failures_[number] || file.index->lists(name)) continue;
    report(FaultKind::kMissingPart, std::nullopt,
           Error(ErrorKind::kBadInput,
                 "is missing from the file that the directory's name map lists for it")
               .in_file(file.path.string())
               .for_parameter(std::string(name))
               .hint("bring the map and the files of one version of the model"));
  }
}

void CheckpointSet::Opening::drop_unreadable() {
  if (!any_failed()) return;
  refuse_other_kinds(files_, failures_);
  lacks_files_ = true;
  std::vector<RankFile> files;
  std::vector<FoundFile> found;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (failures_[i]) {
      report(FaultKind::kFile, found_.files[i].rank, std::move(*failures_[i]));
      continue;
    }
    files.push_back(std::move(files_[i]));
    found.push_back(std::move(found_.files[i]));
  }
  files_ = std::move(files);
  found_.files = std::move(found);
}

/// Notes what a check of the bytes needs to know of the files.
void CheckpointSet::Opening::note_contents() {
  faults_->stored = stored_files(found_.files, files_, found_.catalogue.get());
  faults_->fits_table.assign(files_.size(), 1);
  parallel_for(
      files_.size(),
      [&](std::size_t i) {
        const auto& content = found_.files[i].content;
        try {
          const bool fits =
              content == nullptr || content->examine(*files_[i].source, /*read_all=*/true).empty();
          faults_->fits_table[i] = fits ? 1 : 0;
        } catch (const Error&) {
          faults_->fits_table[i] = 0;
        }
      },
      threads());
}

CheckpointSet CheckpointSet::Opening::make_set() {
  CheckpointSet set(std::move(files_), std::move(found_.catalogue), identity_);
  // Without the files that cannot be read, everything is smaller.
  if (found_.by_contents && !lacks_files_) found_.by_contents(set.files(), found_.completeness);
  require_stated();
  set.select_below(options_);
  unreadable_.push_back(std::move(set.unreadable_));
  set.set_completeness(found_.completeness);
  try {
    if (options_.dequantize || !options_.quantize.empty()) set.show_weights(path_, options_);
  } catch (Error& error) {
    report(FaultKind::kFile, std::nullopt, std::move(error));
  }
  set.unreadable_ = once_each(unreadable_);
  set.root_ = path_;
  set.found_by_ = std::move(found_.found_by);
  set.described_by_ = found_.format;
  set.step_described_by_ = found_.step_format;
  set.kind_takes_state_key_ = found_.takes_state_key;
  set.applies_state_key_ = found_.applies_state_key;
  set.step_ = found_.step;
  set.steps_ = std::move(found_.steps);
  set.series_ = std::move(found_.series);
  set.adapter_ = std::move(found_.adapter);
  set.compare_copies_ = std::move(found_.compare_copies);
  set.state_prefixes_ = std::move(found_.state_prefixes);
  set.notes_ = std::move(found_.notes);
  for (std::string& note : notes_of(beside_, options_)) set.notes_.push_back(std::move(note));
  if (options_.decryption && !options_.decryption->warning().empty()) {
    set.notes_.push_back(options_.decryption->warning());
  }
  set.beside_ = std::move(beside_);
  set.warnings_ = warnings_;
  return set;
}

std::optional<CheckpointSet> CheckpointSet::Opening::run() {
  found_ = discover(path_, options_, faults_);
  note_snapshot(path_, found_);
  require_stated();
  raise_open_file_limit(found_.files.size());
  is_described_ = std::any_of(found_.files.begin(), found_.files.end(),
                              [](const FoundFile& file) { return file.content != nullptr; });
  if (is_described_ && options_.decryption) throw not_encrypted(path_.string());
  if (faults_ != nullptr) {
    faults_->step = found_.step;
    for (const FoundFile& file : found_.files) faults_->paths.push_back(file.path);
  }
  open_files();
  warnings_ = std::move(found_.warnings);
  require_places();
  const std::vector<std::string> elsewhere = take_places(found_.places, files_);
  if (!elsewhere.empty()) warnings_.push_back(in_two_files(elsewhere));
  if (auto warning = newer_than_table(found_, files_)) warnings_.push_back(std::move(*warning));
  if (faults_ != nullptr) {
    for (const FoundFile& file : found_.missing) {
      report(FaultKind::kFile, file.rank,
             Error(ErrorKind::kMissing, "is missing, though the set's metadata names it")
                 .in_file(file.path.string()));
    }
    drop_unreadable();
  }
  const bool has_state = found_.catalogue || any_of_torch(files_);
  if (has_state && faults_ == nullptr) {
    require_state(files_, options_, beside_, found_.applies_state_key);
  }
  if (options_.check_crc && faults_ == nullptr) {
    const auto stored = stored_files(found_.files, files_, found_.catalogue.get());
    if (auto none = require_crcs(stored, threads())) {
      warnings_.push_back(std::move(*none));
    }
  }
  if (found_.completeness.config.empty()) {
    found_.completeness.config = config_of(path_, options_);
  }
  std::optional<CheckpointSet> set;
  if (faults_ == nullptr) return make_set();
  if (!files_.empty()) {
    note_contents();
    set = make_set();
  }
  faults_->completeness = std::move(found_.completeness);
  faults_->warnings = std::move(warnings_);
  return set;
}

CheckpointSet CheckpointSet::open(const std::filesystem::path& path,
                                  const CheckpointOptions& options) {
  return *Opening(path, options, nullptr).run();
}

std::shared_ptr<CheckpointSet> CheckpointSet::open_readable(const std::filesystem::path& path,
                                                            const CheckpointOptions& options,
                                                            SetFaults& faults) {
  std::optional<CheckpointSet> set = Opening(path, options, &faults).run();
  return set ? std::make_shared<CheckpointSet>(*std::move(set)) : nullptr;
}

}  // namespace reshardfs
