// SPDX-License-Identifier: Apache-2.0
#include "export/exporter.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/sha256.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "conversion/identity.h"
#include "export/block_journal.h"
#include "export/checksums.h"
#include "export/existing_file.h"
#include "export/folder.h"
#include "export/manifest.h"
#include "export/object_exporter.h"
#include "export/other_manifests.h"
#include "export/partial_file.h"
#include "export/planned_files.h"
#include "export/shared_sums.h"
#include "export/target_directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using Jobs = std::vector<std::unique_ptr<BlockJob>>;

constexpr const char* kBlocksStay = "the blocks that were written stay in the output directory";

/// Text that is written like any other file.
void write_text(const Folder& folder, const std::string& name, const std::string& text) {
  PartialFile file(folder.make({}), name, text.size());
  file.write_at(0, std::as_bytes(std::span(text)));
  file.sync();
  file.commit(/*replace=*/true);
}

struct Item {
  const OutputFile* output = nullptr;
  fs::path path{};  ///< below the output directory
  Standing standing = Standing::kMissing;
  /// Of the file that is there; of what should be there, from the manifest or the source.
  std::string found_sha256{};
  std::string wanted_sha256{};
  bool is_begun = false;  ///< a partial file and its journal are there

  bool is_kept() const { return standing == Standing::kSameSize && found_sha256 == wanted_sha256; }
};

class HashJob final : public BlockJob {
 public:
  HashJob(std::shared_ptr<const VirtualFile> file, const std::string& name, std::string& result)
      : file_(std::move(file)), name_(name), result_(result) {}

  const VirtualFile& file() const override { return *file_; }
  const std::string& name() const override { return name_; }
  void finish(const std::string& sha256) override {
    result_ = sha256;
    file_.reset();
  }

 private:
  std::shared_ptr<const VirtualFile> file_;
  const std::string& name_;
  std::string& result_;
};

std::string subject_of(const std::string& identity, const std::string& path) {
  const std::string text = identity + "\n" + path;
  return sha256_of(std::as_bytes(std::span(text)));
}

/// What all files of an export have in common.
struct Writing {
  bool replace = false;
  /// kMany: of a share, whose process of an earlier run may still live elsewhere. It writes the
  /// same bytes, so whoever is last may replace the file.
  Writers writers = Writers::kOne;
  std::string identity{};  ///< of all that is exported: short
  std::size_t block_bytes = 0;
};

class WriteJob final : public BlockJob {
 public:
  WriteJob(const Folder& root, const Item& item, Manifest& manifest, const Writing& writing)
      : root_(root),
        item_(item),
        manifest_(manifest),
        replace_(writing.replace || writing.writers == Writers::kMany),
        writers_(writing.writers),
        subject_{subject_of(writing.identity, item.output->path), item.output->file->size()},
        block_bytes_(writing.block_bytes) {
    if (item.is_begun) resume();
  }
  WriteJob(const WriteJob&) = delete;
  WriteJob& operator=(const WriteJob&) = delete;
  ~WriteJob() override {
    if (journal_) journal_->remove();
  }

  const VirtualFile& file() const override { return *item_.output->file; }
  const std::string& name() const override { return item_.output->path; }
  std::size_t block_bytes() const override { return block_bytes_; }
  void begin() override {
    if (journal_) return;
    const TargetCall call(*this);
    const fs::path parent = item_.path.parent_path();
    partial_ = std::make_unique<PartialFile>(root_.make(parent), item_.path.filename(),
                                             file().size(), writers_);
    // What is lost of a file of one block is not worth another file.
    if (writers_ != Writers::kOne || file().size() <= block_bytes_) return;
    journal_ = std::make_unique<BlockJournal>(root_.make(parent), item_.path.filename(), subject_,
                                              block_bytes_);
  }
  bool restore(std::uint64_t offset, std::span<std::byte> out) override {
    if (!journal_ || !journal_->knows(offset)) return false;
    if (partial_->read_at(offset, out) && journal_->matches(offset, out)) {
      resumed_bytes_ += out.size();
      return true;
    }
    ++damaged_blocks_;
    return false;
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const TargetCall call(*this);
    partial_->write_at(offset, bytes);
    if (journal_) journal_->add(offset, bytes);
  }
  void finish(const std::string& sha256) override {
    const TargetCall call(*this);
    partial_->sync();
    if (writers_ == Writers::kMany) manifest_.require_own(root_);
    // The entry first: a file that has its name is known then, whenever the process is killed.
    manifest_.add(item_.output->path, {file().size(), sha256});
    commit();
    partial_.reset();
    if (journal_) journal_->remove();
    journal_.reset();
  }

