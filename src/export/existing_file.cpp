// SPDX-License-Identifier: Apache-2.0
#include "export/existing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "reshardfs/error.h"

namespace reshardfs {

Standing standing_of(const Folder& root, const std::filesystem::path& path, std::uint64_t size) {
  const auto folder = root.find(path.parent_path());
  const auto found = folder ? folder->look_at(path.filename()) : std::nullopt;
  if (!found) return Standing::kMissing;
  if (!S_ISREG(found->st_mode)) {
    throw Error(ErrorKind::kUsage, "is in the way: it is not a regular file")
        .in_file(root.path() / path)
        .hint("choose another directory");
  }
  return static_cast<std::uint64_t>(found->st_size) == size ? Standing::kSameSize
                                                            : Standing::kDiffers;
}

void ExistingFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
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

void ExistingFile::open() const {
  const auto folder = root_.find(path_.parent_path());
  if (!folder) throw_changed();
  auto file = folder->open_file(path_.filename(), O_RDONLY);
  if (!file) throw io_error("open", root_.path() / path_, errno);
  struct stat found {};
  if (::fstat(file->get(), &found) != 0) throw io_error("examine", root_.path() / path_, errno);
  if (!S_ISREG(found.st_mode)) throw_changed();
  file_.emplace(std::move(*file));
}

void ExistingFile::throw_changed() const {
  throw Error(ErrorKind::kChanged, "has been changed while it was read")
      .in_file(root_.path() / path_);
}

}  // namespace reshardfs
