// SPDX-License-Identifier: Apache-2.0
#include "transport/aws_signature.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <span>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/sha256.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

constexpr const char* kAlgorithm = "AWS4-HMAC-SHA256";

std::string sha256_of(const std::string& text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.finish();
}

std::string hmac(const std::string& key, const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned length = 0;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), sum.data(), &length);
  return {reinterpret_cast<const char*>(sum.data()), length};
}

std::string hexadecimal(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
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
  const std::string to_sign =
      std::string(kAlgorithm) + "\n" + now + "\n" + scope + "\n" + sha256_of(canonical);
  const std::string key =
      hmac(hmac(hmac(hmac("AWS4" + keys.secret, day), region), service), "aws4_request");
  out.push_back("Authorization: " + std::string(kAlgorithm) + " Credential=" + keys.id + "/" +
                scope + ", SignedHeaders=" + names +
                ", Signature=" + hexadecimal(hmac(key, to_sign)));
  return out;
}

}  // namespace reshardfs