  /// Leaves what has been written to the same command, if it can go on with it. After the engine
  /// has ended.
  /// @return whether there is any.
  bool leave() noexcept {
    if (!journal_ || !partial_ || !journal_->has_blocks()) return false;
    partial_->leave();
    journal_.reset();
    return true;
  }
  /// Whether it has failed where it writes: then it must not keep the space.
  bool has_failed_to_write() const noexcept { return has_failed_to_write_; }

  std::uint64_t resumed_bytes() const { return resumed_bytes_; }
  /// That a process before this one had written, and that are something else now.
  std::uint64_t damaged_blocks() const { return damaged_blocks_; }

 private:
  /// Takes note if a call ends with an exception.
  class TargetCall {
   public:
    explicit TargetCall(WriteJob& job) noexcept
        : job_(job), exceptions_(std::uncaught_exceptions()) {}
    TargetCall(const TargetCall&) = delete;
    TargetCall& operator=(const TargetCall&) = delete;
    ~TargetCall() {
      if (std::uncaught_exceptions() > exceptions_) job_.has_failed_to_write_ = true;
    }

   private:
    WriteJob& job_;
    int exceptions_;
  };

  void resume() {
    const auto folder = root_.find(item_.path.parent_path());
    if (!folder) return;
    const std::string name = item_.path.filename();
    journal_ = BlockJournal::resume(*folder, name, subject_, block_bytes_);
    if (journal_) partial_ = PartialFile::resume(*folder, name, subject_.size);
    if (partial_) {
      block_bytes_ = journal_->block_bytes();
      return;
    }
    journal_.reset();
    remove_partial_files(*folder, {name}, Writers::kMany);
  }

  void commit() {
    try {
      partial_->commit(replace_);
    } catch (Error& error) {
      if (writers_ != Writers::kMany || error.os_error() != ENOENT) throw;
      throw Error(ErrorKind::kIo, "another process has removed the partial file")
          .in_file(root_.path() / item_.path)
          .os_error(ENOENT)
          .hint("it exports the same share; let only one of them run");
    }
  }

  const Folder& root_;
  const Item& item_;
  Manifest& manifest_;
  bool replace_;
  Writers writers_;
  BlockJournal::Subject subject_;
  std::size_t block_bytes_;
  std::unique_ptr<BlockJournal> journal_;
  std::unique_ptr<PartialFile> partial_;
  std::atomic<std::uint64_t> resumed_bytes_{0};
  std::atomic<std::uint64_t> damaged_blocks_{0};
  std::atomic<bool> has_failed_to_write_{false};
};

[[noreturn]] void throw_in_the_way(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kUsage, what)
      .in_file(path)
      .hint("choose another directory, or use --force to replace it");
}

class Exporter {
 public:
  Exporter(const Conversion& conversion, const ConversionOptions& conversion_options,
           const ExportOptions& options)
      : options_(options),
        directory_(options.directory, conversion_options.source,
                   options.share ? Lock::kShared : Lock::kExclusive),
        identity_(conversion_identity(conversion_options, conversion.source_files())),
        planned_(conversion, options.share) {
    for (const OutputFile* output : planned_.files) {
      Item item;
      item.output = output;
      item.path = output->path;
      items_.push_back(std::move(item));
    }
  }

  ExportResult run() {
    OtherManifests others(root(), identity_, share_, options_.force);
    Manifest manifest(root(), identity_, options_.force, share_);
    others.require_none_running();
    adopt(others.known(), manifest);
    remove_what_was_left();
    examine(manifest, others.known());
    const std::uint64_t bytes = bytes_to_write();
    const std::uint64_t there = allocated_bytes();
    directory_.require_space(bytes - std::min(bytes, there));
    write(manifest, bytes);
    if (!share_ && options_.checksums) write_checksums(manifest);
    sync(manifest);
    if (share_) complete_share(manifest, others.known());
    warn_of_others(manifest);
    return std::move(result_);
  }

 private:
  const Folder& root() const { return directory_.folder(); }

  void start(const std::string& phase, std::uint64_t bytes, std::uint64_t files) const {
    if (options_.engine.progress != nullptr) options_.engine.progress->start(phase, bytes, files);
  }

  /// What an export of the same conversion has written under another manifest need not be compared
  /// with the source.
  void adopt(const Manifest::Entries& known, Manifest& manifest) const {
    adopt_entries(planned_, known, [&](const std::string& path, const Manifest::Entry& entry) {
      if (!manifest.find(path)) manifest.add(path, entry);
    });
  }

