// SPDX-License-Identifier: Apache-2.0
#include "export/contents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/read_fully.h"
#include "base/process/retry_once.h"
#include "export/hashing.h"

namespace reshardfs {
namespace {

/// A file that is there already, to be read as those that are not. Opened at the first read: there
/// may be more of them than a process may have open.
class ExistingFile final : public VirtualFile {
 public:
  ExistingFile(const Folder& root, std::filesystem::path path, std::uint64_t size)
      : root_(root), path_(std::move(path)), size_(size) {}

  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    opened_.call([this] { open(); });
    const auto got = read_fully(file_->get(), offset, out);
    if (!got) throw io_error("read", root_.path() / path_, errno).at_offset(offset);
    if (*got < out.size()) throw_changed();
  }

 private:
  void open() const {
    const auto folder = root_.find(path_.parent_path());
    if (!folder) throw_changed();
    auto file = folder->open_file(path_.filename(), O_RDONLY);
    if (!file) throw io_error("open", root_.path() / path_, errno);
    struct stat found {};
    if (::fstat(file->get(), &found) != 0) throw io_error("examine", root_.path() / path_, errno);
    if (!S_ISREG(found.st_mode)) throw_changed();
    file_.emplace(std::move(*file));
  }
  [[noreturn]] void throw_changed() const {
    throw Error(ErrorKind::kChanged, "has been changed while it was read")
        .in_file(root_.path() / path_);
  }

  const Folder& root_;
  std::filesystem::path path_;
  std::uint64_t size_;
  mutable RetryOnce opened_;
  mutable std::optional<Descriptor> file_;
};

/// Of a file that is there; of what should be there, from the manifest or the source.
struct Sums {
  std::string found{};
  std::string wanted{};
};

/// Files that are hashed together.
class Hashing {
 public:
  Hashing(const Folder& root, const Manifest& manifest) : root_(root), manifest_(manifest) {}

  /// @param sums must stay where they are until run() returns.
  void add(const OutputFile& file, Sums& sums) {
    const std::uint64_t size = file.file->size();
    add(std::make_shared<ExistingFile>(root_, file.path, size), file.path, sums.found);
    const auto known = manifest_.find(file.path);
    if (known && known->size == size && !known->sha256.empty()) {
      sums.wanted = known->sha256;
    } else {
      add(file.file, file.path, sums.wanted);
    }
  }
  void run(const BlockEngineOptions& engine) const {
    if (jobs_.empty()) return;
    if (engine.progress != nullptr) engine.progress->start("checking", bytes_, jobs_.size());
    run_blocks(jobs_, engine);
  }

 private:
  void add(std::shared_ptr<const VirtualFile> file, const std::string& name, std::string& result) {
    bytes_ += file->size();
    jobs_.push_back(std::make_unique<HashJob>(
        std::move(file), name, [&result](const std::string& sha256) { result = sha256; }));
  }

  const Folder& root_;
  const Manifest& manifest_;
  std::vector<std::unique_ptr<BlockJob>> jobs_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

OutputFiles choose_by_contents(const Target& target, const Folder& root, const OutputFiles& files,
                               const Target::Listing& there, bool force, Manifest& manifest,
                               const BlockEngineOptions& engine) {
  std::map<const OutputFile*, Sums> sums;  // of those that are there with the right size
  Hashing hashing(root, manifest);
  for (const OutputFile* file : files) {
    const auto found = there.files.find(file->path);
    if (found == there.files.end()) continue;
    if (found->second.size == file->file->size()) {
      hashing.add(*file, sums[file]);
    } else if (!force) {
      throw_in_the_way(target, file->path, "already exists with a different size");
    }
  }
  hashing.run(engine);
  OutputFiles pending;
  for (const OutputFile* file : files) {
    const auto found = sums.find(file);
    const bool is_there = found != sums.end();
    if (!is_there || found->second.found != found->second.wanted) {
      if (is_there && !force) {
        throw_in_the_way(target, file->path, "already exists with different contents");
      }
      pending.push_back(file);
    } else if (const auto known = manifest.find(file->path); !known || known->sha256.empty()) {
      manifest.set(file->path, {file->file->size(), found->second.found});
    }
  }
  return pending;
}

}  // namespace reshardfs
