// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "reshardfs/error.h"

#include "export/share.h"

namespace reshardfs {

class Target;

/// A manifest that this process has taken for its own, as a text: see Target::claim().
class Claim {
 public:
  Claim() = default;
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  virtual ~Claim() = default;

  /// What it has; empty if there is none. To be called once, before those below.
  /// @throws Error kUsage or kBadInput if that is none; kIo.
  virtual std::string read() = 0;
  /// To be called once, after read().
  /// @param good number of bytes to keep, from read(); 0: begin a new manifest.
  /// @param header its first line, by which it is known to be this export's.
  /// @param opening that line, and what else is to stand above the entries of a new one.
  /// @throws Error kIo.
  virtual void begin(std::uint64_t good, const std::string& header, const std::string& opening) = 0;
  /// Whether lines can be added; else save() writes all of it anew.
  virtual bool appends() const noexcept = 0;
  /// Adds a line, if that is possible. Not from two threads at once. @throws Error kIo.
  virtual void append(const std::string& line) = 0;
  /// Waits until it lasts. From any thread.
  /// @param text gives all of it; called only where lines cannot be added.
  /// @throws Error kIo; kUsage as require_own().
  virtual void save(const std::function<std::string()>& text) = 0;
  /// Replaces it by this text in one step, unless it has it. Nothing must be added afterwards.
  /// @throws Error kIo; kUsage as require_own().
  virtual void complete(const std::string& text) = 0;
  /// That no other conversion has been begun in its place, by a process that does not know of the
  /// claim. @throws Error kUsage if one has, kIo.
  virtual void require_own() const = 0;
};

/// Records what an export has written, so that it can continue after it was killed. One line of
/// JSON states the conversion, and one line describes each file. Lines are appended if the target
/// permits it, so that the cost for a file does not grow with their number, and an incomplete last
/// line loses only one file's entry. On other targets the manifest is rewritten from time to time.
/// There, a file gets an entry without sums before it is written, so that a file that a killed run
/// completed is recognized as the export's own.
///
/// Each share of an export has its own manifest. When the share is complete, the manifest is
/// replaced by one that lists exactly its files, in order, and states at its end that it is
/// complete. Its bytes are the same no matter which process completes the share, or how often.
class Manifest {
 public:
  struct Entry {
    std::uint64_t size = 0;
    /// Of its bytes, one of the two; both empty: it is about to be written, or was not read.
    std::string sha256{};
    /// What an object store calls this version of it; empty for a file.
    std::string etag{};
    std::string xxh3{};  ///< see ContentSums

    bool has_sum() const noexcept { return !sha256.empty() || !xxh3.empty(); }
  };
  using Entries = std::map<std::string, Entry>;

  static constexpr const char* kName = ".reshardfs-export.jsonl";

  /// Claims the manifest of a target, and reads it or begins one.
  /// @param identity see conversion_identity(); the same exactly if files that exist may be kept.
  /// @param force begin a new one if there is one of another conversion.
  /// @param share of which it is to be; nothing: of an export that is not shared out.
  /// @param strategy see manifest_strategy_line(); empty: there is none.
  /// @throws Error kUsage for another conversion: says what is different; as Target::claim(); kIo.
  Manifest(const Target& target, const std::string& identity, bool force,
           const std::optional<SharePlan>& share = {}, const std::string& strategy = {});
  Manifest(const Manifest&) = delete;
  Manifest& operator=(const Manifest&) = delete;

  /// Whether each entry is there when add() returns.
  bool appends() const noexcept { return claim_->appends(); }
  /// From any thread.
  std::optional<Entry> find(const std::string& path) const;
  /// All entries, by path. Not while other threads add.
  const Entries& entries() const noexcept { return entries_; }
  /// Without waiting until it is written. From any thread. @throws Error kIo.
  void set(const std::string& path, const Entry& entry);
  /// Of a file that has been written, or is about to get its name. From any thread.
  /// @throws Error of save().
  void add(const std::string& path, const Entry& entry);
  /// Waits until all entries are written. @throws Error kIo; kUsage as require_own().
  void save();
  /// To be called before a file of a share gets its name. @throws Error of Claim::require_own().
  void require_own() const { claim_->require_own(); }
  /// Replaces it by one that says that its share is complete, unless it says so already. Nothing
  /// must be added afterwards.
  /// @param paths of the share's files, which all have entries.
  /// @throws Error of save().
  void complete(const std::set<std::string>& paths);

  /// What stands for the conversion: short, and without blanks.
  const std::string& identity_sum() const noexcept { return identity_sum_; }

 private:
  std::string header_;
  std::string opening_;  // the header, and what else stands above the entries
  std::string identity_sum_;
  std::unique_ptr<Claim> claim_;
  mutable std::mutex mutex_;  // guards those below, and keeps lines apart
  Entries entries_;
  std::uint64_t unsaved_bytes_ = 0;
};

/// `.reshardfs-export.3-of-16.jsonl`; nothing: that of an export that is not shared out.
std::string manifest_name(const std::optional<Share>& share);
/// The share whose manifest has that name; nullopt if it is not the manifest of a share.
std::optional<Share> share_of_manifest(const std::string& name);
/// What all names of manifests begin with.
inline constexpr const char* kManifestPrefix = ".reshardfs-export.";

/// The error that another conversion has been started in the same place and has replaced this
/// manifest.
Error another_export_error(const std::filesystem::path& manifest);

}  // namespace reshardfs
