// SPDX-License-Identifier: Apache-2.0
#include "export/read_back.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/text/file_name.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/whole/counted_name.h"
#include "export/planned_files.h"
#include "format/input_format.h"
#include "storage/local/directory.h"
#include "storage/source_tree.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnDirectory = "choose a directory of its own";

class ComingSource final : public ByteSource {
 public:
  ComingSource(const fs::path& path, const VirtualFile& file, std::uint64_t number)
      : name_(path.string()), file_(file), number_(number) {}
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return file_.size(); }
  std::int64_t mtime_ns() const override { return 0; }
  FileStamp stamp() const override { return {~std::uint64_t{0}, number_, 0}; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    file_.read_at(offset, out);
  }
  void check_unchanged() const override {}

 private:
  std::string name_;
  const VirtualFile& file_;
  std::uint64_t number_;
};

/// A directory as it will be.
class ComingTree final : public SourceTree {
 public:
  /// @param has_others whether files that are not of this export are shown.
  ComingTree(fs::path root, const ComingFiles& files, bool has_others)
      : root_(std::move(root)), files_(files), has_others_(has_others) {
    for (const auto& [path, file] : files.written) add(path);
    for (const std::string& path : files.known) add(path);
  }

  ByteSourcePtr open_source(const fs::path& path) const override {
    const auto coming = files_.written.find(below(path));
    if (coming == files_.written.end()) return open_file(path);
    const auto number = std::distance(files_.written.begin(), coming);
    return std::make_shared<const ComingSource>(path, *coming->second,
                                                static_cast<std::uint64_t>(number));
  }

  std::vector<DirectoryEntry> list(const fs::path& path) const override {
    const auto own = children_.find(below(path));
    std::vector<DirectoryEntry> entries;
    if (has_others_ && path_kind(path) == PathKind::kDirectory) entries = list_directory(path);
    std::erase_if(entries, [&](const DirectoryEntry& entry) {
      const std::string place = below(path / entry.name);
      return files_.removed.contains(place) || is_own(own, entry.name);
    });
    for (DirectoryEntry& entry : entries) entry.is_link = false;
    if (own != children_.end()) {
      for (const auto& [name, is_directory] : own->second) {
        entries.push_back({name, is_directory, !is_directory, false});
      }
    }
    std::sort(entries.begin(), entries.end(),
              [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
    return entries;
  }

  PathKind kind(const fs::path& path) const override {
    const std::string place = below(path);
    if (children_.contains(place)) return PathKind::kDirectory;
    if (files_.written.contains(place) || files_.known.contains(place)) return PathKind::kOther;
    if (!has_others_ || files_.removed.contains(place)) return PathKind::kMissing;
    return path_kind(path);
  }

 private:
  using Children = std::map<std::string, std::map<std::string, bool>>;

  bool is_own(Children::const_iterator directory, const std::string& name) const {
    return directory != children_.end() && directory->second.contains(name);
  }

  void add(const fs::path& path) {
    bool is_directory = false;
    for (fs::path at = path; !at.empty(); at = at.parent_path()) {
      children_[at.parent_path().string()].emplace(at.filename().string(), is_directory);
      is_directory = true;
    }
  }

  /// Relative to the root; that of the root itself is empty.
  std::string below(const fs::path& path) const {
    const fs::path place = path.lexically_relative(root_);
    return place == "." ? std::string() : place.string();
  }

  fs::path root_;
  const ComingFiles& files_;
  bool has_others_;
  Children children_;  ///< names in the directories of the export; whether they are directories
};

fs::path directory_of(const fs::path& file) {
  return fs::absolute(file).parent_path();
}

/// What a directory is read as.
struct FilesRead {
  std::set<std::string> files{};  ///< relative to the root
  std::optional<Error> error{};
};

FilesRead reading_of(const fs::path& root, const std::string& below, const ComingFiles& files,
                     bool has_others) {
  FilesRead reading;
  CheckpointOptions options;
  options.listed = std::make_shared<const ComingTree>(root, files, has_others);
  try {
    for (const FoundFile& file : discover(below.empty() ? root : root / below, options).files) {
      reading.files.insert(file.path.lexically_relative(root).string());
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    reading.error = error;
  }
  return reading;
}

std::vector<std::string> foreign_in(const std::set<std::string>& read, const ComingFiles& coming) {
  std::vector<std::string> foreign;
  std::copy_if(read.begin(), read.end(), std::back_inserter(foreign), [&](const std::string& path) {
    return !coming.written.contains(path) && !coming.known.contains(path);
  });
  return foreign;
}

bool has_checkpoint_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return has_torch_name(path) || input_format_of(path).extension == extension ||
         is_index_name(path.filename().string());
}

/// Files that are not of the export, by their names, in a directory and one level below.
std::vector<std::string> checkpoint_files(const fs::path& root, const std::string& below,
                                          const ComingFiles& coming) {
  std::set<std::string> found;
  const auto look = [&](const fs::path& place) {
    for (const DirectoryEntry& entry : list_directory(root / place)) {
      const std::string path = (place / entry.name).string();
      if (entry.is_regular && has_checkpoint_name(path) && !coming.removed.contains(path)) {
        found.insert(path);
      }
    }
  };
  look(below);
  for (const DirectoryEntry& entry : list_directory(root / below)) {
    if (entry.is_directory) look(fs::path(below) / entry.name);
  }
  return foreign_in(found, coming);
}

/// @param below the directory that will be read, in the root; empty: the root.
void require_own_files(const fs::path& root, const std::string& below, const ComingFiles& coming) {
  const fs::path directory = below.empty() ? root : root / below;
  const FilesRead alone = reading_of(root, below, coming, /*has_others=*/false);
  const FilesRead all = reading_of(root, below, coming, /*has_others=*/true);
  const std::vector<std::string> foreign = foreign_in(all.files, coming);
  const bool is_beside = std::any_of(foreign.begin(), foreign.end(), [&](const fs::path& path) {
    return std::any_of(coming.written.begin(), coming.written.end(), [&](const auto& file) {
      return fs::path(file.first).parent_path() == path.parent_path();
    });
  });
  if (!foreign.empty() && (!alone.files.empty() || is_beside)) {
    throw Error(
        ErrorKind::kUsage,
        "has other files, which would be read with those of the export or in their place: " +
            name_list(foreign))
        .in_file(directory.string())
        .hint(std::string(kOwnDirectory) + ", or remove these files");
  }
  if (all.error && !alone.files.empty()) {
    const std::vector<std::string> others = checkpoint_files(root, below, coming);
    throw Error(ErrorKind::kUsage,
                "could not be read with what the export writes into it: " + all.error->message() +
                    (others.empty() ? "" : "; there is " + name_list(others)))
        .in_file(directory.string())
        .hint(std::string(kOwnDirectory) + ", or remove what is in it");
  }
  if (all.files == alone.files || all.error || alone.files.empty()) return;
  throw Error(ErrorKind::kUsage, "would be read as " + counted(all.files.size(), "file") +
                                     " of the " + std::to_string(alone.files.size()) +
                                     " that the export writes, because of what is in it")
      .in_file(directory.string())
      .hint(kOwnDirectory);
}

/// @param error why the directory cannot be read.
void require_no_index(const fs::path& path, const Error& error) {
  for (const DirectoryEntry& entry : list_directory(directory_of(path))) {
    if (!is_index_name(entry.name)) continue;
    throw Error(ErrorKind::kUsage, "would be hidden by '" + printable(entry.name) +
                                       "', as which the directory is read: " + error.message())
        .in_file(path.string())
        .hint("choose a directory of its own for it, or remove the index");
  }
}

/// A file that is a model by itself, and of no index or table.
bool is_plain_model(const fs::path& directory, const std::string& name) {
  if (!has_checkpoint_name(name) || fs::path(name).extension() == ".distcp") return false;
  if (parse_counted_name(name)) return false;
  const std::vector<DirectoryEntry> entries = list_directory(directory);
  return std::none_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return is_index_name(entry.name) || entry.name == ".metadata";
  });
}

