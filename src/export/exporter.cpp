// SPDX-License-Identifier: Apache-2.0
#include "export/exporter.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/retry_once.h"
#include "export/checksums.h"
#include "export/identity.h"
#include "export/manifest.h"
#include "export/partial_file.h"
#include "export/target_directory.h"
#include "storage/byte_source.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using Jobs = std::vector<std::unique_ptr<BlockJob>>;

/// A file that is there already, to be read as those that are not. Opened at the first read: there
/// may be more of them than a process may have open.
class ExistingFile final : public VirtualFile {
 public:
  ExistingFile(const fs::path& path, std::uint64_t size) : path_(path), size_(size) {}

  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    opened_.call([this] { source_ = open_local_file(path_); });
    source_->read_at(offset, out);
  }

 private:
  const fs::path& path_;
  std::uint64_t size_;
  mutable RetryOnce opened_;
  mutable ByteSourcePtr source_;
};

/// Text that is written like any other file.
void write_text(const fs::path& path, const std::string& text, bool replace) {
  PartialFile file(path, text.size());
  file.write_at(0, std::as_bytes(std::span(text)));
  file.sync();
  file.commit(replace);
}

enum class Standing : std::uint8_t {
  kMissing,   ///< to be written
  kSameSize,  ///< its contents decide
  kDiffers,   ///< in the way
};

struct Item {
  const OutputFile* output = nullptr;
  fs::path path{};
  Standing standing = Standing::kMissing;
  /// Of the file that is there; of what should be there, from the manifest or the source.
  std::string found_sha256{};
  std::string wanted_sha256{};

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

class WriteJob final : public BlockJob {
 public:
  WriteJob(const Item& item, Manifest& manifest, bool replace)
      : item_(item), manifest_(manifest), replace_(replace) {}

  const VirtualFile& file() const override { return *item_.output->file; }
  const std::string& name() const override { return item_.output->path; }
  void begin() override { partial_.emplace(item_.path, file().size()); }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    partial_->write_at(offset, bytes);
  }
  void finish(const std::string& sha256) override {
    partial_->sync();
    // The entry first: a file that has its name is known then, whenever the process is killed.
    manifest_.add(item_.output->path, {file().size(), sha256});
    partial_->commit(replace_);
    partial_.reset();
  }

 private:
  const Item& item_;
  Manifest& manifest_;
  bool replace_;
  std::optional<PartialFile> partial_;
};

/// A view's paths come from names in files; no name may lead out of the directory.
void require_plain_path(const fs::path& path) {
  const bool plain = path.is_relative() && !path.empty() &&
                     std::none_of(path.begin(), path.end(), [](const fs::path& part) {
                       return part.empty() || part == "." || part == "..";
                     });
  if (!plain) {
    throw Error(ErrorKind::kInternal, "a view has a file '" + printable(path.string()) + "'");
  }
}

[[noreturn]] void throw_in_the_way(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kUsage, what)
      .in_file(path)
      .hint("choose another directory, or say --force to replace it");
}

/// How a file that is to have `size` bytes stands.
Standing standing_of(const fs::path& path, std::uint64_t size) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return Standing::kMissing;
    if (errno == ENOTDIR) {
      throw Error(ErrorKind::kUsage, "has a file in the place of its directory")
          .in_file(path)
          .hint("choose another directory");
    }
    throw io_error("examine", path, errno);
  }
  if (!S_ISREG(found.st_mode)) {
    throw Error(ErrorKind::kUsage, "is in the way: it is not a regular file")
        .in_file(path)
        .hint("choose another directory");
  }
  return static_cast<std::uint64_t>(found.st_size) == size ? Standing::kSameSize
                                                           : Standing::kDiffers;
}

class Exporter {
 public:
  Exporter(const Conversion& conversion, const ConversionOptions& conversion_options,
           const ExportOptions& options)
      : options_(options),
        directory_(options.directory, conversion_options.source),
        identity_(conversion_identity(conversion_options, conversion)) {
    for (const OutputFile* output : exported_files(conversion)) {
      require_plain_path(output->path);
      Item item;
      item.output = output;
      item.path = directory_.path() / output->path;
      items_.push_back(std::move(item));
    }
  }

  ExportResult run() {
    Manifest manifest(directory_.path(), identity_, options_.force);
    examine(manifest);
    const std::uint64_t bytes = bytes_to_write();
    directory_.require_space(bytes);
    write(manifest, bytes);
    if (options_.checksums) write_checksums(manifest);
    sync(manifest);
    warn_of_others(manifest);
    return std::move(result_);
  }

