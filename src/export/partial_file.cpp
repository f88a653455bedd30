// SPDX-License-Identifier: Apache-2.0
#include "export/partial_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "reshardfs/error.h"

#include "base/sha256.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMaxNameBytes = 255;
constexpr const char* kSuffix = ".reshardfs-partial";
constexpr const char* kSpaceHint = "make room and run the same command again: it continues";

Error write_error(const std::filesystem::path& path, int errno_value) {
  Error error = io_error("write", path, errno_value);
  if (errno_value == ENOSPC || errno_value == EDQUOT || errno_value == EFBIG) {
    error.hint(kSpaceHint);
  }
  return error;
}

}  // namespace

std::string partial_name(const std::string& name) {
  std::string partial = "." + name + kSuffix;
  if (partial.size() <= kMaxNameBytes) return partial;
  Sha256 hash;
  hash.update(std::as_bytes(std::span(name)));
  return "." + hash.finish() + kSuffix;
}

PartialFile::PartialFile(std::filesystem::path path, std::uint64_t size)
    : path_(std::move(path)),
      temporary_(path_.parent_path() / partial_name(path_.filename().string())) {
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  if (error) throw io_error("create the directory", path_.parent_path(), error.value());
  // Not O_TRUNC on what is there: it could be a link to something else.
  if (::unlink(temporary_.c_str()) != 0 && errno != ENOENT) {
    throw io_error("remove", temporary_, errno);
  }
  constexpr mode_t kMode = 0666;  // the umask takes from it
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (fd_ < 0) throw io_error("create", temporary_, errno);
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) {
    const int failed = errno;
    close();
    ::unlink(temporary_.c_str());
    throw write_error(path_, failed);
  }
}

PartialFile::~PartialFile() {
  close();
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void PartialFile::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void PartialFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw write_error(path_, written < 0 ? errno : ENOSPC);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void PartialFile::sync() {
  if (::fsync(fd_) != 0) throw write_error(path_, errno);
}

void PartialFile::commit(bool replace) {
  close();
  const unsigned flags = replace ? 0U : RENAME_NOREPLACE;
  int result = ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), flags);
  if (result != 0 && errno == EINVAL && !replace) {
    // A file system that does not know the flag (NFS). link() does not replace either.
    result = ::link(temporary_.c_str(), path_.c_str());
    if (result == 0) ::unlink(temporary_.c_str());
  }
  if (result != 0) {
    if (errno == EEXIST) {
      throw Error(ErrorKind::kUsage, "has appeared meanwhile").in_file(path_);
    }
    throw io_error("rename", path_, errno);
  }
  temporary_.clear();
}

void sync_directory(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw io_error("open", path, errno);
  const int result = ::fsync(fd);
  const int failed = errno;
  ::close(fd);
  // Some file systems cannot sync directories.
  if (result != 0 && failed != EINVAL) throw io_error("sync", path, failed);
}

}  // namespace reshardfs
