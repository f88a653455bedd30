// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "export/folder.h"
#include "export/share.h"

namespace reshardfs {

/// What an export has written, so that it can go on after it was killed: a line of JSON that says
/// of what conversion, and one for each file. Lines are appended, so that a file costs the same
/// however many there are, and a torn last line loses one file's entry alone.
///
/// Each share of an export has one of its own. When the share is complete, the manifest is replaced
/// by one that has exactly its files, in order, and says so at its end: whoever completes the
/// share, and however often, makes the same bytes of it.
class Manifest {
 public:
  struct Entry {
    std::uint64_t size = 0;
    std::string sha256{};  ///< empty: it is about to be written
    /// What an object store calls this version of it; empty for a file.
    std::string etag{};
  };
  using Entries = std::map<std::string, Entry>;

  static constexpr const char* kName = ".reshardfs-export.jsonl";

  /// Reads the manifest of a directory, or begins one, and locks it.
  /// @param identity see conversion_identity(); the same exactly if files that exist may be kept.
  /// @param force begin a new one if the directory has one of another conversion.
  /// @param share of which it is to be; nothing: of an export that is not shared out.
  /// @throws Error kUsage for another conversion: says what is different; if another export has it
  ///         locked, or what stands there is no file of its own (a link, one with a second name,
  ///         a device): nothing is written to it then; kIo.
  Manifest(const Folder& folder, const nlohmann::ordered_json& identity, bool force,
           const std::optional<SharePlan>& share = {});
  Manifest(const Manifest&) = delete;
  Manifest& operator=(const Manifest&) = delete;

  std::optional<Entry> find(const std::string& path) const;
  /// All entries, by path. Not while other threads add.
  const Entries& entries() const noexcept { return entries_; }
  /// From any thread. @throws Error kIo.
  void add(const std::string& path, const Entry& entry);
  /// Waits until it is on disk. @throws Error kIo.
  void sync();
  /// Of a share: that no other conversion has been begun in its place, by a process that does not
  /// see the lock. To be called before a file gets its name.
  /// @throws Error kUsage if one has, kIo.
  void require_own(const Folder& folder) const;
  /// Replaces it by one that says that its share is complete, unless it says so already. Nothing
  /// must be added afterwards.
  /// @param paths of the share's files, which all have entries.
  /// @throws Error kIo.
  void complete(const Folder& folder, const std::vector<std::string>& paths);

 private:
  void open_and_lock(const Folder& folder);
  void append(const std::string& line);

  std::string name_;
  std::filesystem::path path_;
  nlohmann::ordered_json header_;
  std::optional<SharePlan> share_;
  std::optional<Descriptor> file_;
  mutable std::mutex mutex_;  // guards entries_, and keeps lines apart
  Entries entries_;
};

/// `.reshardfs-export.3-of-16.jsonl`
std::string manifest_name(const Share& share);
/// The share that has a manifest of that name; nothing if it is none of a share.
std::optional<Share> share_of_manifest(const std::string& name);

/// Looks at a manifest that is another process's, or was.
/// @return its entries; nothing if there is none, or none that has been begun.
/// @throws Error kUsage as the constructor of Manifest, but not for locks; kIo.
std::optional<Manifest::Entries> read_manifest(const Folder& folder,
                                               const nlohmann::ordered_json& identity,
                                               const std::optional<SharePlan>& share);
/// The same, of whatever files its share is.
std::optional<Manifest::Entries> read_share_of_any_files(const Folder& folder,
                                                         const nlohmann::ordered_json& identity,
                                                         const Share& share);
/// The entries of a share's manifest if it says that all of the share is complete. One that does
/// not is not read but for its end.
/// @throws Error kIo.
std::optional<Manifest::Entries> read_complete_share(const Folder& folder,
                                                     const nlohmann::ordered_json& identity,
                                                     const SharePlan& share);

}  // namespace reshardfs
