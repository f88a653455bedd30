// SPDX-License-Identifier: Apache-2.0
/// AWS Signature Version 4, as S3 and the stores that are compatible with it check it
/// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reshardfs {

struct AwsKeys {
  std::string id{};
  std::string secret{};
  std::string token{};  ///< of a session; empty if there is none
};

/// What is signed.
struct AwsRequest {
  std::string method{};
  std::string host{};  ///< as the Host header has it: with a port that is not the scheme's own
  std::string path{};  ///< percent-encoded as it is sent, slashes kept
  std::vector<std::pair<std::string, std::string>> query{};  ///< not encoded
  std::string payload_sha256{};                              ///< lower-case hexadecimal
  /// More headers that are signed and sent, such as {"if-match", "..."}; names in lower case.
  std::vector<std::pair<std::string, std::string>> headers{};
};

/// Of the empty body.
inline constexpr std::string_view kEmptySha256 =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// "?a=b&c=": sorted, and encoded as it must be sent for the signature to hold; empty for none.
std::string aws_query(std::vector<std::pair<std::string, std::string>> query);

/// The headers that a request needs beside its own, and those of request.headers.
/// @param service "s3"
/// @param time seconds since the epoch
std::vector<std::string> aws_sign(const AwsRequest& request, const AwsKeys& keys,
                                  const std::string& region, const std::string& service,
                                  std::int64_t time);

}  // namespace reshardfs
