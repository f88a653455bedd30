// SPDX-License-Identifier: Apache-2.0
#include "transport/s3_store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <span>
#include <string_view>

#include "reshardfs/error.h"

#include "base/process/process_state.h"
#include "base/sha256.h"
#include "transport/s3_listing.h"
#include "transport/settings.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

std::string endpoint_of(const AwsConfiguration& configuration) {
  if (configuration.endpoint.empty()) {
    return "https://s3." + configuration.region + ".amazonaws.com";
  }
  const bool has_scheme = configuration.endpoint.find("://") != std::string::npos;
  return has_scheme ? configuration.endpoint : "https://" + configuration.endpoint;
}

bool signs(const AwsConfiguration& configuration) {
  return configuration.keys || !configuration.token_file.empty();
}

bool has_virtual_hosts(const S3Settings& settings, const AwsConfiguration& configuration) {
  return settings.addressing == S3Addressing::kHost ||
         (settings.addressing == S3Addressing::kByEndpoint && configuration.endpoint.empty());
}

}  // namespace

void throw_s3_refusal(const HttpHead& head, const std::string& body, const std::string& name) {
  const std::string code = xml_text(body, "Code");
  const auto is_one_of = [&](std::span<const std::string_view> codes) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
  };
  // What arrived is not what was sent, or did not arrive in time.
  static constexpr std::array<std::string_view, 4> kPassing{
      "BadDigest", "XAmzContentSHA256Mismatch", "RequestTimeout", "OperationAborted"};
  static constexpr std::array<std::string_view, 4> kFull{"QuotaExceeded", "XMinioStorageFull",
                                                         "XMinioAdminBucketQuotaExceeded",
                                                         "InsufficientStorage"};
  static constexpr std::array<std::string_view, 2> kElsewhere{"AuthorizationHeaderMalformed",
                                                              "PermanentRedirect"};
  if (is_one_of(kPassing)) throw HttpRetry{"the server answers " + code};
  if (code == "NoSuchBucket") {
    throw Error(ErrorKind::kMissing, "there is no such bucket").in_file(name);
  }
  if (is_one_of(kFull) || head.status == 507) {
    throw Error(ErrorKind::kIo, "the store has no room left: the server answers " +
                                    std::to_string(head.status) +
                                    (code.empty() ? "" : " (" + code + ")"))
        .in_file(name)
        .os_error(ENOSPC)
        .hint("make room and run the same command again");
  }
  const std::string region = head.value("x-amz-bucket-region");
  if (head.status == 301 || head.status == 307 || is_one_of(kElsewhere)) {
    throw Error(ErrorKind::kIo, "the bucket is in another region" +
                                    (region.empty() ? "" : ": " + printable(region)))
        .in_file(name)
        .os_error(EIO)
        .hint("name the region with --s3-region, or the store with --s3-endpoint");
  }
}

S3Name S3Name::of(const std::string& url) {
  const UrlParts parts = split_url(url);
  if (parts.authority.empty()) {
    throw Error(ErrorKind::kUsage, "the URL names no bucket")
        .in_file(url)
        .hint("an object's URL is s3://BUCKET/KEY");
  }
  return {parts.authority, parts.path.empty() ? "" : parts.path.substr(1)};
}

S3Store* S3Store::make(const S3Store* /*before*/) {
  const S3Settings& settings = s3_settings();
  AwsConfiguration configuration = aws_configuration(settings, process_environment());
  if (transport_settings().ca_file.empty()) {
    transport_settings().ca_file = configuration.ca_file;
  }
  const bool virtual_host = has_virtual_hosts(settings, configuration);
  return new S3Store(std::move(configuration), virtual_host);
}

namespace {

/// Another thread may be waiting for its keys.
ProcessState<S3Store> the_store("S3 store", &S3Store::make);

}  // namespace

S3Store& S3Store::process() {
  return the_store.get();
}

void S3Store::require_same(const S3Settings& settings) {
  const S3Store* const own = the_store.made();
  if (own == nullptr) return;
  const AwsConfiguration& has = own->credentials_.configuration();
  const AwsConfiguration wants = aws_configuration(settings, process_environment());
  const std::string store = "this process reads from the store " + printable(endpoint_of(has));
  if (endpoint_of(has) != endpoint_of(wants)) {
    throw Error(ErrorKind::kUsage,
                store + " already, and cannot read from " + printable(endpoint_of(wants)) + " too")
        .hint("use a process for each store");
  }
  const bool same = has.region == wants.region && has.profile == wants.profile &&
                    signs(has) == signs(wants) &&
                    own->virtual_host_ == has_virtual_hosts(settings, wants);
  if (same) return;
  throw Error(ErrorKind::kUsage,
              store + " already, with another region, profile, addressing or way of signing")
      .hint("use a process for each");
}

S3Store::S3Store(AwsConfiguration configuration, bool virtual_host)
    : credentials_(std::move(configuration)), virtual_host_(virtual_host) {
  const UrlParts endpoint = split_url(endpoint_of(credentials_.configuration()));
  if ((endpoint.scheme != "http" && endpoint.scheme != "https") || endpoint.authority.empty()) {
    throw Error(ErrorKind::kUsage, "the endpoint '" +
                                       printable(credentials_.configuration().endpoint) +
                                       "' is not the URL of a server")
        .hint("--s3-endpoint takes https://HOST[:PORT]");
  }
  scheme_ = endpoint.scheme;
  host_ = endpoint.authority;
}

std::string S3Store::reader() {
  const std::string store = scheme_ + "://" + host_ + "\n";
  const auto keys = credentials_.get();
  if (!keys) return store;
  // Of a session each has its own, while its role stays.
  return store + (keys->token.empty() ? keys->id : "role " + credentials_.configuration().role);
}

HttpRequest S3Store::request(const std::string& method, const S3Name& name,
                             const std::string& shown, const Query& query,
                             const Headers& signed_headers, std::optional<HttpBody> body) {
  AwsRequest signing;
  signing.method = method;
  signing.host = virtual_host_ ? name.bucket + "." + host_ : host_;
  signing.path = (virtual_host_ ? "/" : "/" + url_encoded(name.bucket, false) + "/") +
                 url_encoded(name.key, /*keep_slashes=*/true);
  signing.query = query;
  signing.headers = signed_headers;
  signing.payload_sha256 = body ? sha256_of(body->bytes) : std::string(kEmptySha256);
  HttpRequest request;
  request.method = method;
  request.url = scheme_ + "://" + signing.host + signing.path + aws_query(query);
  request.name = shown;
  request.body = std::move(body);
  const auto keys = credentials_.get();
  if (!keys) {
    for (const auto& [header, value] : signed_headers) {
      request.headers.push_back(header + ": " + value);
    }
    return request;
  }
  request.sign = [keys = *keys, signing = std::move(signing),
                  region = credentials_.configuration().region] {
    return aws_sign(signing, keys, region, "s3", ::time(nullptr));
  };
  return request;
}

}  // namespace reshardfs
