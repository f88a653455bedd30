// SPDX-License-Identifier: Apache-2.0
#include "export/object_exporter.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/process/parallel.h"
#include "base/text/text.h"
#include "conversion/identity.h"
#include "export/begun_uploads.h"
#include "export/checksums.h"
#include "export/folder.h"
#include "export/object_folder.h"
#include "export/object_manifest.h"
#include "export/object_sums.h"
#include "export/other_object_manifests.h"
#include "export/planned_files.h"
#include "export/upload_job.h"
#include "transport/s3_objects.h"

namespace reshardfs {
namespace {

constexpr const char* kRankPrefix = "rank_";
constexpr const char* kPartsStay = "the parts that were sent stay in the store";

[[noreturn]] void throw_object_in_the_way(const std::filesystem::path& object,
                                          const std::string& what) {
  throw Error(ErrorKind::kUsage, what)
      .in_file(object)
      .hint("choose another prefix, or use --force to replace it");
}

class ObjectExporter {
 public:
  ObjectExporter(const Conversion& conversion, const ConversionOptions& conversion_options,
                 const ExportOptions& options)
      : options_(options),
        folder_(options.directory, conversion_options.source),
        planned_(conversion, options.share) {
    choose_workers();
    identity_ = conversion_identity(conversion_options, conversion.source_files());
  }

  ExportResult run() {
    const ObjectFolder::Objects objects = look();
    const OtherObjectManifests others(folder_, identity_, share_, objects, options_.force);
    ObjectManifest manifest(folder_, identity_, options_.force, share_);
    adopt(others.known(), manifest);
    examine(objects, manifest);
    if (share_ || options_.checksums) examine_checksums(objects, manifest, others.known());
    BegunUploads begun = take_begun_uploads(folder_, files_, pending_, result_.warnings);
    claim(manifest);
    write(manifest, begun);
    if (share_) {
      std::vector<std::string> paths;
      for (const OutputFile* file : files_) paths.push_back(file->path);
      manifest.complete(paths);
      result_.incomplete = write_shared_object_sums(folder_, identity_, *share_, others.known());
    } else {
      manifest.save();
      if (options_.checksums) {
        write_object_sums(folder_, sums_of_objects(folder_, manifest.entries()));
      }
    }
    warn_of_others(manifest);
    return std::move(result_);
  }

 private:
  using Uploads = std::vector<UploadJob*>;

  /// A worker has one part in memory.
  void choose_workers() {
    const OutputFile* largest = nullptr;
    std::uint64_t most = 1;
    for (const OutputFile* file : files_) {
      const std::uint64_t bytes = UploadJob::memory_for(file->file->size());
      if (bytes > most) {
        most = bytes;
        largest = file;
      }
    }
    if (most > options_.memory) {
      const std::uint64_t mebibytes = (most + (1U << 20U) - 1) >> 20U;
      throw Error(ErrorKind::kUsage,
                  fmt::format("is written in parts of {} MiB, for which the memory is not enough",
                              mebibytes))
          .in_file(folder_.shown(largest->path))
          .hint(fmt::format("use --memory {}MiB or more", mebibytes));
    }
    engine_ = options_.engine;
    engine_.workers =
        static_cast<std::size_t>(std::min<std::uint64_t>(engine_.workers, options_.memory / most));
  }

  /// What is there of this export, as the store lists it.
  ObjectFolder::Objects look() {
    std::set<std::string> own;
    for (const OutputFile* file : files_) own.insert(file->path);
    return folder_.list([&](const std::string& path) {
      if (path.starts_with(kRankPrefix)) found_tops_.insert(top_of(path));
      return path == kChecksumFile || path == Manifest::kName || share_of_manifest(path) ||
             own.contains(path);
    });
  }

  /// What the same conversion has written under another manifest need not be written again.
  void adopt(const Manifest::Entries& known, ObjectManifest& manifest) const {
    adopt_entries(planned_, known, [&](const std::string& path, const Manifest::Entry& entry) {
      const Manifest::Entry* own = manifest.find(path);
      if (own == nullptr || own->sha256.empty()) manifest.set(path, entry);
    });
  }

  /// Decides what is to be written; nothing is before all of it is known to be right.
  void examine(const ObjectFolder::Objects& objects, const ObjectManifest& manifest) {
    for (const OutputFile* file : files_) {
      const std::uint64_t size = file->file->size();
      const auto found = objects.find(file->path);
      const Manifest::Entry* known = manifest.find(file->path);
      if (found != objects.end() && known != nullptr && known->size == size &&
          is_recorded(found->second, *known)) {
        ++result_.kept_files;
        result_.kept_bytes = add_or_throw(result_.kept_bytes, size, "the export's size");
        continue;
      }
      // An entry without an ETag says that the export was about to write it.
      const bool is_own = known != nullptr && known->etag.empty();
      if (found != objects.end() && !is_own && !options_.force) {
        throw_object_in_the_way(folder_.shown(file->path),
                                known == nullptr
                                    ? "already exists, and this export has not written it"
                                    : "is not the object any more that the export has written");
      }
      pending_.push_back(file);
    }
  }

