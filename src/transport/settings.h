// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace reshardfs {

/// How servers are reached: for the whole process, set before the first URL is used.
struct TransportSettings {
  /// Certificates of the authorities that are trusted, in PEM; empty: libcurl's own.
  std::filesystem::path ca_file{};
  /// How long a request is made again before it fails.
  std::chrono::milliseconds patience{60'000};
};

/// Where a request to S3 has the bucket's name.
enum class S3Addressing : std::uint8_t {
  kByEndpoint,  ///< in the path if there is an endpoint, in the host's name at AWS's own
  kPath,
  kHost,
};

/// S3-compatible stores. What is empty is taken from the environment and AWS's files.
struct S3Settings {
  std::string endpoint{};  ///< "https://host[:port]"; empty: AWS's own
  std::string region{};
  std::string profile{};
  S3Addressing addressing = S3Addressing::kByEndpoint;
  bool anonymous = false;  ///< requests are not signed
};

/// To be changed under a ForkLock: a child of a fork has them, too.
TransportSettings& transport_settings() noexcept;
S3Settings& s3_settings() noexcept;

}  // namespace reshardfs
