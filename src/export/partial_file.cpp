// SPDX-License-Identifier: Apache-2.0
#include "export/partial_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/sha256.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMaxNameBytes = 255;
constexpr const char* kSuffix = ".reshardfs-partial";
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

std::string own_name(const std::string& name) {
  std::random_device random;
  return partial_name(fmt::format("{}.{:08x}{:08x}", name, random(), random()));
}

}  // namespace

std::string partial_name(const std::string& name) {
  std::string partial = "." + name + kSuffix;
  if (partial.size() <= kMaxNameBytes) return partial;
  Sha256 hash;
  hash.update(std::as_bytes(std::span(name)));
  return "." + hash.finish() + kSuffix;
}

PartialFile::PartialFile(Folder folder, std::string name, std::uint64_t size, Writers writers)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      temporary_(writers == Writers::kOne ? partial_name(name_) : own_name(name_)) {
  // Not O_TRUNC on what is there: it could be a link to something else.
  if (writers == Writers::kOne && ::unlinkat(folder_.descriptor(), temporary_.c_str(), 0) != 0 &&
      errno != ENOENT) {
    throw io_error("remove", folder_.path() / temporary_, errno);
  }
  constexpr mode_t kMode = 0666;  // the umask takes from it
  auto file = folder_.open_file(temporary_, O_WRONLY | O_CREAT | O_EXCL, kMode);
  if (!file) throw io_error("create", folder_.path() / name_, errno);
  file_.emplace(std::move(*file));
  if (::ftruncate(file_->get(), static_cast<off_t>(size)) != 0) {
    const int failed = errno;
    remove();
    throw write_error(folder_.path() / name_, failed);
  }
}

PartialFile::~PartialFile() {
  remove();
}

void PartialFile::remove() noexcept {
  file_.reset();
  if (!temporary_.empty()) ::unlinkat(folder_.descriptor(), temporary_.c_str(), 0);
}

void PartialFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(file_->get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw write_error(folder_.path() / name_, written < 0 ? errno : ENOSPC);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void PartialFile::sync() {
  if (::fsync(file_->get()) != 0) throw write_error(folder_.path() / name_, errno);
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
  file_.reset();
  const int failed = rename_to_name(replace);
  if (failed == EEXIST) {
    throw Error(ErrorKind::kUsage, "exists already").in_file(path).hint("--force replaces it");
  }
  if (failed != 0) throw io_error("rename", path, failed);
  temporary_.clear();
}

}  // namespace reshardfs
