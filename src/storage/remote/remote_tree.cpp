// SPDX-License-Identifier: Apache-2.0
#include "storage/remote/remote_tree.h"

#include <optional>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "storage/remote/remote_object.h"

namespace reshardfs {
namespace {

std::string without_slash(const std::filesystem::path& path) {
  std::string text = path.string();
  while (text.ends_with('/') && !text.ends_with("://")) text.pop_back();
  return text;
}

/// Names that no path can have.
bool is_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('\0') == std::string_view::npos;
}

}  // namespace

RemoteTree::RemoteTree(const std::filesystem::path& root, std::size_t most_at_once)
    : root_(without_slash(root)), most_at_once_(most_at_once), backend_(backend_of(root_)) {}

/// Call this with the mutex held, so that other threads that need the list wait for it.
void RemoteTree::list_all() const {
  if (asked_) return;
  std::optional<std::vector<ListedObject>> objects = backend_.list_below(root_, most_at_once_);
  if (objects) {
    for (ListedObject& object : *objects) add(std::move(object));
  }
  complete_ = objects.has_value();
  asked_ = true;
}

/// An object and a directory may have one name; a path stands for the directory then.
void RemoteTree::add(ListedObject object) const {
  std::string directory = root_.string();
  std::string_view rest = object.path;
  directories_[directory];
  for (std::size_t slash = rest.find('/'); slash != std::string_view::npos;
       slash = rest.find('/')) {
    const std::string name(rest.substr(0, slash));
    if (!is_name(name)) return;
    directories_[directory][name] = {name, /*is_directory=*/true};
    directory += "/" + name;
    directories_[directory];
    rest = rest.substr(slash + 1);
  }
  if (!is_name(rest)) return;  // a directory's own marker
  const std::string name(rest);
  directories_[directory].try_emplace(
      name, DirectoryEntry{name, /*is_directory=*/false, /*is_regular=*/true});
  objects_[directory + "/" + name] = std::move(object);
}

bool RemoteTree::knows(const std::filesystem::path& path) const {
  const std::string text = path.string();
  const std::string& root = root_.native();
  return complete_ && text.starts_with(root) &&
         (text.size() == root.size() || text[root.size()] == '/');
}

ByteSourcePtr RemoteTree::open_source(const std::filesystem::path& path) const {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = objects_.find(path.string());
    if (found != objects_.end()) return backend_.open_listed(path, found->second);
  }
  return backend_.open(path);
}

std::vector<DirectoryEntry> RemoteTree::list(const std::filesystem::path& path) const {
  const std::string directory = without_slash(path);
  {
    const std::scoped_lock lock(mutex_);
    list_all();
    const auto known = directories_.find(directory);
    if (known != directories_.end()) {
      std::vector<DirectoryEntry> entries;
      entries.reserve(known->second.size());
      for (const auto& [name, entry] : known->second) entries.push_back(entry);
      return entries;
    }
    if (knows(directory)) {
      throw Error(ErrorKind::kMissing, "no such directory").in_file(path.string());
    }
    const auto listed = listed_.find(directory);
    if (listed != listed_.end()) return listed->second;
  }
  std::vector<DirectoryEntry> entries = backend_.list(path);
  const std::scoped_lock lock(mutex_);
  return listed_[directory] = std::move(entries);
}

PathKind RemoteTree::kind(const std::filesystem::path& path) const {
  const std::string wanted = without_slash(path);
  {
    const std::scoped_lock lock(mutex_);
    list_all();
    if (directories_.contains(wanted)) return PathKind::kDirectory;
    if (objects_.contains(wanted)) return PathKind::kOther;
    // The root itself may be an object.
    if (knows(wanted) && wanted != root_.native()) return PathKind::kMissing;
    if (listed_.contains(wanted)) return PathKind::kDirectory;
  }
  return backend_.kind(path);
}

std::int64_t RemoteTree::known_mtime_ns(const std::filesystem::path& path) const {
  const std::scoped_lock lock(mutex_);
  const auto found = objects_.find(path.string());
  return found == objects_.end() ? 0 : time_of_list(found->second.modified);
}

void RemoteTree::foresee_lists(std::span<const std::filesystem::path> paths) const {
  {
    const std::scoped_lock lock(mutex_);
    list_all();
    if (complete_) return;
  }
  parallel_for(
      paths.size(),
      [&](std::size_t i) {
        try {
          list(paths[i]);
        } catch (const Error&) {
          // The call that lists it reports the error.
        }
      },
      kRequestsAtOnce);
}

}  // namespace reshardfs
