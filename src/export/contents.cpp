// SPDX-License-Identifier: Apache-2.0
#include "export/contents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/read_write.h"
#include "base/process/retry_once.h"
#include "export/hashing.h"
#include "storage/byte_source.h"
#include "view/files/passed_file.h"

namespace reshardfs {
namespace {

const PassedFile* passed(const VirtualFile& file) {
  return dynamic_cast<const PassedFile*>(&file);
}

}  // namespace

bool is_companion(const VirtualFile& file) {
  return file.effort() != Effort::kReads || passed(file) != nullptr;
}

ContentSums sums_of(const VirtualFile& file, SumKinds kinds) {
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 20U;
  ContentHash hash(kinds);
  std::vector<std::byte> block;
  for (std::uint64_t at = 0; at < file.size(); at += kBlock) {
    block.resize(static_cast<std::size_t>(std::min(kBlock, file.size() - at)));
    file.read_at(at, block);
    hash.update(block);
  }
  return hash.finish();
}

std::string version_of(const VirtualFile& file) {
  if (passed(file) == nullptr) return {};
  const auto source = file.equal_source();
  const FileStamp stamp = source->stamp();
  return fmt::format("{} {} {}", source->mtime_ns(), stamp.ctime_ns, stamp.inode);
}

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
    const auto got = read_fully(file_.get(), offset, out);
    if (!got) throw io_error("read", root_.path() / path_, errno).at_offset(offset);
    if (*got < out.size()) throw_changed();
  }

 private:
  void open() const {
    const auto folder = root_.find(path_.parent_path());
    if (!folder) throw_changed();
    auto file = folder->open_file(path_.filename(), O_RDONLY);
    if (!file) throw io_error("open", root_.path() / path_, errno);
    const auto found = file.status();
    if (!found) throw io_error("examine", root_.path() / path_, errno);
    if (!S_ISREG(found->st_mode)) throw_changed();
    file_ = std::move(file);
  }
  [[noreturn]] void throw_changed() const {
    throw Error(ErrorKind::kChanged, "has been changed while it was read")
        .in_file(root_.path() / path_);
  }

  const Folder& root_;
  std::filesystem::path path_;
  std::uint64_t size_;
  mutable RetryOnce opened_;
  mutable Descriptor file_;
};

/// Of a file that is there; of what should be there, from the manifest or the source.
struct Sums {
  ContentSums found{};
  ContentSums wanted{};

  bool are_equal() const {
    return (!found.sha256.empty() && found.sha256 == wanted.sha256) ||
           (!found.xxh3.empty() && found.xxh3 == wanted.xxh3);
  }
};

/// Where both are known.
bool agree(const std::string& known, const std::string& found) {
  return known.empty() || found.empty() || known == found;
}

/// Files that are hashed together.
class Hashing {
 public:
  /// @param kind that the manifest is to have.
  Hashing(const Folder& root, const Manifest& manifest, SumKinds kind)
      : root_(root), manifest_(manifest), kind_(kind) {}

  /// @param sums must stay where they are until run() returns.
  void add(const OutputFile& file, Sums& sums) {
    const std::uint64_t size = file.file->size();
    const auto known = manifest_.find(file.path);
    const bool is_known = known && known->size == size && known->has_sum();
    SumKinds needed = kind_;
    if (is_known && !is_companion(*file.file)) {
      sums.wanted = {.sha256 = known->sha256, .xxh3 = known->xxh3};
      needed = known->sha256.empty() ? kind_ | SumKinds::kXxh3 : SumKinds::kSha256;
    } else {
      // Also those that the manifest has.
      if (is_known && !known->sha256.empty()) needed = needed | SumKinds::kSha256;
      add(file.file, file.path, needed, sums.wanted);
    }
    add(std::make_shared<ExistingFile>(root_, file.path, size), file.path, needed, sums.found);
  }
  void run(const BlockEngineOptions& engine) const {
    if (jobs_.empty()) return;
    if (engine.progress != nullptr) engine.progress->start("checking", bytes_, jobs_.size());
    run_blocks(jobs_, engine);
  }

 private:
  void add(std::shared_ptr<const VirtualFile> file, const std::string& name, SumKinds kinds,
           ContentSums& result) {
    bytes_ += file->size();
    jobs_.push_back(std::make_unique<HashJob>(
        std::move(file), name, kinds, [&result](const ContentSums& sums) { result = sums; }));
  }

  const Folder& root_;
  const Manifest& manifest_;
  const SumKinds kind_;
  std::vector<std::unique_ptr<BlockJob>> jobs_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

OutputFiles choose_by_contents(const Target& target, const Folder& root, const OutputFiles& files,
                               const Target::Listing& there, bool force, SumKinds kind,
                               Manifest& manifest, const BlockEngineOptions& engine) {
  std::map<const OutputFile*, Sums> sums;  // of those that are there with the right size
  Hashing hashing(root, manifest, kind);
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
    if (!is_there || !found->second.are_equal()) {
      if (is_there && !force) {
        throw_in_the_way(target, file->path, "already exists with different contents");
      }
      pending.push_back(file);
      continue;
    }
    const std::uint64_t size = file->file->size();
    const auto known = manifest.find(file->path).value_or(Manifest::Entry());
    const bool is_enough = kind == SumKinds::kXxh3 ? known.has_sum() : !known.sha256.empty();
    const ContentSums& own = found->second.found;
    const bool agrees = agree(known.sha256, own.sha256) && agree(known.xxh3, own.xxh3);
    if (is_enough && known.size == size && agrees) continue;
    // Only one of the two exists: shares have the same manifest, whichever process wrote it.
    manifest.set(file->path, {.size = size,
                              .sha256 = own.sha256,
                              .xxh3 = own.sha256.empty() ? own.xxh3 : std::string()});
  }
  return pending;
}

}  // namespace reshardfs
