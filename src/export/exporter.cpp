// SPDX-License-Identifier: Apache-2.0
#include "export/exporter.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/process/parallel.h"
#include "base/text/file_name.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "conversion/identity.h"
#include "export/checksums.h"
#include "export/folder_target.h"
#include "export/manifest.h"
#include "export/object_target.h"
#include "export/other_manifests.h"
#include "export/planned_files.h"
#include "export/read_back.h"
#include "export/target.h"
#include "view/view.h"

namespace reshardfs {
namespace {

/// The directory of several views.
constexpr std::string_view kMerged = "merged";

std::unique_ptr<const Target> target_of(const ExportOptions& options,
                                        const std::filesystem::path& source) {
  if (is_url(options.directory)) {
    return std::make_unique<const ObjectTarget>(options.directory, source);
  }
  return std::make_unique<const FolderTarget>(
      options.directory, source, options.share ? LockMode::kShared : LockMode::kExclusive,
      FolderWays{options.reflink, options.share || options.checksums});
}

std::uint64_t bytes_of(const OutputFiles& files) {
  std::uint64_t bytes = 0;
  for (const OutputFile* file : files) {
    bytes = add_or_throw(bytes, file->file->size(), "the export's size");
  }
  return bytes;
}

/// Empty: there is none, or JSON cannot have its names.
std::string strategy_of(const Conversion& conversion) {
  try {
    return conversion.target_strategy();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return {};
  }
}

class Exporter {
 public:
  Exporter(const Conversion& conversion, const ConversionOptions& conversion_options,
           const ExportOptions& options)
      : conversion_(conversion),
        options_(options),
        target_(target_of(options, conversion_options.source.path)),
        planned_(conversion, options.share),
        engine_(target_->engine(files_, options.engine, options.memory)),
        identity_(conversion_identity(conversion_options, conversion.source_files(),
                                      ConversionAccess::inputs(conversion))),
        strategy_(has_ranks() ? strategy_of(conversion) : std::string()) {}

  ExportResult run() {
    if (options_.force) remove_former();
    // A store has no locks: another process may write a manifest and then a file at any time. Of a
    // file that was seen first, the manifest tells that it is about to be written.
    const bool has_locks = !is_url(options_.directory);
    Target::Listing there = has_locks ? Target::Listing{} : look();
    const OtherManifests others(*target_, identity_, share_, options_.force);
    Manifest manifest(*target_, identity_, options_.force, share_, strategy_);
    adopt(others.known(), manifest);
    if (!options_.force) {
      require_all_shown(manifest.entries());
      require_readable(manifest.entries(), {});
    }
    if (has_locks) there = look();
    const OutputFiles pending = target_->choose(files_, there, options_.force, manifest, engine_);
    if (has_sums()) examine_sums(there, manifest, others);
    announce(pending, manifest);
    write(pending, manifest);
    target_->sync(files_);
    if (share_) {
      manifest.complete(paths());
      result_.incomplete = write_shared_sums(*target_, identity_, *share_, others.known());
    } else {
      finish(manifest);
    }
    warn_of_others(there, manifest);
    return std::move(result_);
  }

 private:
  bool has_ranks() const {
    return std::any_of(planned_.tops.begin(), planned_.tops.end(),
                       [](const std::string& name) { return name.starts_with(kRankPrefix); });
  }
  bool has_sums() const { return share_ || options_.checksums; }

  std::set<std::string> paths() const {
    std::set<std::string> paths;
    for (const OutputFile* file : files_) paths.insert(file->path);
    return paths;
  }

  /// Files that an export of the same conversion has written beside those of this one, in the
  /// directory of a single view, and that the view no longer has: companions of the model that were
  /// removed since.
  std::set<std::string> no_longer_shown(const Manifest::Entries& known) const {
    std::set<std::string> shown;
    for (const OutputFile* file : exported_files(conversion_)) shown.insert(file->path);
    std::set<std::string> gone;
    for (const auto& [path, entry] : known) {
      const std::string top = top_of(path);
      const bool is_of_one_view = top != kMerged && !top.starts_with(kRankPrefix);
      if (is_of_one_view && planned_.tops.contains(top) && !shown.contains(path)) gone.insert(path);
    }
    return gone;
  }

  void require_all_shown(const Manifest::Entries& known) const {
    const std::set<std::string> gone = no_longer_shown(known);
    if (gone.empty()) return;
    throw Error(ErrorKind::kUsage, "the directory holds the export of another conversion ('" +
                                       printable(*gone.begin()) + "' is no longer shown)")
        .in_file(options_.directory)
        .hint("choose another directory, or use --force to replace it");
  }