  /// Of processes that were killed. Whoever else might write these files has been locked out where
  /// locks work; where they do not, it will find that it cannot complete its file.
  void remove_what_was_left() {
    std::map<fs::path, std::set<std::string>> names;
    for (const Item& item : items_) names[item.path.parent_path()].insert(item.path.filename());
    if (share_) names[{}].insert(manifest_name(share_->share));
    const Writers writers = share_ ? Writers::kMany : Writers::kOne;
    std::set<fs::path> begun;
    for (const auto& [path, own] : names) {
      const auto folder = root().find(path);
      if (!folder) continue;
      for (const std::string& name : remove_partial_files(*folder, own, writers)) {
        begun.insert(path / name);
      }
    }
    for (Item& item : items_) item.is_begun = begun.contains(item.path);
  }

  /// What is there is hashed, and compared with the manifest or, if that does not know the file,
  /// with the source. Nothing is written before all of it is known to be right.
  void examine(Manifest& manifest, const Manifest::Entries& known) {
    Jobs jobs;
    std::uint64_t bytes = 0;
    for (Item& item : items_) {
      item.standing = standing_of(root(), item.path, item.output->file->size());
      if (item.standing == Standing::kDiffers && !options_.force) {
        throw_in_the_way(root().path() / item.path, "already exists with a different size");
      }
      if (item.standing == Standing::kSameSize) bytes += add_hash_jobs(item, manifest, jobs);
    }
    if (!jobs.empty()) {
      start("checking", bytes, jobs.size());
      run_blocks(jobs, options_.engine);
      for (const Item& item : items_) note_examined(item, manifest);
    }
    if (share_ || options_.checksums) examine_checksums(manifest, known);
  }

  /// It may be replaced if this export has written it, even where the manifest has lost the line
  /// that says so.
  void examine_checksums(const Manifest& manifest, const Manifest::Entries& known) const {
    const fs::path name = kChecksumFile;
    if (standing_of(root(), name, 0) == Standing::kMissing) return;
    if (!share_ && (options_.force || manifest.find(kChecksumFile))) return;
    const ExistingFile file(root(), name, size_of(name));
    Manifest::Entries entries = manifest.entries();
    if (share_) SharedSums(root(), identity_, *share_, known).add_others(entries, options_.force);
    if (has_only_lines_of(file, entries)) return;
    if (!options_.force) throw_in_the_way(root().path() / name, "already exists");
    // It would tell whoever waits for the shares that all of them are complete.
    ::unlinkat(root().descriptor(), kChecksumFile, 0);
  }

  /// @return bytes that they read.
  std::uint64_t add_hash_jobs(Item& item, const Manifest& manifest, Jobs& jobs) const {
    const std::string& name = item.output->path;
    const std::uint64_t size = item.output->file->size();
    jobs.push_back(std::make_unique<HashJob>(
        std::make_shared<ExistingFile>(root(), item.path, size), name, item.found_sha256));
    const auto known = manifest.find(name);
    if (known && known->size == size) {
      item.wanted_sha256 = known->sha256;
      return size;
    }
    jobs.push_back(std::make_unique<HashJob>(item.output->file, name, item.wanted_sha256));
    return 2 * size;
  }

  void note_examined(const Item& item, Manifest& manifest) {
    if (item.standing != Standing::kSameSize) return;
    const std::uint64_t size = item.output->file->size();
    if (!item.is_kept()) {
      if (!options_.force) {
        throw_in_the_way(root().path() / item.path, "already exists with different contents");
      }
      return;
    }
    if (!manifest.find(item.output->path)) {
      manifest.add(item.output->path, {size, item.found_sha256});
    }
    ++result_.kept_files;
    result_.kept_bytes += size;
  }

  std::uint64_t bytes_to_write() const {
    std::uint64_t bytes = 0;
    for (const Item& item : items_) {
      if (item.is_kept()) continue;
      bytes = add_or_throw(bytes, item.output->file->size(), "the export's size");
    }
    return bytes;
  }

  /// Space that partial files have already.
  std::uint64_t allocated_bytes() const {
    constexpr std::uint64_t kUnit = 512;
    std::uint64_t bytes = 0;
    for (const Item& item : items_) {
      if (!item.is_begun || item.is_kept()) continue;
      const auto folder = root().find(item.path.parent_path());
      const auto found =
          folder ? folder->look_at(partial_name(item.path.filename())) : std::nullopt;
      if (found) bytes += static_cast<std::uint64_t>(found->st_blocks) * kUnit;
    }
    return bytes;
  }

