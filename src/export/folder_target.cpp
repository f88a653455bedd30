// SPDX-License-Identifier: Apache-2.0
#include "export/folder_target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/text/file_name.h"
#include "base/text/url_path.h"
#include "export/checksums.h"
#include "export/contents.h"
#include "export/file_job.h"
#include "export/folder_claim.h"
#include "export/partial_file.h"
#include "export/planned_files.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(fs::absolute(path), error);
  if (error) throw io_error("look at", path, error.value());
  return without_trailing_slash(found);
}

void check_apart(const fs::path& directory, const fs::path& source) {
  const std::string hint = "choose a directory outside the source";
  if (is_inside(directory, source)) {
    throw Error(ErrorKind::kUsage, "the output directory lies inside the source " + source.native())
        .in_file(directory)
        .hint(hint);
  }
  if (is_inside(source, directory)) {
    throw Error(ErrorKind::kUsage,
                "the source " + source.native() + " lies inside the output directory")
        .in_file(directory)
        .hint(hint);
  }
}

}  // namespace

void require_outside(const fs::path& file, const fs::path& source) {
  if (is_url(source) || !is_inside(resolved(file), resolved(source))) return;
  throw Error(ErrorKind::kUsage, "lies inside the source " + source.native())
      .in_file(file)
      .hint("choose a directory outside the source");
}

namespace {

/// @return the directory, which is there then.
Folder open_target(const fs::path& path, const fs::path& source) {
  const fs::path directory = resolved(path);
  const auto url = meant_url(path.native());
  if (url && path_kind(path) == PathKind::kMissing) {
    throw Error(ErrorKind::kUsage, "is a URL that has lost a slash")
        .in_file(path)
        .hint("write " + *url + ", or ./" + path.native() + " for a directory of that name");
  }
  if (!is_url(source)) check_apart(directory, resolved(source));
  std::error_code error;
  if (fs::exists(directory, error) && !fs::is_directory(directory, error)) {
    throw Error(ErrorKind::kUsage, "is not a directory").in_file(directory);
  }
  fs::create_directories(directory, error);
  if (error) throw io_error("create the directory", directory, error.value());
  return Folder::open(directory);
}

}  // namespace

FolderTarget::FolderTarget(const fs::path& path, const fs::path& source, LockMode lock,
                           const FolderWays& ways)
    : folder_(open_target(path, source)), lock_(lock), ways_(ways) {
  require_lock(folder_.opened(), lock, folder_.path());
}

const Target::Words& FolderTarget::words() const {
  static constexpr Words kWords{"directory", "in the output directory",
                                "the blocks that were written stay in the output directory",
                                "block", "written"};
  return kWords;
}

fs::path FolderTarget::shown(const std::string& path) const {
  return folder_.path() / path;
}

std::optional<Target::Found> FolderTarget::look_at(const fs::path& path) const {
  const auto folder = folder_.find(path.parent_path());
  const auto found = folder ? folder->look_at(path.filename()) : std::nullopt;
  if (!found) return std::nullopt;
  if (!S_ISREG(found->st_mode)) {
    throw Error(ErrorKind::kUsage, "is in the way: it is not a regular file")
        .in_file(shown(path))
        .hint("choose another directory");
  }
  return Found{static_cast<std::uint64_t>(found->st_size), std::nullopt};
}

Target::Listing FolderTarget::list(const std::set<std::string>& paths) const {
  Listing there;
  for (const std::string& path : paths) {
    if (auto found = look_at(path)) there.files.emplace(path, std::move(*found));
  }
  for (std::string& name : names(kRankPrefix)) there.ranks.insert(std::move(name));
  return there;
}

std::set<std::string> FolderTarget::removable(const Manifest::Entries& listed,
                                              const std::vector<ConversionSource>& sources) const {
  std::set<std::pair<std::uint64_t, std::uint64_t>> own;
  for (const ConversionSource& source : sources) own.emplace(source.device, source.inode);
  std::set<std::string> paths;
  for (const auto& [path, entry] : listed) {
    const auto folder = folder_.find(fs::path(path).parent_path());
    const auto found = folder ? folder->look_at(fs::path(path).filename()) : std::nullopt;
    if (!found || !S_ISREG(found->st_mode)) continue;
    if (static_cast<std::uint64_t>(found->st_size) != entry.size) continue;
    if (!own.contains({found->st_dev, found->st_ino})) paths.insert(path);
  }
  return paths;
}

void FolderTarget::remove_files(const std::set<std::string>& paths) const {
  std::set<fs::path, std::greater<>> parents;  // those below others first
  for (const std::string& file : paths) {
    const fs::path path = file;
    const auto folder = folder_.find(path.parent_path());
    if (!folder) continue;
    if (::unlinkat(folder->descriptor(), path.filename().c_str(), 0) != 0 && errno != ENOENT) {
      throw io_error("remove", shown(file), errno);
    }
    for (fs::path at = path.parent_path(); !at.empty(); at = at.parent_path()) parents.insert(at);
  }
  for (const fs::path& parent : parents) {
    const auto folder = folder_.find(parent.parent_path());
    // One that is not empty stays.
    if (folder) ::unlinkat(folder->descriptor(), parent.filename().c_str(), AT_REMOVEDIR);
  }
}

