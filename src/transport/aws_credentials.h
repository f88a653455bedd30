// SPDX-License-Identifier: Apache-2.0
/// Finds the credentials and the region for signing requests to S3, like AWS's own tools.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "transport/aws_signature.h"
#include "transport/settings.h"

namespace reshardfs {

/// Sections and their keys of a file such as ~/.aws/credentials: "[name]", "key = value", comments
/// with # or ;. Section "profile NAME", as ~/.aws/config has it, is NAME.
using IniSections = std::map<std::string, std::map<std::string, std::string>>;
IniSections parse_ini(const std::string& text);

/// What there is about the user: a function, so that tests need no environment.
using Environment = std::function<std::optional<std::string>(const char* name)>;
/// The variables of the process that are not empty. $HOME, where it is not set, is the user's
/// directory in the password database, as for AWS's own tools.
Environment process_environment();

/// The file of credentials and that of the configuration, as absolute paths; a path is empty where
/// none is looked for.
using AwsFiles = std::array<std::filesystem::path, 2>;

/// The configuration of a process, as it began.
struct AwsConfiguration {
  std::string endpoint{};  ///< without a slash at its end
  std::string region{};
  std::string profile{};
  std::optional<AwsKeys> keys{};  ///< of the environment or a file
  AwsFiles key_files{};           ///< where the profile's keys are, if `keys` are those
  std::filesystem::path ca_file{};
  /// To be exchanged for keys (AssumeRoleWithWebIdentity), if there are none.
  std::filesystem::path token_file{};
  std::string role{};
  std::string session{};
  std::string sts_endpoint{};
};

/// Settings win over the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
/// AWS_PROFILE, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
/// AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE, AWS_CA_BUNDLE, AWS_ROLE_ARN,
/// AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_SESSION_NAME, AWS_ENDPOINT_URL_STS), which wins over the
/// files.
/// @throws Error kMissing if the profile that was asked for is in neither file, kUsage for one half
///         of a key alone, kIo.
AwsConfiguration aws_configuration(const S3Settings& settings, const Environment& environment);

/// The keys of the process: made anew before they expire, and read again when a file that has them
/// was changed or replaced. As long as what the files have now is no key, the last one stays. Every
/// member function may be called from any number of threads at once.
class AwsCredentials {
 public:
  explicit AwsCredentials(AwsConfiguration configuration);

  /// @return nothing if requests are not to be signed. May make a request.
  /// @throws Error kIo, kBadInput if a token cannot be exchanged.
  std::optional<AwsKeys> get();
  const AwsConfiguration& configuration() const noexcept { return configuration_; }

 private:
  /// What shows that a file is another one, or was written; all zero if it is not there.
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    std::int64_t size = 0;
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::array<Stamp, 2>;

  static Stamps stamps_of(const AwsFiles& files) noexcept;
  void read_again();
  void exchange_token();

  const AwsConfiguration configuration_;
  std::mutex mutex_;  // guards all below
  std::optional<AwsKeys> keys_;
  Stamps stamps_;
  AwsKeys exchanged_;
  std::chrono::system_clock::time_point expires_{};
};

}  // namespace reshardfs