  /// The check is for directories; a store need not be readable as one.
  void require_readable(const Manifest::Entries& known, std::set<std::string> removed) const {
    if (is_url(options_.directory)) return;
    ComingFiles coming;
    for (const OutputFile* file : exported_files(conversion_)) {
      coming.written.emplace(file->path, file->file.get());
    }
    for (const auto& [path, entry] : known) coming.known.insert(path);
    coming.removed = std::move(removed);
    require_read_back(without_trailing_slash(target_->shown({})), coming);
  }

  /// Removes what exports of other conversions have written, by their manifests, and this one does
  /// not write. Before those manifests are replaced.
  void remove_former() {
    Manifest::Entries former =
        listed_by_manifests(*target_, [](const JsonValue& /*header*/) { return true; });
    const Manifest::Entries own = listed_by_manifests(*target_, same_conversion(identity_));
    for (const OutputFile* file : exported_files(conversion_)) former.erase(file->path);
    const std::set<std::string> gone = no_longer_shown(own);
    for (const auto& [path, entry] : own) {
      if (!gone.contains(path)) former.erase(path);
    }
    former.erase(kChecksumFile);
    const std::set<std::string> removed = target_->removable(former, conversion_.source_files());
    require_readable(own, removed);
    target_->remove_files(removed);
    result_.removed_files = removed.size();
    // It lists them, and what it says of the others is found out again.
    if (!gone.empty())
      target_->remove(manifest_name(share_ ? std::optional(share_->share) : std::nullopt));
    for (const std::string& path : gone) {
      if (removed.contains(path)) continue;
      result_.warnings.push_back("'" + printable(path) + "' " + target_->words().inside +
                                 " is no longer shown; remove it");
    }
  }

  /// What an export of the same conversion has written under another manifest need be neither
  /// written again nor compared with the source.
  void adopt(const Manifest::Entries& known, Manifest& manifest) const {
    const std::set<std::string> paths = this->paths();
    for (const auto& [path, entry] : known) {
      if (share_ && !paths.contains(path)) continue;
      const auto own = manifest.find(path);
      const bool knows_more = !own || (own->sha256.empty() && !entry.sha256.empty()) ||
                              (!own->has_sum() && entry.has_sum());
      if (knows_more) manifest.set(path, entry);
    }
  }

  Target::Listing look() const {
    std::set<std::string> wanted = paths();
    if (has_sums()) wanted.insert(kChecksumFile);
    return target_->list(wanted);
  }

  /// The sums may be replaced if this export has written them, even where the manifest has lost the
  /// line that says so.
  void examine_sums(const Target::Listing& there, const Manifest& manifest,
                    const OtherManifests& others) const {
    const auto sums = there.files.find(kChecksumFile);
    if (sums == there.files.end()) return;
    if (!share_ && (options_.force || manifest.find(kChecksumFile))) return;
    Manifest::Entries entries = manifest.entries();
    others.add_all(entries, options_.force);
    if (has_only_sums_of(*target_, sums->second, entries)) return;
    if (!options_.force) throw_in_the_way(*target_, kChecksumFile, "already exists");
    // They would tell a process that waits for the shares that all of them are complete.
    target_->remove(kChecksumFile);
  }

  /// Says what is about to be written where an entry may be there later than the file.
  void announce(const OutputFiles& pending, Manifest& manifest) const {
    if (manifest.appends()) return;
    for (const OutputFile* file : pending) manifest.set(file->path, {file->file->size(), "", ""});
    if (!share_ && options_.checksums) manifest.set(kChecksumFile, {0, "", ""});
    // Nothing to say: a share that is complete stays so.
    if (!pending.empty() || !share_) manifest.save();
  }

  void write(const OutputFiles& pending, Manifest& manifest) {
    const std::uint64_t bytes = bytes_of(pending);
    std::vector<std::unique_ptr<BlockJob>> jobs;
    std::vector<WriteJob*> writes;
    for (auto& job :
         target_->jobs(files_, pending, options_.force, manifest, engine_, result_.warnings)) {
      writes.push_back(job.get());
      jobs.push_back(std::move(job));
    }
    if (!jobs.empty()) {
      if (engine_.progress != nullptr) engine_.progress->start("writing", bytes, jobs.size());
      run(jobs, writes, manifest);
    }
    result_.kept_files = files_.size() - pending.size();
    result_.kept_bytes = bytes_of(files_) - bytes;
    result_.written_files = jobs.size();
    for (const WriteJob* job : writes) {
      note_resumed(*job, target_->words(), result_);
      result_.shared_bytes += job->shared_bytes();
    }
    result_.written_bytes = bytes - result_.resumed_bytes;
  }

