// SPDX-License-Identifier: Apache-2.0
/// How sources are reached that are not files of this machine.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace reshardfs {

struct StorageArguments {
  std::string s3_endpoint;
  std::string s3_region;
  std::string s3_profile;
  std::string s3_addressing;
  bool s3_anonymous = false;
  std::string ca_file;
  unsigned remote_timeout = 60;  ///< seconds
  std::uint64_t prefetch_memory = std::uint64_t{256} << 20U;

  std::string cache_dir;
  std::uint64_t cache_size = std::uint64_t{32} << 30U;

  void add_to(CLI::App& command);
  /// Sets up the process. To be called before the first source is named.
  /// @throws Error kMissing if the file of certificates is not there.
  void apply() const;
};

/// A source as it was given: a URL or a list of URLs as storage/location.h has it; a path stays.
std::string located(const std::string& source);

}  // namespace reshardfs
