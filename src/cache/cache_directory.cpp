// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/file_lock.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr mode_t kOthers = 0077;
constexpr const char* kSweep = "sweep";
constexpr const char* kHint = "choose another directory for the cache";

/// The user's directory, with those above it that are missing.
fs::path own_directory(const fs::path& parent) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(parent, failed);
  if (failed) throw io_error("find", parent, failed.value());
  fs::path made = absolute.root_path();
  for (const fs::path& name : absolute.relative_path()) {
    made /= name;
    if (::mkdir(made.c_str(), kDirectoryMode) == 0 || errno == EEXIST) continue;
    const int why = errno;
    if (!fs::is_directory(made, failed)) throw io_error("make", made, why);
  }
  if (!fs::is_directory(absolute, failed)) {
    throw Error(ErrorKind::kUsage, "is not a directory").in_file(parent).hint(kHint);
  }
  return absolute / fmt::format("reshardfs-{}", ::geteuid());
}

Error unsafe(const std::string& what, const fs::path& path) {
  return Error(ErrorKind::kUsage, what).in_file(path).hint(kHint);
}

/// Makes a directory if it is not there, and opens it if it is this user's alone.
Descriptor open_private(int directory, const char* name, const fs::path& path) {
  if (::mkdirat(directory, name, kDirectoryMode) != 0 && errno != EEXIST) {
    throw io_error("make", path, errno);
  }
  Descriptor file = open_in(directory, name, O_RDONLY | O_DIRECTORY);
  if (!file && (errno == ENOTDIR || errno == ELOOP)) throw unsafe("is not a directory", path);
  if (!file) throw io_error("open", path, errno);
  const auto status = file.status();
  if (!status) throw io_error("examine", path, errno);
  if (status->st_uid != ::geteuid()) throw unsafe("belongs to another user", path);
  if ((status->st_mode & kOthers) != 0) {
    throw unsafe(fmt::format("has mode {:04o}, but must be open to its owner alone (0700)",
                             status->st_mode & 07777U),
                 path);
  }
  return file;
}

Descriptor open_private(const fs::path& path) {
  return open_private(AT_FDCWD, path.c_str(), path);
}

Descriptor open_own_file(int directory, const char* name, const fs::path& path) {
  Descriptor file = open_in(directory, name, O_RDWR | O_CREAT, kFileMode);
  if (!file && errno == ELOOP) throw unsafe("is not a file", path / name);
  if (!file) throw io_error("open", path / name, errno);
  const auto status = file.status();
  if (!status || !S_ISREG(status->st_mode)) throw unsafe("is not a file", path / name);
  return file;
}

}  // namespace

std::array<char, 2> CacheDirectory::folder_name(std::size_t number) noexcept {
  constexpr const char* kDigits = "0123456789abcdef";
  return {kDigits[number], '\0'};
}

CacheDirectory::CacheDirectory(const fs::path& parent)
    : path_(own_directory(parent)),
      root_(open_private(path_)),
      ledger_(open_own_file(root_.get(), kLedger, path_)),
      sweep_(open_own_file(root_.get(), kSweep, path_)) {
  for (std::size_t i = 0; i < kFolders; ++i) {
    const auto name = folder_name(i);
    open_private(root_.get(), name.data(), path_ / name.data());
  }
  open_private(root_.get(), kFilling, path_ / kFilling);
}

Descriptor CacheDirectory::open_record(const RecordPath& path) const noexcept {
  return open_in(root_.get(), path.data(), O_RDONLY);
}

bool CacheDirectory::has_record(const RecordPath& path) const noexcept {
  return ::faccessat(root_.get(), path.data(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void CacheDirectory::remove_record(const RecordPath& path,
                                   const struct stat& found) const noexcept {
  struct stat now {};
  if (::fstatat(root_.get(), path.data(), &now, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (now.st_ino == found.st_ino) ::unlinkat(root_.get(), path.data(), 0);
}

Filling CacheDirectory::make_filling(std::uint64_t size) const noexcept {
  Filling filling{{}, Descriptor()};
  const std::uint64_t number = random_number();
  std::array<char, 32> digits{};
  hex_hash(std::as_bytes(std::span(&number, 1)), digits);
  auto* const rest = std::copy_n(kFilling, std::strlen(kFilling), filling.path.begin());
  *rest = '/';
  std::copy(digits.begin(), digits.end(), rest + 1);
  filling.file = open_in(root_.get(), filling.path.data(), O_RDWR | O_CREAT | O_EXCL, kFileMode);
  if (!filling.file) return filling;
  try_lock(filling.file.get());
  filling_ = filling.file.get();
  // A recount finds the full size, although most of it is not written yet.
  if (::ftruncate(filling.file.get(), static_cast<off_t>(size)) != 0) {
    const int failed = errno;
    remove_filling(filling);
    filling.file = Descriptor();
    errno = failed;
  }
  return filling;
}

void CacheDirectory::remove_filling(const Filling& filling) const noexcept {
  filling_ = -1;
  ::unlinkat(root_.get(), filling.path.data(), 0);
}

int CacheDirectory::give_name(const Filling& filling, const RecordPath& path) const noexcept {
  filling_ = -1;
  const int root = root_.get();
  if (::renameat2(root, filling.path.data(), root, path.data(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return errno;
  // A file system without the flag: the replaced record counts until the next recount.
  return ::renameat(root, filling.path.data(), root, path.data()) == 0 ? 0 : errno;
}

void CacheDirectory::leave() noexcept {
  for (const int locked : {ledger_.descriptor(), sweep_.get(), filling_.load()}) {
    if (locked >= 0) ::close(locked);
  }
}

CurrentDirectory::CurrentDirectory(const fs::path& parent)
    : parent_(fs::absolute(parent)), directory_(std::make_shared<CacheDirectory>(parent_)) {}

std::shared_ptr<CacheDirectory> CurrentDirectory::get() const noexcept {
  const std::lock_guard lock(mutex_);
  return directory_;
}

bool CurrentDirectory::make_again() noexcept {
  try {
    auto made = std::make_shared<CacheDirectory>(parent_);
    const std::lock_guard lock(mutex_);
    directory_.swap(made);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace reshardfs