  void run(const std::vector<std::unique_ptr<BlockJob>>& jobs, const std::vector<WriteJob*>& writes,
           Manifest& manifest) const {
    run_writes(jobs, writes, engine_, target_->words().stays, [&] {
      if (!manifest.appends()) manifest.save();
    });
  }

  void finish(Manifest& manifest) {
    std::string sums;
    if (options_.checksums) {
      warn_of_unknown_sums(manifest);
      // All that the manifest knows: the ranks may have been exported one by one.
      sums = sums_of(*target_, manifest.entries());
      if (!manifest.find(kChecksumFile)) manifest.set(kChecksumFile, {sums.size(), "", ""});
    }
    // A machine that goes down must not keep the sums and lose what they are known by.
    manifest.save();
    if (options_.checksums) target_->put(kChecksumFile, sums);
  }

  /// Of files that earlier exports have shared with the source.
  void warn_of_unknown_sums(const Manifest& manifest) {
    std::size_t unknown = 0;
    for (const auto& [path, entry] : manifest.entries()) {
      if (path != kChecksumFile && entry.sha256.empty()) ++unknown;
    }
    if (unknown == 0) return;
    result_.warnings.push_back(std::string(kChecksumFile) + " lacks " + counted(unknown, "file") +
                               " that an export without --checksum has written; export them again "
                               "with --checksum");
  }

  /// Loaders take every rank directory that they find.
  void warn_of_others(const Target::Listing& there, const Manifest& manifest) {
    std::set<std::string> own = planned_.tops;
    for (const auto& [path, entry] : manifest.entries()) own.insert(top_of(path));
    for (const std::string& name : there.ranks) {
      if (own.contains(name)) continue;
      result_.warnings.push_back("'" + printable(name) + "' " + target_->words().inside +
                                 " does not belong to this conversion");
    }
  }

  const Conversion& conversion_;
  const ExportOptions& options_;
  std::unique_ptr<const Target> target_;
  PlannedFiles planned_;
  const OutputFiles& files_ = planned_.files;
  const std::optional<SharePlan>& share_ = planned_.share;
  BlockEngineOptions engine_;
  std::string identity_;
  std::string strategy_;
  ExportResult result_;
};

}  // namespace

ExportResult export_conversion(const Conversion& conversion,
                               const ConversionOptions& conversion_options,
                               const ExportOptions& options) {
  return Exporter(conversion, conversion_options, options).run();
}

namespace {

/// @param leave what can be gone on with.
/// @return whether there is any that has been left.
bool end(const std::vector<WriteJob*>& writes, std::size_t workers, bool leave,
         const std::function<void()>& at_failure) {
  std::atomic<bool> stays{false};
  parallel_for(
      writes.size(),
      [&](std::size_t i) {
        if (!leave) {
          writes[i]->abandon();
        } else if (writes[i]->leave()) {
          stays = true;
        }
      },
      workers);
  try {
    at_failure();
  } catch (...) {
    // What it lacks is written again, and the failure before this one is told.
  }
  return stays;
}

}  // namespace

void run_writes(const std::vector<std::unique_ptr<BlockJob>>& jobs,
                const std::vector<WriteJob*>& writes, const BlockEngineOptions& engine,
                const char* stays, const std::function<void()>& at_failure) {
  try {
    run_blocks(jobs, engine);
  } catch (const Interrupted&) {
    throw Interrupted(end(writes, engine.workers, /*leave=*/true, at_failure) ? stays : "");
  } catch (const Error& error) {
    const bool is_full = std::any_of(writes.begin(), writes.end(), [](const WriteJob* job) {
      return job->has_failed_to_write();
    });
    // What is no failure of a device, such as a source that has changed, does not pass.
    const bool leave = error.kind() == ErrorKind::kIo && !is_full;
    if (!end(writes, engine.workers, leave, at_failure)) throw;
    Error told = error;
    throw Error(told.explain(std::string("; ") + stays)
                    .hint("run the same command again to go on with them"));
  } catch (...) {
    end(writes, engine.workers, /*leave=*/false, at_failure);
    throw;
  }
}

void note_resumed(const WriteJob& job, const Target::Words& words, ExportResult& result) {
  result.resumed_bytes += job.resumed_bytes();
  if (job.damaged_blocks() == 0) return;
  result.warnings.push_back("'" + printable(job.name()) + "': " +
                            counted(static_cast<std::size_t>(job.damaged_blocks()), words.block) +
                            " that an interrupted export has left did not match, and had to be " +
                            words.written + " again");
}

}  // namespace reshardfs
