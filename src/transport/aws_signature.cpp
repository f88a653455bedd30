// SPDX-License-Identifier: Apache-2.0
#include "transport/aws_signature.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <span>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/sha256.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

constexpr const char* kAlgorithm = "AWS4-HMAC-SHA256";

using HmacSum = std::array<unsigned char, 32>;

HmacSum hmac(std::span<const unsigned char> key, const std::string& text) {
  HmacSum sum{};
  unsigned length = 0;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), sum.data(), &length);
  return sum;
}

std::string time_text(std::int64_t time) {
  const std::time_t seconds = time;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts)};
}

}  // namespace

std::string aws_query(std::vector<std::pair<std::string, std::string>> query) {
  for (auto& [name, value] : query) {
    name = url_encoded(name, /*keep_slashes=*/false);
    value = url_encoded(value, /*keep_slashes=*/false);
  }
  std::sort(query.begin(), query.end());
  std::string out;
  for (const auto& [name, value] : query) {
    out.append(out.empty() ? "?" : "&").append(name).append("=").append(value);
  }
  return out;
}

std::vector<std::string> aws_sign(const AwsRequest& request, const AwsKeys& keys,
                                  const std::string& region, const std::string& service,
                                  std::int64_t time) {
  const std::string now = time_text(time);
  const std::string day = now.substr(0, 8);

  std::vector<std::pair<std::string, std::string>> headers = request.headers;
  headers.emplace_back("x-amz-content-sha256", request.payload_sha256);
  headers.emplace_back("x-amz-date", now);
  if (!keys.token.empty()) headers.emplace_back("x-amz-security-token", keys.token);
  std::vector<std::string> out;
  for (const auto& [name, value] : headers) out.push_back(name + ": " + value);
  headers.emplace_back("host", request.host);
  std::sort(headers.begin(), headers.end());

  std::string names;
  std::string lines;
  for (const auto& [name, value] : headers) {
    names.append(names.empty() ? "" : ";").append(name);
    lines.append(name).append(":").append(value).append("\n");
  }
  const std::string query = aws_query(request.query);
  const std::string canonical = request.method + "\n" +
                                (request.path.empty() ? "/" : request.path) + "\n" +
                                (query.empty() ? "" : query.substr(1)) + "\n" + lines + "\n" +
                                names + "\n" + request.payload_sha256;
  const std::string scope = day + "/" + region + "/" + service + "/aws4_request";
  const std::string to_sign = std::string(kAlgorithm) + "\n" + now + "\n" + scope + "\n" +
                              sha256_of(std::as_bytes(std::span(canonical)));
  const std::string secret = "AWS4" + keys.secret;
  HmacSum key = hmac({reinterpret_cast<const unsigned char*>(secret.data()), secret.size()}, day);
  for (const std::string& part : {region, service, std::string("aws4_request")}) {
    key = hmac(key, part);
  }
  out.push_back(
      fmt::format("Authorization: {} Credential={}/{}, SignedHeaders={}, Signature={:02x}",
                  kAlgorithm, keys.id, scope, names, fmt::join(hmac(key, to_sign), "")));
  return out;
}

}  // namespace reshardfs
