// SPDX-License-Identifier: Apache-2.0
/// Writes the files of a conversion into a directory, or below a prefix of an object store: several
/// at once, each under its name only when it is complete, and so that a run that was stopped in any
/// way can be continued.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "export/block_engine.h"
#include "export/share.h"
#include "export/target.h"

namespace reshardfs {

struct ExportOptions {
  /// Or "s3://BUCKET/PREFIX".
  std::filesystem::path directory{};
  /// Replace files that differ, and the export of another conversion: in a directory, the files
  /// that its manifest lists and this one does not write are removed.
  bool force = false;
  /// Write SHA256SUMS. A share's export does so in any case, as soon as all shares are complete.
  bool checksums = false;
  /// Share blocks with the source where the file system can; for directories only. The conversion
  /// must have been opened with ConversionOptions::as_in_source, or few blocks lie as in the
  /// source. Without `checksums`, what is shared is not read.
  bool reflink = false;
  /// Workers, memory, stop flag and progress. For an object store, `memory` decides about blocks.
  BlockEngineOptions engine{};
  /// Bytes for the parts that are being sent to an object store.
  std::uint64_t memory = std::uint64_t{256} << 20U;
  /// Only the files of this share; other processes may export the others at the same time.
  std::optional<Share> share{};
};

struct ExportResult {
  std::uint64_t written_files = 0;
  std::uint64_t written_bytes = 0;
  /// Files that were there with the right contents.
  std::uint64_t kept_files = 0;
  std::uint64_t kept_bytes = 0;
  /// Of unfinished files that a process before this one has left, what was right: not written.
  std::uint64_t resumed_bytes = 0;
  /// Of the bytes written, those in blocks that are shared with the source.
  std::uint64_t shared_bytes = 0;
  /// Of a share: one that is not complete yet, so that SHA256SUMS has not been written.
  std::optional<Share> incomplete{};
  /// Of exports of other conversions, which this one has replaced.
  std::uint64_t removed_files = 0;
  /// For the user to see, one line each.
  std::vector<std::string> warnings{};
};

/// @param conversion opened with `conversion_options`.
/// @throws Error kUsage if a file is in the way, or other files in the directory would be read in
///         place of the export's or with them (nothing has been written then), or the memory is
///         not enough for a part; kIo, also if there is not enough space; kChanged. Interrupted. In
///         each case no file has its own name that is not complete. What has been written of
///         unfinished files and objects of several blocks stays, for the same export to go on with,
///         after Interrupted and after kIo of a source or a store; nothing else does.
ExportResult export_conversion(const Conversion& conversion,
                               const ConversionOptions& conversion_options,
                               const ExportOptions& options);

/// Does all jobs. After a failure, what has been written of unfinished files stays only where the
/// same command can go on with it, and where what was lacking is not the space that it takes.
/// @param writes the same jobs.
/// @param stays what to say where something stays.
/// @param at_failure called at the end of a failure; what it throws is dropped.
/// @throws Error of a job; Interrupted.
void run_writes(const std::vector<std::unique_ptr<BlockJob>>& jobs,
                const std::vector<WriteJob*>& writes, const BlockEngineOptions& engine,
                const char* stays, const std::function<void()>& at_failure);

/// Adds to the result what a process before this one had written of a file, and warns if some of it
/// was not right.
void note_resumed(const WriteJob& job, const Target::Words& words, ExportResult& result);

}  // namespace reshardfs