 private:
  void start(const std::string& phase, std::uint64_t bytes, std::uint64_t files) const {
    if (options_.engine.progress != nullptr) options_.engine.progress->start(phase, bytes, files);
  }

  /// What is there is hashed, and compared with the manifest or, if that does not know the file,
  /// with the source. Nothing is written before all of it is known to be right.
  void examine(Manifest& manifest) {
    Jobs jobs;
    std::uint64_t bytes = 0;
    for (Item& item : items_) {
      item.standing = standing_of(item.path, item.output->file->size());
      if (item.standing == Standing::kDiffers && !options_.force) {
        throw_in_the_way(item.path, "is there already, with another size");
      }
      if (item.standing == Standing::kSameSize) bytes += add_hash_jobs(item, manifest, jobs);
    }
    if (options_.checksums && !options_.force && !manifest.find(kChecksumFile) &&
        standing_of(directory_.path() / kChecksumFile, 0) != Standing::kMissing) {
      throw_in_the_way(directory_.path() / kChecksumFile, "is there already");
    }
    if (jobs.empty()) return;
    start("checking", bytes, jobs.size());
    run_blocks(jobs, options_.engine);
    for (const Item& item : items_) note_examined(item, manifest);
  }

  /// @return bytes that they read.
  std::uint64_t add_hash_jobs(Item& item, const Manifest& manifest, Jobs& jobs) const {
    const std::string& name = item.output->path;
    const std::uint64_t size = item.output->file->size();
    jobs.push_back(std::make_unique<HashJob>(std::make_shared<ExistingFile>(item.path, size), name,
                                             item.found_sha256));
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
      if (!options_.force) throw_in_the_way(item.path, "is there already, with other contents");
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

  void write(Manifest& manifest, std::uint64_t bytes) {
    Jobs jobs;
    for (const Item& item : items_) {
      if (item.is_kept()) continue;
      jobs.push_back(std::make_unique<WriteJob>(item, manifest, options_.force));
    }
    if (jobs.empty()) return;
    start("writing", bytes, jobs.size());
    run_blocks(jobs, options_.engine);
    result_.written_files = jobs.size();
    result_.written_bytes = bytes;
  }

  /// All that the manifest knows and that is there: the ranks may have been exported one by one.
  void write_checksums(Manifest& manifest) const {
    std::string text;
    for (const auto& [path, entry] : manifest.entries()) {
      if (path == kChecksumFile) continue;
      if (standing_of(directory_.path() / path, entry.size) != Standing::kSameSize) continue;
      text += checksum_line(entry.sha256, path);
    }
    manifest.add(kChecksumFile, {text.size(), ""});
    write_text(directory_.path() / kChecksumFile, text, /*replace=*/true);
  }

  void sync(Manifest& manifest) const {
    std::set<fs::path> directories{directory_.path()};
    for (const Item& item : items_) {
      for (fs::path path = item.path.parent_path(); path != directory_.path();
           path = path.parent_path()) {
        if (!directories.insert(path).second) break;
      }
    }
    for (const fs::path& path : directories) sync_directory(path);
    manifest.sync();
  }

  /// Loaders take every rank directory that they find.
  void warn_of_others(const Manifest& manifest) {
    std::set<std::string> own;
    for (const auto& [path, entry] : manifest.entries()) own.insert(top_of(path));
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory_.path(), error)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("rank_") && !own.contains(name)) {
        result_.warnings.push_back("'" + printable(name) +
                                   "' in the output directory is not of this conversion");
      }
    }
  }

  static std::string top_of(const std::string& path) { return path.substr(0, path.find('/')); }

  const ExportOptions& options_;
  TargetDirectory directory_;
  nlohmann::ordered_json identity_;
  std::vector<Item> items_;
  ExportResult result_;
};

}  // namespace

std::vector<const OutputFile*> exported_files(const Conversion& conversion) {
  std::vector<const OutputFile*> files;
  for (const OutputFile& output : conversion.files()) {
    if (!output.hidden && output.file->snapshot() == nullptr) files.push_back(&output);
  }
  return files;
}

ExportResult export_conversion(const Conversion& conversion,
                               const ConversionOptions& conversion_options,
                               const ExportOptions& options) {
  return Exporter(conversion, conversion_options, options).run();
}

}  // namespace reshardfs
