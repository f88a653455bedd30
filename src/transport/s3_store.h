// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/aws_credentials.h"
#include "transport/http_engine.h"
#include "transport/settings.h"

namespace reshardfs {

/// "s3://BUCKET/KEY"; a directory's key may or may not end with a slash.
struct S3Name {
  std::string bucket;
  std::string key;

  /// @throws Error kUsage if there is no bucket in it.
  static S3Name of(const std::string& url);
};

/// What a store's refusal means, where it is more than its status says. To be given to a
/// TextReceiver. Throws HttpRetry where another attempt may bring it right.
void throw_s3_refusal(const HttpHead& head, const std::string& body, const std::string& name);

/// An S3-compatible store, as the settings and the environment of the process name it.
/// Every member function may be called from any number of threads at once.
class S3Store {
 public:
  using Query = std::vector<std::pair<std::string, std::string>>;
  using Headers = std::vector<std::pair<std::string, std::string>>;

  /// @throws Error of aws_configuration().
  static S3Store& process();
  /// Settings for a source that is about to be opened.
  /// @throws Error kUsage if this process reads from a store already, and the settings, with the
  ///         environment as it is now, name another one, or another way to read from it.
  static void require_same(const S3Settings& settings);
  /// For process() alone.
  static S3Store* make(const S3Store* before);
  explicit S3Store(AwsConfiguration configuration, bool virtual_host);

  /// A request that is signed when it is made. May make a request of its own, for credentials.
  /// @param shown what errors name
  /// @param signed_headers names in lower case; they are sent, too
  /// @param body its SHA-256 is signed, so that the store checks what it gets
  HttpRequest request(const std::string& method, const S3Name& name, const std::string& shown,
                      const Query& query = {}, const Headers& signed_headers = {},
                      std::optional<HttpBody> body = std::nullopt);
  /// The store, and the ID of the signing key if requests are signed: users with equal values may
  /// read the same objects. May make a request.
  std::string reader();
  /// @return whether requests are signed. May make a request.
  bool has_keys() { return credentials_.get().has_value(); }

 private:
  AwsCredentials credentials_;
  std::string scheme_;
  std::string host_;  ///< of the endpoint, with its port
  bool virtual_host_;
};

}  // namespace reshardfs
