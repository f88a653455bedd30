// SPDX-License-Identifier: Apache-2.0
/// The seam between an export and the place that it writes to.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/conversion.h"

#include "export/block_engine.h"
#include "export/manifest.h"
#include "export/share.h"

namespace reshardfs {

using OutputFiles = std::vector<const OutputFile*>;

/// Writes one file of a conversion. The file gets its name only when it is complete.
class WriteJob : public BlockJob {
 public:
  explicit WriteJob(const OutputFile& output) : output_(output) {}

  const VirtualFile& file() const final { return *output_.file; }
  const std::string& name() const final { return output_.path; }

  /// After a failure, when nothing writes any more: leaves what has been written to a process after
  /// this one. What is not left is removed, here or by the destructor.
  /// @return whether there is anything to go on with.
  virtual bool leave() noexcept = 0;
  /// As leave(), but leaves nothing.
  virtual void abandon() noexcept = 0;
  /// Whether it has failed where it writes: then what it has written must not keep the space.
  virtual bool has_failed_to_write() const noexcept { return false; }

  /// Bytes that an earlier process wrote correctly, and that are not written again.
  std::uint64_t resumed_bytes() const noexcept { return resumed_bytes_; }
  /// Blocks that a process before this one had written, and that are something else now.
  std::uint64_t damaged_blocks() const noexcept { return damaged_blocks_; }
  /// Bytes in blocks that the file shares with the source.
  std::uint64_t shared_bytes() const noexcept { return shared_bytes_; }

 protected:
  std::atomic<std::uint64_t> resumed_bytes_{0};
  std::atomic<std::uint64_t> damaged_blocks_{0};
  std::atomic<std::uint64_t> shared_bytes_{0};

 private:
  const OutputFile& output_;
};

using WriteJobs = std::vector<std::unique_ptr<WriteJob>>;

/// A directory or a prefix of an object store, and how files, small texts and manifests are kept
/// there. Paths are plain, and relative to it; names are paths without a slash.
class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  virtual ~Target() = default;

  /// How messages speak of it.
  struct Words {
    const char* another;  ///< what a user may choose in its place
    const char* inside;   ///< where what it holds is
    const char* stays;    ///< what an export that ended early has left there
    const char* block;    ///< what is written at once
    const char* written;  ///< and how
  };
  virtual const Words& words() const = 0;
  /// A path as messages name it.
  virtual std::filesystem::path shown(const std::string& path) const = 0;

  struct Found {
    std::uint64_t size = 0;
    /// What the target calls this version of the file; empty if it does not say. Nothing: it tells
    /// no versions at all, and the contents have to be compared.
    std::optional<std::string> version{};
  };
  struct Listing {
    std::map<std::string, Found> files{};  ///< those that were asked for and are there
    std::set<std::string> ranks{};         ///< names of all ranks' directories, whosever
  };
  /// @throws Error kUsage if what has one of the paths is no regular file; kMissing if there is no
  ///         such bucket; kIo.
  virtual Listing list(const std::set<std::string>& paths) const = 0;
  /// Those of the files that may be removed: they are as a manifest lists them, and no sources.
  virtual std::set<std::string> removable(const Manifest::Entries& /*listed*/,
                                          const std::vector<ConversionSource>& /*sources*/) const {
    return {};
  }
  /// Removes files of removable(), and the directories that are empty then. @throws Error kIo.
  virtual void remove_files(const std::set<std::string>& /*paths*/) const {}
  /// The names that begin so, sorted. @throws Error as list().
  virtual std::vector<std::string> names(const std::string& prefix) const = 0;

  /// The text that has a name.
  /// @param end what it must end with; of a text that does not, no more may be read.
  /// @return nothing if there is none that ends so.
  /// @throws Error kUsage or kBadInput if it is nothing that an export writes; kIo.
  virtual std::optional<std::string> read(const std::string& name,
                                          std::string_view end = {}) const = 0;
  /// Gives a text its name in one step, in the place of another, unless it is there already. Any
  /// number of processes may do so at once. It lasts when this returns.
  /// @throws Error kUsage if what has the name is no regular file; kIo.
  virtual void put(const std::string& name, const std::string& text) const = 0;
  /// That it is not there is no error. @throws Error kIo.
  virtual void remove(const std::string& name) const = 0;

  /// Takes a manifest, or the place for one, for this process, as far as the target knows of
  /// processes. Keeps exports of all files and of shares from running at the same time.
  /// @param share the manifest's share; nullopt: the manifest of an export of all files.
  /// @throws Error kUsage if another process has it, or what has the name is none; kIo.
  virtual std::unique_ptr<Claim> claim(const std::optional<Share>& share) const = 0;
  /// Removes a manifest of another export.
  /// @return false if it is nothing that may be removed.
  /// @throws Error kUsage if its process still runs; kIo.
  virtual bool revoke(const std::string& name) const = 0;

  /// How blocks are written to this target.
  /// @param memory bytes for all blocks that are being sent.
  /// @throws Error kUsage if that is not enough for one.
  virtual BlockEngineOptions engine(const OutputFiles& /*files*/, BlockEngineOptions options,
                                    std::uint64_t /*memory*/) const {
    return options;
  }
  /// Decides which files must be written. It writes only lines of the manifest until all checks
  /// have succeeded.
  /// @param force write those that differ; else they are refused.
  /// @param there list() of them.
  /// @throws Error kUsage if a file is in the way; kIo. Interrupted.
  virtual OutputFiles choose(const OutputFiles& files, const Listing& there, bool force,
                             Manifest& manifest, const BlockEngineOptions& engine) const = 0;
  /// Removes what processes that were killed have left of `files`, save what can be gone on with.
  /// @param pending the members of `files` that must be written; each gets a job.
  /// @param replace whether files that appear meanwhile may be replaced.
  /// @param warnings gets what does not keep the files from being written.
  /// @throws Error kIo, also if there is not enough space for them.
  virtual WriteJobs jobs(const OutputFiles& files, const OutputFiles& pending, bool replace,
                         Manifest& manifest, const BlockEngineOptions& engine,
                         std::vector<std::string>& warnings) const = 0;
  /// Waits until the names of files last. @throws Error kIo.
  virtual void sync(const OutputFiles& /*files*/) const {}
};

/// A file that is in the way of one that is to be written.
[[noreturn]] void throw_in_the_way(const Target& target, const std::string& path,
                                   const std::string& what);

}  // namespace reshardfs