  void examine_checksums(const ObjectFolder::Objects& objects, const ObjectManifest& manifest,
                         const Manifest::Entries& known) const {
    if (!objects.contains(kChecksumFile)) return;
    if (!share_ && (options_.force || manifest.find(kChecksumFile) != nullptr)) return;
    Manifest::Entries entries = manifest.entries();
    entries.insert(known.begin(), known.end());
    for (const auto& [name, object] : objects) {
      const auto other = share_of_manifest(name);
      if (!share_ || !other || other->count != share_->share.count) continue;
      auto more = read_object_share(folder_, identity_, {*other, share_->files_sum}, false);
      if (more) entries.merge(*more);
    }
    const S3Name name = folder_.name(kChecksumFile);
    const auto text = read_s3_text(name, ObjectFolder::kMaxTextBytes);
    if (!text || has_only_lines_of(*text, entries)) return;
    if (!options_.force) throw_object_in_the_way(folder_.shown(kChecksumFile), "already exists");
    // It would tell whoever waits for the shares that all of them are complete.
    remove_s3_object(name);
  }

  void claim(ObjectManifest& manifest) const {
    for (const OutputFile* file : pending_) manifest.set(file->path, {file->file->size(), "", ""});
    if (!share_ && options_.checksums) manifest.set(kChecksumFile, {0, "", ""});
    // Nothing to claim: a share that is complete stays so.
    if (!pending_.empty() || !share_) manifest.save();
  }

  void write(ObjectManifest& manifest, BegunUploads& begun) {
    if (pending_.empty()) return;
    std::vector<std::unique_ptr<BlockJob>> jobs;
    Uploads uploads;
    std::uint64_t bytes = 0;
    for (const OutputFile* file : pending_) {
      auto left = begun.extract(file->path);
      auto job = std::make_unique<UploadJob>(
          folder_, *file, manifest, left ? std::optional(std::move(left.mapped())) : std::nullopt);
      uploads.push_back(job.get());
      jobs.push_back(std::move(job));
      bytes = add_or_throw(bytes, file->file->size(), "the export's size");
    }
    if (engine_.progress != nullptr) engine_.progress->start("writing", bytes, jobs.size());
    run(jobs, uploads, manifest);
    result_.written_files = jobs.size();
    for (const UploadJob* upload : uploads) note_resumed(*upload);
    result_.written_bytes = bytes - result_.resumed_bytes;
  }

  /// Parts stay in the store only where the same command can go on with them.
  void run(const std::vector<std::unique_ptr<BlockJob>>& jobs, const Uploads& uploads,
           ObjectManifest& manifest) const {
    try {
      run_blocks(jobs, engine_);
    } catch (const Interrupted&) {
      throw Interrupted(leave(uploads, manifest) ? kPartsStay : "");
    } catch (const Error& error) {
      // What is no failure of a device, such as a source that has changed, does not pass.
      if (error.kind() != ErrorKind::kIo) {
        abandon(uploads, manifest);
        throw;
      }
      if (!leave(uploads, manifest)) throw;
      Error told = error;
      throw Error(told.explain(std::string("; ") + kPartsStay)
                      .hint("run the same command again to go on with them"));
    } catch (...) {
      abandon(uploads, manifest);
      throw;
    }
  }

  /// @return whether there are parts to go on with.
  bool leave(const Uploads& uploads, ObjectManifest& manifest) const {
    std::atomic<bool> stay{false};
    parallel_for(
        uploads.size(),
        [&](std::size_t i) {
          if (uploads[i]->leave()) stay = true;
        },
        engine_.workers);
    save_what_there_is(manifest);
    return stay;
  }

  void abandon(const Uploads& uploads, ObjectManifest& manifest) const {
    parallel_for(
        uploads.size(), [&](std::size_t i) { uploads[i]->abandon(); }, engine_.workers);
    save_what_there_is(manifest);
  }

  void note_resumed(const UploadJob& upload) {
    result_.resumed_bytes += upload.resumed_bytes();
    if (upload.replaced_parts() == 0) return;
    result_.warnings.push_back(
        "'" + printable(upload.name()) +
        "': " + counted(static_cast<std::size_t>(upload.replaced_parts()), "part") +
        " that an interrupted export has left did not match, and had to be sent again");
  }

  /// After a failure, which is told even if this fails, too.
  static void save_what_there_is(ObjectManifest& manifest) noexcept {
    try {
      manifest.save();
    } catch (...) {
      // What it lacks is written again.
    }
  }

  /// Loaders take every rank directory that they find.
  void warn_of_others(const ObjectManifest& manifest) {
    std::set<std::string> own = planned_.tops;
    for (const auto& [path, entry] : manifest.entries()) own.insert(top_of(path));
    for (const std::string& name : found_tops_) {
      if (own.contains(name)) continue;
      result_.warnings.push_back("'" + printable(name) +
                                 "' under the prefix does not belong to this conversion");
    }
  }

  const ExportOptions& options_;
  ObjectFolder folder_;
  PlannedFiles planned_;
  const std::vector<const OutputFile*>& files_ = planned_.files;
  const std::optional<SharePlan>& share_ = planned_.share;
  BlockEngineOptions engine_;
  nlohmann::ordered_json identity_;
  std::vector<const OutputFile*> pending_;  ///< those of them that are to be written
  std::set<std::string> found_tops_;        ///< of rank directories that are there
  ExportResult result_;
};

}  // namespace

ExportResult export_to_store(const Conversion& conversion,
                             const ConversionOptions& conversion_options,
                             const ExportOptions& options) {
  return ObjectExporter(conversion, conversion_options, options).run();
}

}  // namespace reshardfs
