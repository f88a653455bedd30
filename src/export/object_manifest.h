// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "export/manifest.h"
#include "export/object_folder.h"
#include "export/share.h"

namespace reshardfs {

/// The manifest of an export to an object store: the text of Manifest, with each object's ETag.
/// Nothing can be appended to an object, so it is written as a whole now and then. What is about to
/// be written is claimed by an entry without sums before: an object that a killed run has completed
/// is known as the export's own then.
class ObjectManifest {
 public:
  /// Reads the one that is there, if any.
  /// @param force begin a new one if there is one of another conversion.
  /// @throws Error kUsage for another conversion, kIo.
  ObjectManifest(const ObjectFolder& folder, const nlohmann::ordered_json& identity, bool force,
                 const std::optional<SharePlan>& share);
  ObjectManifest(const ObjectManifest&) = delete;
  ObjectManifest& operator=(const ObjectManifest&) = delete;

  /// Not while other threads add.
  const Manifest::Entry* find(const std::string& path) const;
  const Manifest::Entries& entries() const noexcept { return entries_; }
  /// Without writing it. Not while other threads add.
  void set(const std::string& path, Manifest::Entry entry);
  /// Of an object that has been written. From any thread. @throws Error of save().
  void add(const std::string& path, Manifest::Entry entry);
  /// Writes what has been set, unless it is there already, or another process has completed the
  /// same share meanwhile.
  /// @throws Error kUsage if another conversion has been begun in its place; kIo.
  void save();
  /// Replaces it by one that says that its share is complete, unless it says so already.
  /// @param paths of the share's files, which all have entries.
  /// @throws Error of save().
  void complete(const std::vector<std::string>& paths);

 private:
  std::optional<std::string> read() const;
  std::string text();
  void store(const std::string& text, bool is_complete);

  const ObjectFolder& folder_;
  std::string name_;
  nlohmann::ordered_json header_;
  bool begun_ = false;  ///< whether the one that is there is this export's
  std::mutex mutex_;    // guards both below
  Manifest::Entries entries_;
  std::uint64_t unsaved_bytes_ = 0;
  std::mutex store_mutex_;  // guards seen_, and keeps writers apart
  std::string seen_;
};

}  // namespace reshardfs
