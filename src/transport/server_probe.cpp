// SPDX-License-Identifier: Apache-2.0
#include "transport/server_probe.h"

#include <array>
#include <ctime>
#include <new>
#include <string_view>

#include "base/version.h"
#include "transport/http_attempt.h"
#include "transport/http_message.h"
#include "transport/settings.h"

namespace reshardfs {
namespace {

std::size_t take_header(char* data, std::size_t size, std::size_t count, void* head) {
  const std::string_view line(data, size * count);
  // Of several answers the last one counts.
  if (line.starts_with("HTTP/")) {
    *static_cast<HttpHead*>(head) = {};
  } else {
    static_cast<HttpHead*>(head)->add_line(line);
  }
  return line.size();
}

std::size_t drop_body(char* /*data*/, std::size_t size, std::size_t count, void* /*self*/) {
  return size * count;
}

std::optional<std::int64_t> seconds_of(const std::string& date) {
  const std::time_t seconds = curl_library().getdate(date.c_str(), nullptr);
  if (seconds == -1) return std::nullopt;
  return seconds;
}

/// That of the server itself, which is the first of the chain.
std::optional<ServerCertificate> certificate_of(CURL* easy) {
  curl_certinfo* chain = nullptr;
  curl_library().easy_getinfo(easy, CURLINFO_CERTINFO, &chain);
  if (chain == nullptr || chain->num_of_certs < 1) return std::nullopt;
  ServerCertificate found;
  for (const curl_slist* line = chain->certinfo[0]; line != nullptr; line = line->next) {
    const std::string_view text = line->data;
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, colon);
    const std::string value(text.substr(colon + 1));
    if (name == "Issuer") found.issuer = value;
    if (name == "Start date") found.not_before = seconds_of(value);
    if (name == "Expire date") found.not_after = seconds_of(value);
  }
  return found;
}

struct Answer {
  CURLcode result = CURLE_OK;
  std::string why{};
  long status = 0;
  HttpHead head{};
  std::optional<ServerCertificate> certificate{};
};

enum class Trust : std::uint8_t { kNeeded, kNotNeeded };

Answer ask(const std::string& url, std::chrono::milliseconds patience, Trust trust) {
  const CurlLibrary& curl = curl_library();
  const EasyHandle easy(curl.easy_init());
  if (!easy) throw std::bad_alloc();
  Answer answer;
  std::array<char, CURL_ERROR_SIZE> error{};
  const auto set = [&](CURLoption option, auto value) {
    curl.easy_setopt(easy.get(), option, value);
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOBODY, 1L);
  set(CURLOPT_CERTINFO, 1L);
  set(CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
  set(CURLOPT_USERAGENT, (std::string("reshardfs/") + kVersion).c_str());
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(patience.count()));
  set(CURLOPT_ERRORBUFFER, error.data());
  set(CURLOPT_HEADERFUNCTION, &take_header);
  set(CURLOPT_HEADERDATA, &answer.head);
  set(CURLOPT_WRITEFUNCTION, &drop_body);
  const std::filesystem::path& ca_file = transport_settings().ca_file;
  if (!ca_file.empty()) set(CURLOPT_CAINFO, ca_file.c_str());
  if (trust == Trust::kNotNeeded) {
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
  answer.result = curl.easy_perform(easy.get());
  if (answer.result != CURLE_OK) {
    answer.why = error.front() != '\0' ? error.data() : curl.easy_strerror(answer.result);
  }
  curl.easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  answer.certificate = certificate_of(easy.get());
  return answer;
}

}  // namespace

ServerProbe probe_server(const std::string& url, std::chrono::milliseconds patience) {
  const std::int64_t before = ::time(nullptr);
  Answer answer = ask(url, patience, Trust::kNeeded);
  const std::int64_t after = ::time(nullptr);
  ServerProbe probe;
  probe.certificate = std::move(answer.certificate);
  if (answer.result != CURLE_OK) {
    probe.failure = std::move(answer.why);
    probe.is_untrusted = answer.result == CURLE_PEER_FAILED_VERIFICATION;
    if (probe.is_untrusted) {
      probe.certificate = ask(url, patience, Trust::kNotNeeded).certificate;
    }
    return probe;
  }
  probe.status = answer.status;
  if (const auto date = seconds_of(answer.head.value("date"))) {
    probe.clock_difference = *date < before ? *date - before : *date > after ? *date - after : 0;
  }
  return probe;
}

}  // namespace reshardfs
