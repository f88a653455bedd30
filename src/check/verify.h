// SPDX-License-Identifier: Apache-2.0
/// Whether a checkpoint set is whole and undamaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/source_request.h"

#include "base/process/progress.h"
#include "base/text/glob.h"
#include "checkpoint/completeness.h"

namespace reshardfs {

struct VerifyOptions {
  /// CRCs are always checked. Maps: those whose aliases and repeated elements are compared, too;
  /// names in the other options are those of the source. Replicas that differ are no damage with
  /// others than kSame.
  SourceRequest source{};
  /// The parameters to check.
  NameFilter names{};
  /// SHA-256 sums of the files; empty: none.
  std::filesystem::path manifest{};
  /// Threads; 0: a number that suits the machine.
  std::size_t jobs = 0;
};

enum class ProblemKind : std::uint8_t {
  kIo,           ///< the operating system cannot read a file
  kFile,         ///< a file is not a whole, consistent checkpoint
  kUnsupported,  ///< a file or a parameter is sound, as far as is known, but cannot be read
  kCrc,          ///< a file does not match the CRC that it states
  kManifest,     ///< a file does not match the list of sums
  kStep,         ///< a rank lacks the step, or is still being written
  kMissingRank,  ///< a rank without a file, parts of which no other rank holds
  kMissingPart,  ///< a parameter of which no rank holds a part
  kShape,        ///< a slice has another shape than layout and other ranks say
  kType,         ///< the element type differs between ranks
  kReplica,      ///< ranks that should hold the same bytes do not
  kExtent,       ///< a parameter whose size is not stated
  kMap,          ///< a map does not fit, or what it takes for equal is not
};

/// "io", "file", "unsupported", "crc", ...
const char* name_of(ProblemKind kind) noexcept;

struct Problem {
  ProblemKind kind = ProblemKind::kFile;
  std::optional<Rank> rank{};
  std::string file{};  ///< may be empty, as what follows
  std::string parameter{};
  std::optional<std::uint64_t> offset{};  ///< in the file, of the first wrong byte
  std::uint64_t differing_bytes = 0;      ///< of replicas
  std::string message{};                  ///< without the above
  std::string hint{};                     ///< for kIo: what to do, such as which limit to raise
};

struct VerifyReport {
  std::string step;
  std::vector<Problem> problems;        ///< of files first, then of parameters in file order
  std::vector<std::string> warnings;    ///< what is no damage, but may surprise
  std::vector<std::string> per_rank;    ///< parameters without a layout that differ between ranks
  std::vector<std::string> own_values;  ///< whose replicas differ, and may: see Replicas
  Completeness completeness;            ///< what states that this is all
  std::uint64_t files = 0;
  std::uint64_t parameters = 0;
  std::uint64_t quantized = 0;        ///< weights, as config.json states them
  std::uint64_t bytes = 0;            ///< of all files
  std::uint64_t crc_good = 0;         ///< files
  std::uint64_t crc_none = 0;         ///< files that state no CRC
  std::uint64_t manifest_good = 0;    ///< files that match the list of sums
  std::uint64_t differing_bytes = 0;  ///< the sum over all problems
  std::uint64_t damaged_parameters = 0;

  bool good() const noexcept { return problems.empty(); }
  /// The files are good, but it is unknown whether they are all.
  bool only_open() const noexcept;
  /// Something could not be read: what was not seen may be damaged or not.
  bool unread() const noexcept;
  /// Something was seen that is wrong.
  bool damaged() const noexcept;
};

/// Reads everything, and goes on after what is wrong. Each thread holds two blocks of 1 MiB.
/// @param progress gets bytes read.
/// @throws Error if the set cannot be examined: it is not there, or the strategy is not for it.
VerifyReport verify(const VerifyOptions& options, Progress& progress);

}  // namespace reshardfs
