// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "export/folder.h"

namespace reshardfs {

/// What an export has written, so that it can go on after it was killed: a line of JSON that says
/// of what conversion, and one for each file. Lines are appended, so that a file costs the same
/// however many there are, and a torn last line loses one file's entry alone.
class Manifest {
 public:
  struct Entry {
    std::uint64_t size = 0;
    std::string sha256{};
  };

  static constexpr const char* kName = ".reshardfs-export.jsonl";

  /// Reads the manifest of a directory, or begins one, and locks it.
  /// @param identity see conversion_identity(); the same exactly if files that exist may be kept.
  /// @param force begin a new one if the directory has one of another conversion.
  /// @throws Error kUsage for another conversion: says what is different; if another export has it
  ///         locked, or what stands there is no file of its own (a link, one with a second name,
  ///         a device): nothing is written to it then; kIo.
  Manifest(const Folder& folder, const nlohmann::ordered_json& identity, bool force);
  Manifest(const Manifest&) = delete;
  Manifest& operator=(const Manifest&) = delete;

  std::optional<Entry> find(const std::string& path) const;
  /// All entries, by path. Not while other threads add.
  const std::map<std::string, Entry>& entries() const noexcept { return entries_; }
  /// From any thread. @throws Error kIo.
  void add(const std::string& path, const Entry& entry);
  /// Waits until it is on disk. @throws Error kIo.
  void sync();

 private:
  std::string read_all() const;
  /// @return bytes up to the end of the last good line; 0: it has to begin anew.
  std::uint64_t parse(const std::string& text, const nlohmann::ordered_json& identity, bool force);
  void append(const std::string& line);

  std::filesystem::path path_;
  Descriptor file_;
  mutable std::mutex mutex_;  // guards entries_, and keeps lines apart
  std::map<std::string, Entry> entries_;
};

}  // namespace reshardfs
