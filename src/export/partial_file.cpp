// SPDX-License-Identifier: Apache-2.0
#include "export/partial_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/file_lock.h"
#include "base/posix/read_write.h"
#include "base/sha256.h"
#include "export/block_journal.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMaxNameBytes = 255;
constexpr const char* kPartialSuffix = ".reshardfs-partial";
constexpr const char* kSpaceHint = "make room and run the same command again";

Error write_error(const std::filesystem::path& path, int errno_value) {
  Error error = io_error("write", path, errno_value);
  if (errno_value == ENOSPC || errno_value == EDQUOT) error.hint(kSpaceHint);
  return error;
}

/// Over a network a call whose answer was lost is made again, and then fails because of itself.
bool is_same(int folder, const char* one, const char* other) noexcept {
  struct stat first {};
  struct stat second {};
  return ::fstatat(folder, one, &first, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstatat(folder, other, &second, AT_SYMLINK_NOFOLLOW) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

constexpr std::size_t kMarkDigits = 16;

/// The name, or what is short and stands for it.
std::string stem_of(const std::string& name, std::size_t more) {
  if (name.size() + more + std::string_view(kPartialSuffix).size() + 1 <= kMaxNameBytes)
    return name;
  return sha256_of(std::as_bytes(std::span(name)));
}

/// A unique name: `.NAME.MARK.reshardfs-partial`.
std::string own_name(const std::string& name) {
  std::random_device random;
  return fmt::format(".{}.{:08x}{:08x}{}", stem_of(name, kMarkDigits + 1), random(), random(),
                     kPartialSuffix);
}

/// What a partial file's name says of the file, with its mark if it has one; nothing for others.
std::optional<std::string_view> stem_and_mark(std::string_view partial) {
  const std::string_view suffix = kPartialSuffix;
  if (!partial.starts_with('.') || !partial.ends_with(suffix)) return std::nullopt;
  return partial.substr(1, partial.size() - 1 - suffix.size());
}

/// Whether a process has it that still runs.
bool is_locked(const Folder& folder, const std::string& name) {
  const auto file = folder.open_file(name, O_RDWR);
  return file && try_lock(file.get()) == LockState::kHeldElsewhere;
}

Error in_use(const std::filesystem::path& path) {
  return Error(ErrorKind::kUsage, "another process is writing this file")
      .in_file(path)
      .hint("wait until it ends, or end it");
}

std::string_view without_mark(std::string_view stem) {
  if (stem.size() <= kMarkDigits) return stem;
  const std::size_t dot = stem.size() - kMarkDigits - 1;
  const bool marked = stem[dot] == '.' &&
                      stem.find_first_not_of("0123456789abcdef", dot + 1) == std::string_view::npos;
  return marked ? stem.substr(0, dot) : stem;
}

}  // namespace

std::string partial_name(const std::string& name) {
  return "." + stem_of(name, 0) + kPartialSuffix;
}

std::set<std::string> remove_partial_files(const Folder& folder, const std::set<std::string>& names,
                                           Writers writers) {
  std::set<std::string, std::less<>> stems;
  std::set<std::string> journals;
  for (const std::string& name : names) {
    stems.insert(stem_of(name, 0));
    stems.insert(stem_of(name, kMarkDigits + 1));
    journals.insert(journal_name(name));
  }
  const std::vector<std::string> all = folder.names();
  const auto is_there = [&](const std::string& name) {
    return std::binary_search(all.begin(), all.end(), name);
  };
  std::set<std::string> stay;
  std::set<std::string> kept;
  for (const std::string& name : names) {
    if (writers != Writers::kOne) break;
    if (!is_there(partial_name(name)) || !is_there(journal_name(name))) continue;
    kept.insert({partial_name(name), journal_name(name)});
    stay.insert(name);
  }
  for (const std::string& found : all) {
    const auto stem = stem_and_mark(found);
    const bool is_partial = stem && (stems.contains(*stem) || stems.contains(without_mark(*stem)));
    if ((!is_partial && !journals.contains(found)) || kept.contains(found)) continue;
    if (writers == Writers::kOne && is_partial && is_locked(folder, found)) continue;
    // A file that cannot be removed does no harm, because nothing reads it.
    ::unlinkat(folder.descriptor(), found.c_str(), 0);
  }
  return stay;
}

PartialFile::PartialFile(Folder folder, std::string name, std::uint64_t size, Writers writers)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      temporary_(writers == Writers::kOne ? partial_name(name_) : own_name(name_)) {
  if (writers == Writers::kOne && is_locked(folder_, temporary_))
    throw in_use(folder_.path() / name_);
  // Not O_TRUNC on what is there: it could be a link to something else.
  if (writers == Writers::kOne && ::unlinkat(folder_.descriptor(), temporary_.c_str(), 0) != 0 &&
      errno != ENOENT) {
    throw io_error("remove", folder_.path() / temporary_, errno);
  }
  constexpr mode_t kMode = 0666;  // the umask takes from it
  auto file = folder_.open_file(temporary_, O_WRONLY | O_CREAT | O_EXCL, kMode);
  if (!file) throw io_error("create", folder_.path() / name_, errno);
  file_ = std::move(file);
  if (writers == Writers::kOne) lock();
  if (::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) {
    const int failed = errno;
    remove();
    throw write_error(folder_.path() / name_, failed);
  }
}

std::unique_ptr<PartialFile> PartialFile::resume(const Folder& folder, const std::string& name,
                                                 std::uint64_t size) {
  auto file = folder.open_file(partial_name(name), O_RDWR);
  struct stat found {};
  const bool own = file && ::fstat(file.get(), &found) == 0 && S_ISREG(found.st_mode) &&
                   found.st_nlink == 1 && static_cast<std::uint64_t>(found.st_size) == size;
  if (!own) return nullptr;
  std::unique_ptr<PartialFile> partial(new PartialFile(folder.make({}), name));
  partial->file_ = std::move(file);
  partial->lock();
  partial->temporary_ = partial_name(name);
  return partial;
}

void PartialFile::lock() const {
  if (try_lock(file_.get()) == LockState::kHeldElsewhere) throw in_use(folder_.path() / name_);
}

bool PartialFile::read_at(std::uint64_t offset, std::span<std::byte> out) const noexcept {
  return read_fully(file_.get(), offset, out) == out.size();
}

PartialFile::~PartialFile() {
  remove();
}

void PartialFile::remove() noexcept {
  file_ = Descriptor();
  if (!temporary_.empty()) ::unlinkat(folder_.descriptor(), temporary_.c_str(), 0);
}

void PartialFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  const int failed = write_fully(file_.get(), offset, bytes);
  if (failed != 0) throw write_error(folder_.path() / name_, failed);
}

