// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace reshardfs {

/// The certificate that a server has shown, whether it is trusted or not.
struct ServerCertificate {
  std::string issuer{};                    ///< "CN = testCA"
  std::optional<std::int64_t> not_before;  ///< seconds since the epoch
  std::optional<std::int64_t> not_after;
};

/// How a server answers one request without credentials.
struct ServerProbe {
  long status = 0;            ///< of HTTP; 0: no answer
  std::string failure{};      ///< why there was no answer
  bool is_untrusted = false;  ///< because its certificate is not trusted, which `failure` explains
  std::optional<ServerCertificate> certificate{};  ///< of https
  /// What the server's clock shows (its Date header) less what ours did meanwhile, in seconds: a
  /// difference of the time that the answer took is none. Nothing: the server does not say.
  std::optional<std::int64_t> clock_difference{};
};

/// Makes one HEAD request, without following redirections and without any credentials. If the
/// certificate is not trusted, a second one learns which it is; its answer is not used.
/// @param url of http or https.
/// @throws Error kUnsupported without libcurl.
ServerProbe probe_server(const std::string& url, std::chrono::milliseconds patience);

}  // namespace reshardfs