  void write(Manifest& manifest, std::uint64_t bytes) {
    const std::string text = identity_.dump();
    const Writing writing{options_.force, share_ ? Writers::kMany : Writers::kOne,
                          sha256_of(std::as_bytes(std::span(text))), options_.engine.block_bytes};
    Jobs jobs;
    std::vector<WriteJob*> writes;
    for (const Item& item : items_) {
      if (item.is_kept()) {
        if (item.is_begun) remove_begun(item);
        continue;
      }
      auto job = std::make_unique<WriteJob>(root(), item, manifest, writing);
      writes.push_back(job.get());
      jobs.push_back(std::move(job));
    }
    if (jobs.empty()) return;
    start("writing", bytes, jobs.size());
    run(jobs, writes);
    result_.written_files = jobs.size();
    for (const WriteJob* job : writes) note_resumed(*job);
    result_.written_bytes = bytes - result_.resumed_bytes;
  }

  /// Unfinished files stay only where the same command can go on with them, and where what was
  /// lacking is not the space that they take.
  void run(const Jobs& jobs, const std::vector<WriteJob*>& writes) const {
    try {
      run_blocks(jobs, options_.engine);
    } catch (const Interrupted&) {
      throw Interrupted(leave(writes) ? kBlocksStay : "");
    } catch (const Error& error) {
      const bool is_of_target = std::any_of(writes.begin(), writes.end(), [](const WriteJob* job) {
        return job->has_failed_to_write();
      });
      // A source that has changed, for one, does not pass.
      if (error.kind() != ErrorKind::kIo || is_of_target || !leave(writes)) throw;
      Error told = error;
      throw Error(told.explain(std::string("; ") + kBlocksStay)
                      .hint("run the same command again to go on with them"));
    }
  }

  /// @return whether there is anything to go on with.
  static bool leave(const std::vector<WriteJob*>& writes) noexcept {
    bool stay = false;
    for (WriteJob* job : writes) {
      if (job->leave()) stay = true;
    }
    return stay;
  }

  /// Its file was completed by somebody else.
  void remove_begun(const Item& item) const {
    const auto folder = root().find(item.path.parent_path());
    if (folder) remove_partial_files(*folder, {item.path.filename()}, Writers::kMany);
  }

  void note_resumed(const WriteJob& job) {
    result_.resumed_bytes += job.resumed_bytes();
    if (job.damaged_blocks() == 0) return;
    result_.warnings.push_back(
        "'" + printable(job.name()) +
        "': " + counted(static_cast<std::size_t>(job.damaged_blocks()), "block") +
        " that an interrupted export has left did not match, and had to be written again");
  }

  /// All that the manifest knows and that is there: the ranks may have been exported one by one.
  void write_checksums(Manifest& manifest) const {
    std::string text;
    for (const auto& [path, entry] : manifest.entries()) {
      if (path == kChecksumFile) continue;
      if (standing_of(root(), path, entry.size) != Standing::kSameSize) continue;
      text += checksum_line(entry.sha256, path);
    }
    manifest.add(kChecksumFile, {text.size(), ""});
    // A machine that goes down must not keep the sums and lose what they are known by.
    manifest.sync();
    write_text(root(), kChecksumFile, text);
  }

  void sync(Manifest& manifest) const {
    std::set<fs::path> directories{fs::path()};
    for (const Item& item : items_) {
      for (fs::path path = item.path.parent_path(); !path.empty(); path = path.parent_path()) {
        if (!directories.insert(path).second) break;
      }
    }
    for (const fs::path& path : directories) root().make(path).sync();
    manifest.sync();
  }

  void complete_share(Manifest& manifest, const Manifest::Entries& known) {
    std::vector<std::string> paths;
    for (const Item& item : items_) paths.push_back(item.output->path);
    manifest.complete(root(), paths);
    // For all to see before the others are looked at: so whoever is last finds them complete.
    root().sync();
    result_.incomplete = SharedSums(root(), identity_, *share_, known).write();
  }

  /// Loaders take every rank directory that they find.
  void warn_of_others(const Manifest& manifest) {
    std::set<std::string> own = planned_.tops;
    for (const auto& [path, entry] : manifest.entries()) own.insert(top_of(path));
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root().path(), error)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("rank_") && !own.contains(name)) {
        result_.warnings.push_back("'" + printable(name) +
                                   "' in the output directory does not belong to this conversion");
      }
    }
  }

  std::uint64_t size_of(const fs::path& name) const {
    const auto found = root().look_at(name);
    return found ? static_cast<std::uint64_t>(found->st_size) : 0;
  }

  const ExportOptions& options_;
  TargetDirectory directory_;
  nlohmann::ordered_json identity_;
  PlannedFiles planned_;
  const std::optional<SharePlan>& share_ = planned_.share;
  std::vector<Item> items_;
  ExportResult result_;
};

}  // namespace

ExportResult export_conversion(const Conversion& conversion,
                               const ConversionOptions& conversion_options,
                               const ExportOptions& options) {
  if (is_url(options.directory)) return export_to_store(conversion, conversion_options, options);
  return Exporter(conversion, conversion_options, options).run();
}

}  // namespace reshardfs
