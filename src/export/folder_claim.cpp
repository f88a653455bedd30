// SPDX-License-Identifier: Apache-2.0
#include "export/folder_claim.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "reshardfs/error.h"

#include "base/posix/file_lock.h"
#include "base/posix/read_write.h"
#include "export/folder.h"
#include "export/partial_file.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30U;

Error in_the_way(const fs::path& path, const std::string& what) {
  return Error(ErrorKind::kUsage, "is in the way: " + what)
      .in_file(path)
      .hint("remove it, or choose another directory");
}

/// That it is a file of this directory, and a manifest of no other name: what is written to it is
/// written to nothing else.
void require_file(const struct stat& found, const fs::path& path) {
  if (S_ISLNK(found.st_mode)) throw in_the_way(path, "it is a symbolic link");
  if (!S_ISREG(found.st_mode)) throw in_the_way(path, "it is not a regular file");
  if (found.st_nlink > 1 && path.filename().native().starts_with(kManifestPrefix)) {
    throw in_the_way(path, "the file is hard-linked under another name");
  }
}

/// @return none, with errno, if it cannot be opened.
Descriptor open_checked(const Folder& folder, const std::string& name, int flags) {
  const fs::path path = folder.path() / name;
  // Opening a device has side effects, so the file is checked before, and again when it is open.
  if (const auto found = folder.look_at(name)) require_file(*found, path);
  constexpr mode_t kMode = 0666;
  auto file = folder.open_file(name, flags, kMode);
  if (!file) return file;
  const auto found = file.status();
  if (!found) throw io_error("examine", path, errno);
  require_file(*found, path);
  return file;
}

/// @return less than that if the file ends before.
std::string read_range(int file, std::uint64_t offset, std::uint64_t bytes, const fs::path& path) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  const auto got = read_fully(file, offset, std::as_writable_bytes(std::span(text)));
  if (!got) throw io_error("read", path, errno);
  text.resize(*got);
  return text;
}

std::optional<std::string> read_whole(int file, const fs::path& path, std::string_view end) {
  struct stat found {};
  if (::fstat(file, &found) != 0) throw io_error("examine", path, errno);
  const auto bytes = static_cast<std::uint64_t>(found.st_size);
  if (bytes < end.size() || read_range(file, bytes - end.size(), end.size(), path) != end) {
    return std::nullopt;
  }
  if (bytes > kMaxBytes) throw in_the_way(path, "it is larger than any that reshardfs writes");
  std::string text = read_range(file, 0, bytes, path);
  if (!text.ends_with(end)) return std::nullopt;  // it has been written to meanwhile
  return text;
}

/// A file that is locked for as long as this lives, where locks work, and that lines are added to.
class FolderClaim final : public Claim {
 public:
  FolderClaim(const Folder& folder, const std::optional<Share>& share)
      : folder_(folder.make({})),
        share_(share),
        name_(manifest_name(share)),
        path_(folder.path() / name_) {
    open_and_lock();
    require_none_running();
    // Left by a process that was killed while it completed the share.
    if (share_) remove_partial_files(folder_, {name_});
  }

  std::string read() override { return *read_whole(file_.get(), path_, {}); }
  void begin(std::uint64_t good, const std::string& header, const std::string& opening) override {
    header_ = header;
    struct stat found {};
    if (::fstat(file_.get(), &found) != 0) throw io_error("examine", path_, errno);
    // Not where it changes nothing but the file's times.
    if (good < static_cast<std::uint64_t>(found.st_size) &&
        ::ftruncate(file_.get(), static_cast<off_t>(good)) != 0) {
      throw io_error("write", path_, errno);
    }
    if (good > 0) return;
    append(opening);
    // For other nodes to see.
    if (share_) save({});
  }
  bool appends() const noexcept override { return true; }
  void append(const std::string& line) override {
    // As a rule one write, so that a kill does not tear it. What a full disk leaves over is tried
    // once more, to be told why.
    const int failed = write_all(file_.get(), line);
    if (failed != 0) throw io_error("write", path_, failed);
  }
  void save(const std::function<std::string()>& /*text*/) override {
    if (::fsync(file_.get()) != 0) throw io_error("sync", path_, errno);
  }
  void complete(const std::string& text) override {
    require_own();
    if (read() != text) publish_text(folder_, name_, text);
    // On disk before the other shares are examined: so the last process finds all of them complete.
    folder_.sync();
  }
  void require_own() const override {
    // Opened anew, so that writes of other nodes are seen.
    const auto file = open_checked(folder_, name_, O_RDONLY);
    if (file && read_range(file.get(), 0, header_.size(), path_) == header_) return;
    throw another_export_error(path_);
  }

 private:
  void open_and_lock() {
    // The process that completes a share replaces its manifest: by the time the lock is held, the
    // opened file may be the old one.
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i) {
      auto file = open_checked(folder_, name_, O_RDWR | O_CREAT | O_APPEND);
      if (!file) throw io_error("open", path_, errno);
      file_ = std::move(file);
      if (try_lock(file_.get()) == LockState::kHeldElsewhere) {
        if (!share_) throw in_use_error(folder_.path());
        throw Error(ErrorKind::kUsage, "another process is writing share " + to_string(*share_))
            .in_file(path_)
            .hint("wait until it ends, or end it, and run this share again");
      }
      struct stat mine {};
      if (::fstat(file_.get(), &mine) != 0) throw io_error("examine", path_, errno);
      const auto there = folder_.look_at(name_);
      if (there && there->st_dev == mine.st_dev && there->st_ino == mine.st_ino) return;
    }
    throw in_the_way(path_, "it is replaced again and again");
  }

  /// Keeps an export that is not shared out from running beside a share, whichever began first:
  /// directories cannot be locked everywhere. When the own manifest has been locked.
  void require_none_running() {
    if (share_) {
      whole_ = folder_.open_file(Manifest::kName, O_RDONLY);
      require_lock(whole_, LockMode::kShared, folder_.path());
      return;
    }
    for (const std::string& name : folder_.names()) {
      if (!share_of_manifest(name)) continue;
      const auto file = folder_.open_file(name, O_RDWR);
      require_lock(file, LockMode::kExclusive, folder_.path());
    }
  }

  const Folder folder_;
  const std::optional<Share> share_;
  const std::string name_;
  const fs::path path_;
  std::string header_;
  Descriptor file_;
  Descriptor whole_;  ///< of a share: the manifest of all files, to keep its lock
};

}  // namespace

std::optional<std::string> read_text(const Folder& folder, const std::string& name,
                                     std::string_view end) {
  const auto file = open_checked(folder, name, O_RDONLY);
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) throw io_error("open", folder.path() / name, errno);
  return read_whole(file.get(), folder.path() / name, end);
}

std::unique_ptr<Claim> claim_in(const Folder& folder, const std::optional<Share>& share) {
  return std::make_unique<FolderClaim>(folder, share);
}

}  // namespace reshardfs