/// Hugging Face's libraries read model.safetensors, if it is there, and not the files of an index.
void require_no_single_file(const fs::path& root, const ComingFiles& coming) {
  constexpr std::string_view kIndexEnd = ".index.json";
  for (const auto& [path, file] : coming.written) {
    if (!path.ends_with(kIndexEnd)) continue;
    const std::string single = path.substr(0, path.size() - kIndexEnd.size());
    const bool is_foreign = !coming.written.contains(single) && !coming.known.contains(single) &&
                            !coming.removed.contains(single);
    if (!is_foreign || path_kind(root / single) == PathKind::kMissing) continue;
    throw Error(ErrorKind::kUsage, "would be read in place of the files that the export writes")
        .in_file((root / single).string())
        .hint(std::string(kOwnDirectory) + ", or remove this file");
  }
}

}  // namespace

void require_read_back(const fs::path& directory, const ComingFiles& coming) {
  require_no_single_file(directory, coming);
  std::set<std::string> views{""};
  for (const auto& [path, file] : coming.written) {
    const std::string top = top_of(path);
    if (top != path && !top.starts_with(kRankPrefix)) views.insert(top);
  }
  for (const std::string& view : views) require_own_files(directory, view, coming);
}

std::optional<std::string> require_not_hidden(const fs::path& path, const VirtualFile& file,
                                              const fs::path& source) {
  const std::string name = path.filename().string();
  const fs::path directory = directory_of(path);
  const ComingFiles coming{{{name, &file}}, {}, {}};
  const FilesRead all = reading_of(directory, "", coming, /*has_others=*/true);
  if (all.error) require_no_index(path, *all.error);
  if (all.files.empty() || all.files.contains(name)) return std::nullopt;
  const std::vector<std::string> foreign = foreign_in(all.files, coming);
  const bool is_beside = std::any_of(foreign.begin(), foreign.end(), [](const fs::path& other) {
    return !other.has_parent_path();
  });
  std::error_code failed;
  const bool is_lone = foreign.size() == 1 && is_plain_model(directory, foreign.front());
  if (is_lone && fs::equivalent(directory / foreign.front(), source, failed)) return std::nullopt;
  if (!is_beside || is_lone) {
    return printable(directory.string()) + " is read as " + name_list(foreign) + ", not as " +
           printable(name) + ": name the file itself";
  }
  throw Error(ErrorKind::kUsage, "would be hidden by other files there: the directory is read as " +
                                     name_list(foreign))
      .in_file(path.string())
      .hint("choose a directory of its own for it, or remove these files and their index");
}

Manifest::Entries listed_by_manifests(const Target& target, const IsSameHeader& is_same) {
  Manifest::Entries all;
  for (const std::string& name : target.names(kManifestPrefix)) {
    const auto text = target.read(name);
    if (!text) continue;
    parse_manifest(target.shown(name), *text, is_same, {}, /*force=*/true, all);
  }
  return all;
}

}  // namespace reshardfs