std::vector<std::string> FolderTarget::names(const std::string& prefix) const {
  std::vector<std::string> names = folder_.names();
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(prefix); });
  return names;
}

std::optional<std::string> FolderTarget::read(const std::string& name, std::string_view end) const {
  return read_text(folder_, name, end);
}

void FolderTarget::put(const std::string& name, const std::string& text) const {
  const auto found = look_at(name);
  if (found && found->size == text.size() && read(name, {}) == text) return;
  publish_text(folder_, name, text);
  folder_.sync();
}

void FolderTarget::remove(const std::string& name) const {
  if (::unlinkat(folder_.descriptor(), name.c_str(), 0) != 0 && errno != ENOENT) {
    throw io_error("remove", shown(name), errno);
  }
}

std::unique_ptr<Claim> FolderTarget::claim(const std::optional<Share>& share) const {
  return claim_in(folder_, share);
}

bool FolderTarget::revoke(const std::string& name) const {
  const auto found = folder_.look_at(name);
  if (found && (!S_ISREG(found->st_mode) || found->st_nlink > 1)) return false;
  {
    const Descriptor file = folder_.open_file(name, O_RDWR);
    require_lock(file, LockMode::kExclusive, folder_.path());
  }
  // Another share may have been faster.
  remove(name);
  return true;
}

OutputFiles FolderTarget::choose(const OutputFiles& files, const Listing& there, bool force,
                                 Manifest& manifest, const BlockEngineOptions& engine) const {
  return choose_by_contents(*this, folder_, files, there, force,
                            ways_.checksums ? SumKinds::kSha256 : SumKinds::kXxh3, manifest,
                            engine);
}

WriteJobs FolderTarget::jobs(const OutputFiles& files, const OutputFiles& pending, bool replace,
                             Manifest& manifest, const BlockEngineOptions& engine,
                             std::vector<std::string>& /*warnings*/) const {
  const std::set<fs::path> begun = remove_left(files, pending);
  // Shared blocks take no space, and their number is known only at the end.
  if (!ways_.reflink) require_space(pending, begun);
  const FileWriting writing{folder_,   manifest.identity_sum(), &manifest,     replace,
                            writers(), engine.block_bytes,      ways_.reflink, ways_.checksums};
  WriteJobs jobs;
  for (const OutputFile* file : pending) {
    jobs.push_back(file_job(*file, writing, begun.contains(file->path)));
  }
  return jobs;
}

/// Locks exclude other writers of these files. If locks do not work, another writer will fail to
/// complete its file.
/// @return those that have been begun, and can be gone on with.
std::set<fs::path> FolderTarget::remove_left(const OutputFiles& files,
                                             const OutputFiles& pending) const {
  using Names = std::map<fs::path, std::set<std::string>>;  // by directory
  const std::set<const OutputFile*> wanted(pending.begin(), pending.end());
  Names unfinished;
  Names others{{fs::path(), {kChecksumFile}}};
  for (const OutputFile* file : files) {
    const fs::path path = file->path;
    (wanted.contains(file) ? unfinished : others)[path.parent_path()].insert(path.filename());
  }
  for (const auto& [parent, names] : others) {
    if (const auto folder = folder_.find(parent)) remove_partial_files(*folder, names);
  }
  std::set<fs::path> begun;
  for (const auto& [parent, names] : unfinished) {
    const auto folder = folder_.find(parent);
    if (!folder) continue;
    for (const std::string& name : remove_partial_files(*folder, names, writers())) {
      begun.insert(parent / name);
    }
  }
  return begun;
}

void FolderTarget::require_space(const OutputFiles& pending,
                                 const std::set<fs::path>& begun) const {
  std::uint64_t bytes = 0;
  for (const OutputFile* file : pending) {
    bytes = add_or_throw(bytes, file->file->size(), "the export's size");
  }
  // Less the space that partial files have already.
  constexpr std::uint64_t kUnit = 512;
  for (const fs::path& path : begun) {
    const auto folder = folder_.find(path.parent_path());
    const auto found = folder ? folder->look_at(partial_name(path.filename())) : std::nullopt;
    if (found) bytes -= std::min(bytes, static_cast<std::uint64_t>(found->st_blocks) * kUnit);
  }
  struct statvfs space {};
  if (::fstatvfs(folder_.descriptor(), &space) != 0) {
    throw io_error("examine", folder_.path(), errno);
  }
  // Some file systems do not tell.
  if (space.f_blocks == 0) return;
  const std::uint64_t available = std::uint64_t{space.f_bavail} * space.f_frsize;
  if (available >= bytes) return;
  throw Error(ErrorKind::kIo, fmt::format("not enough space: {} bytes are needed, {} are available",
                                          bytes, available))
      .in_file(folder_.path())
      .os_error(ENOSPC)
      .hint("make room, or choose other --ranks or --views");
}

void FolderTarget::sync(const OutputFiles& files) const {
  std::set<fs::path> directories{fs::path()};
  for (const OutputFile* file : files) {
    for (fs::path path = fs::path(file->path).parent_path(); !path.empty();
         path = path.parent_path()) {
      if (!directories.insert(path).second) break;
    }
  }
  for (const fs::path& path : directories) folder_.make(path).sync();
}

}  // namespace reshardfs
