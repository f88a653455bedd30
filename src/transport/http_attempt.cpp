// SPDX-License-Identifier: Apache-2.0
#include "transport/http_attempt.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <string_view>

#include "reshardfs/error.h"

#include "base/version.h"
#include "transport/retry_schedule.h"
#include "transport/settings.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMaxErrorBody = 8192;
constexpr std::size_t kMaxHeaders = 200;
constexpr std::chrono::milliseconds kLongestConnect{10'000};
constexpr long kBufferBytes = 512 << 10;

Error unreadable(const std::string& name, const std::string& what) {
  return Error(ErrorKind::kIo, what).in_file(name).os_error(EIO);
}

}  // namespace

HttpAttempt::HttpAttempt(const HttpRequest& request, std::string url, HttpReceiver& receiver,
                         std::chrono::milliseconds stall, bool fresh_connection)
    : request_(request),
      url_(std::move(url)),
      receiver_(receiver),
      stall_(stall),
      fresh_(fresh_connection) {}

HttpAttempt::~HttpAttempt() {
  if (headers_ != nullptr) curl_library().slist_free_all(headers_);
}

void HttpAttempt::set_up(CURL* easy) {
  const CurlLibrary& curl = curl_library();
  const auto add = [&](const std::string& header) {
    curl_slist* const grown = curl.slist_append(headers_, header.c_str());
    if (grown == nullptr) throw std::bad_alloc();
    headers_ = grown;
  };
  for (const std::string& header : request_.headers) add(header);
  if (request_.sign) {
    for (const std::string& header : request_.sign()) add(header);
  }
  // What libcurl would send on its own, and a signature does not know.
  add("Accept:");
  add("Accept-Encoding: identity");
  if (request_.body) {
    add("Expect:");
    add("Content-Type: application/octet-stream");
  }

  curl.easy_reset(easy);
  curl.easy_setopt(easy, CURLOPT_URL, url_.c_str());
  curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  // One request a connection: as many streams of one connection share its window and its losses.
  curl.easy_setopt(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl.easy_setopt(easy, CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
  curl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl.easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
  curl.easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  curl.easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl.easy_setopt(easy, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl.easy_setopt(easy, CURLOPT_USERAGENT, (std::string("reshardfs/") + kVersion).c_str());
  if (!request_.sign) curl.easy_setopt(easy, CURLOPT_NETRC, long{CURL_NETRC_OPTIONAL});
  curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(std::min(stall_, kLongestConnect).count()));
  curl.easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl.easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                   static_cast<long>(std::max<std::int64_t>(stall_.count() / 1000, 1)));
  if (fresh_) curl.easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  const std::filesystem::path& ca_file = transport_settings().ca_file;
  if (!ca_file.empty()) curl.easy_setopt(easy, CURLOPT_CAINFO, ca_file.c_str());
  curl.easy_setopt(easy, CURLOPT_HTTPHEADER, headers_);
  curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, error_.data());
  curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, &HttpAttempt::take_header);
  curl.easy_setopt(easy, CURLOPT_HEADERDATA, this);
  curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, &HttpAttempt::take_body);
  curl.easy_setopt(easy, CURLOPT_WRITEDATA, this);
  if (request_.body) {
    // Read where it is, not copied. An empty one needs an address, too.
    const std::span<const std::byte> bytes = request_.body->bytes;
    const char* const data = bytes.empty() ? "" : reinterpret_cast<const char*>(bytes.data());
    curl.easy_setopt(easy, CURLOPT_POSTFIELDS, data);
    curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(bytes.size()));
    curl.easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kBufferBytes);
  }
  if (request_.method == "HEAD") {
    curl.easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else if (request_.method != "GET") {
    curl.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
}

std::size_t HttpAttempt::take_header(char* data, std::size_t size, std::size_t count, void* self) {
  const bool good = static_cast<HttpAttempt*>(self)->header({data, size * count});
  return good ? size * count : 0;
}

std::size_t HttpAttempt::take_body(char* data, std::size_t size, std::size_t count, void* self) {
  const std::span<const char> bytes(data, size * count);
  return static_cast<HttpAttempt*>(self)->body(std::as_bytes(bytes)) ? bytes.size() : 0;
}

/// @return false to end the attempt.
bool HttpAttempt::header(std::string_view line) {
  try {
    if (line.starts_with("HTTP/")) {
      // The next answer: the one before was of the kind that only tells to go on.
      head_ = {};
      const std::size_t space = line.find(' ');
      const auto status =
          space == std::string_view::npos ? std::nullopt : parse_decimal(line.substr(space + 1, 3));
      head_.status = status ? static_cast<long>(*status) : 0;
      return true;
    }
    if (line == "\r\n" || line == "\n") {
      if (!is_good() || begun_) return true;
      begun_ = true;
      receiver_.begin(head_);
      return true;
    }
    if (begun_) return true;  // a trailer
    if (head_.headers.size() >= kMaxHeaders) {
      throw unreadable(request_.name, "the server's answer has too many headers");
    }
    head_.add_line(line);
    return true;
  } catch (...) {
    failure_ = std::current_exception();
    return false;
  }
}

bool HttpAttempt::body(std::span<const std::byte> bytes) {
  try {
    HttpEngine::counters().bytes.fetch_add(bytes.size(), std::memory_order_relaxed);
    if (is_good()) {
      receiver_.add(bytes);
      return true;
    }
    const std::size_t room = kMaxErrorBody - error_body_.size();
    const std::span<const std::byte> kept = bytes.first(std::min(room, bytes.size()));
    error_body_.append(reinterpret_cast<const char*>(kept.data()), kept.size());
    // The rest would only be passed over.
    return kept.size() == bytes.size();
  } catch (...) {
    failure_ = std::current_exception();
    return false;
  }
}

void HttpAttempt::redirect() const {
  const std::string* location = head_.find("location");
  if (location == nullptr) {
    throw unreadable(request_.name, "the server redirects (" + std::to_string(head_.status) +
                                        ") without stating where");
  }
  const CurlLibrary& curl = curl_library();
  const std::unique_ptr<CURLU, decltype(curl.url_cleanup)> url(curl.url(), curl.url_cleanup);
  char* text = nullptr;
  const bool good = url && curl.url_set(url.get(), CURLUPART_URL, url_.c_str(), 0) == CURLUE_OK &&
                    curl.url_set(url.get(), CURLUPART_URL, location->c_str(), 0) == CURLUE_OK &&
                    curl.url_get(url.get(), CURLUPART_URL, &text, 0) == CURLUE_OK;
  if (!good) throw unreadable(request_.name, "the server redirects to something that is not a URL");
  const std::unique_ptr<char, decltype(curl.free)> owner(text, curl.free);
  std::string target = text;
  const std::string scheme = split_url(target).scheme;
  if (scheme != "https" && scheme != "http") {
    throw unreadable(request_.name, "the server redirects to a URL that is not http or https");
  }
  if (scheme == "http" && split_url(url_).scheme == "https") {
    throw unreadable(request_.name, "the server redirects from https to http, which is refused");
  }
  throw Redirection{std::move(target)};
}

void HttpAttempt::fail(CURLcode result) const {
  std::string why = error_.front() != '\0' ? error_.data() : curl_library().easy_strerror(result);
  switch (result) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      throw Unreachable{std::move(why)};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
      throw unreadable(request_.name, "the server's certificate is not trusted: " + why)
          .hint("name the authority's certificates with --ca-file");
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      throw Error(ErrorKind::kUsage, "is not a valid URL: " + why).in_file(request_.name);
    case CURLE_OPERATION_TIMEDOUT:
      throw HttpRetry{"no answer for " + std::to_string(stall_.count() / 1000) + " s"};
    case CURLE_OUT_OF_MEMORY:
      throw std::bad_alloc();
    default:
      throw HttpRetry{std::move(why)};
  }
}

void HttpAttempt::finish(CURLcode result) {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  const bool cut_here = !is_good() && head_.status != 0 && error_body_.size() == kMaxErrorBody;
  if (result != CURLE_OK && !cut_here) fail(result);
  if (is_good()) {
    receiver_.end();
    return;
  }
  if (is_worth_a_retry(head_.status)) {
    const std::string asked = head_.value("retry-after");
    const std::int64_t now = ::time(nullptr);
    throw HttpRetry{
        "the server answers " + std::to_string(head_.status),
        asked.empty()
            ? std::nullopt
            : parse_retry_after(asked, curl_library().getdate(asked.c_str(), nullptr), now)};
  }
  const bool redirects = head_.status >= 300 && head_.status < 400 && head_.status != 304;
  if (redirects && !request_.sign && !request_.body) redirect();
  receiver_.refuse(head_, error_body_);
}

}  // namespace reshardfs
