// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/recognition.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "reshardfs/error.h"

#include "checkpoint/items/item_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/set_format.h"
#include "checkpoint/side_files.h"
#include "checkpoint/source_links.h"
#include "format/foreign_content.h"
#include "format/input_format.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

bool begins_like_checkpoint(const fs::path& path, const SourceTreePtr& tree) {
  try {
    return is_checkpoint_content(*open_file(path, tree));
  } catch (const Error&) {
    return false;
  }
}

/// A directory from which a source would be taken.
bool has_source_files(const fs::path& directory) {
  try {
    const CheckpointOptions options = listed_once(directory, {});
    if (find_described_steps(directory, options)) return true;
    return !find_all_files(directory, options).found.files.empty();
  } catch (const Error&) {
    return false;
  }
}

/// Whether a file that may have weights lies in it.
bool has_model_file(const fs::path& directory) {
  const std::vector<DirectoryEntry> entries = list_directory(directory);
  return std::any_of(entries.begin(), entries.end(), [&](const DirectoryEntry& entry) {
    return entry.is_regular && has_checkpoint_name(entry.name) && !has_no_weights(entry.name) &&
           begins_like_checkpoint(directory / entry.name, nullptr);
  });
}

}  // namespace

bool has_checkpoint_name(const fs::path& path) {
  const auto formats = input_formats();
  return has_torch_name(path) ||
         std::any_of(formats.begin(), formats.end(), [&](const InputFormat& format) {
           return path.extension() == format.extension;
         });
}

std::vector<std::string> checkpoint_files_in(const fs::path& directory, const SourceTreePtr& tree,
                                             std::size_t most) {
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (names.size() == most) break;
    if (!entry.is_regular || !has_checkpoint_name(entry.name)) continue;
    if (begins_like_checkpoint(directory / entry.name, tree)) names.push_back(entry.name);
  }
  return names;
}

std::vector<std::string> directories_by_number(const fs::path& directory,
                                               const SourceTreePtr& tree) {
  constexpr std::size_t kMost = 256;
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (entry.is_directory && !entry.is_link) names.push_back(entry.name);
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return ::strverscmp(a.c_str(), b.c_str()) > 0;
  });
  if (names.size() > kMost) names.resize(kMost);
  return names;
}

std::optional<fs::path> described_set_in(const fs::path& directory, const SourceTreePtr& tree) {
  for (const std::string& name : directories_by_number(directory, tree)) {
    try {
      const fs::path path = directory / name;
      if (find_described_steps(path, listed_once(path, {}))) return path;
    } catch (const Error&) {
      // No checkpoint, so nothing to name.
    }
  }
  return std::nullopt;
}

bool is_checkpoint(const fs::path& path) noexcept {
  try {
    switch (path_kind(path)) {
      case PathKind::kMissing:
        return false;
      case PathKind::kDirectory:
        if (is_unfinished_item_set(path, nullptr)) return false;
        return has_source_files(path) || has_model_file(path);
      case PathKind::kOther:
        return fs::is_regular_file(path) && begins_like_checkpoint(path, nullptr);
    }
  } catch (const std::exception&) {
    // This only makes a message more exact; a failure does no harm.
  }
  return false;
}

}  // namespace reshardfs