void PartialFile::begin_sync(std::uint64_t offset, std::uint64_t length) noexcept {
  // Where it is not possible, or fails, sync() does all of it.
  static_cast<void>(::sync_file_range(file_.get(), static_cast<off64_t>(offset),
                                      static_cast<off64_t>(length), SYNC_FILE_RANGE_WRITE));
}

void PartialFile::sync() {
  if (::fsync(file_.get()) != 0) throw write_error(folder_.path() / name_, errno);
}

/// @return 0, or the error number.
int PartialFile::rename_to_name(bool replace) noexcept {
  const int folder = folder_.descriptor();
  const char* const from = temporary_.c_str();
  const char* const to = name_.c_str();
  if (replace) return ::renameat(folder, from, folder, to) == 0 ? 0 : errno;
  if (::renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return errno;
  // A file system such as NFS, which does not know the flag. link() does not replace either.
  if (::linkat(folder, from, folder, to, 0) == 0 ||
      (errno == EEXIST && is_same(folder, from, to))) {
    ::unlinkat(folder, from, 0);
    return 0;
  }
  if (errno != EPERM && errno != EMLINK && errno != ENOSYS && errno != EOPNOTSUPP) return errno;
  // Nor links. That a file of the name appears between these two calls cannot be excluded there.
  struct stat found {};
  if (::fstatat(folder, to, &found, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
  return ::renameat(folder, from, folder, to) == 0 ? 0 : errno;
}

void PartialFile::commit(bool replace) {
  const std::filesystem::path path = folder_.path() / name_;
  const auto there = folder_.look_at(name_);
  if (there && !S_ISREG(there->st_mode) && !S_ISLNK(there->st_mode)) {
    throw Error(ErrorKind::kUsage, "already exists and is not a regular file")
        .in_file(path)
        .hint("choose another name");
  }
  // Keeps the lock until the file has its name. A second try has no file any more.
  const Descriptor locked(file_ ? ::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0) : -1);
  file_ = Descriptor();
  const int failed = rename_to_name(replace);
  if (failed == EEXIST) {
    throw Error(ErrorKind::kUsage, "exists already").in_file(path).hint("--force replaces it");
  }
  if (failed != 0) throw io_error("rename", path, failed);
  temporary_.clear();
}

void publish_text(const Folder& folder, const std::string& name, const std::string& text) {
  // A process that begins removes what others have left, and may take this for it.
  constexpr int kTries = 10;
  for (int i = 1;; ++i) {
    try {
      PartialFile file(folder.make({}), name, text.size(), Writers::kMany);
      file.write_at(0, std::as_bytes(std::span(text)));
      file.sync();
      file.commit(/*replace=*/true);
      return;
    } catch (const Error& error) {
      if (error.os_error() != ENOENT || i == kTries) throw;
    }
  }
}

}  // namespace reshardfs
