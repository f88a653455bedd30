// SPDX-License-Identifier: Apache-2.0
/// Finds the credentials and the region for signing requests to S3, like AWS's own tools.
#pragma once

#include <chrono>
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
Environment process_environment();

/// The parts of the configuration that do not expire.
struct AwsConfiguration {
  std::string endpoint{};  ///< without a slash at its end
  std::string region{};
  std::string profile{};
  std::optional<AwsKeys> keys{};  ///< of the environment or a file
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

/// The keys of the process, made anew before they expire.
/// Every member function may be called from any number of threads at once.
class AwsCredentials {
 public:
  explicit AwsCredentials(AwsConfiguration configuration);

  /// @return nothing if requests are not to be signed. May make a request.
  /// @throws Error kIo, kBadInput if a token cannot be exchanged.
  std::optional<AwsKeys> get();
  const AwsConfiguration& configuration() const noexcept { return configuration_; }

 private:
  void exchange_token();

  AwsConfiguration configuration_;
  std::mutex mutex_;  // guards both below
  AwsKeys exchanged_;
  std::chrono::system_clock::time_point expires_{};
};

}  // namespace reshardfs
