// SPDX-License-Identifier: Apache-2.0
#include "export/contents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <utility>

#include "reshardfs/error.h"

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
    while (!out.empty()) {
      const ssize_t got = ::pread(file_->get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw io_error("read", root_.path() / path_, errno).at_offset(offset);
      if (got == 0) throw_changed();
      offset += static_cast<std::uint64_t>(got);
      out = out.subspan(static_cast<std::size_t>(got));
    }
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

struct Item {
  const OutputFile* output = nullptr;
  bool is_there = false;  ///< with the right size
  /// Of the file that is there; of what should be there, from the manifest or the source.
  std::string found_sha256{};
  std::string wanted_sha256{};

  bool is_kept() const { return is_there && found_sha256 == wanted_sha256; }
};

/// Files that are hashed together.
class Hashing {
 public:
  Hashing(const Folder& root, const Manifest& manifest) : root_(root), manifest_(manifest) {}

  void add(Item& item) {
    const OutputFile& file = *item.output;
    const std::uint64_t size = file.file->size();
    add(std::make_shared<ExistingFile>(root_, file.path, size), file.path, item.found_sha256);
    const auto known = manifest_.find(file.path);
    if (known && known->size == size) {
      item.wanted_sha256 = known->sha256;
    } else {
      add(file.file, file.path, item.wanted_sha256);
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
  std::deque<Item> items;  // which stay where they are
  Hashing hashing(root, manifest);
  for (const OutputFile* file : files) {
    Item& item = items.emplace_back(Item{file});
    const auto found = there.files.find(file->path);
    if (found == there.files.end()) continue;
    item.is_there = found->second.size == file->file->size();
    if (item.is_there) {
      hashing.add(item);
    } else if (!force) {
      throw_in_the_way(target, file->path, "already exists with a different size");
    }
  }
  hashing.run(engine);
  OutputFiles pending;
  for (const Item& item : items) {
    const std::string& path = item.output->path;
    if (!item.is_kept()) {
      if (item.is_there && !force) {
        throw_in_the_way(target, path, "already exists with different contents");
      }
      pending.push_back(item.output);
    } else if (!manifest.find(path)) {
      manifest.set(path, {item.output->file->size(), item.found_sha256});
    }
  }
  return pending;
}

}  // namespace reshardfs
