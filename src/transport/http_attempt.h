// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <string>

#include "transport/curl_library.h"
#include "transport/http_engine.h"

namespace reshardfs {

struct FreeEasy {
  void operator()(CURL* easy) const noexcept { curl_library().easy_cleanup(easy); }
};
using EasyHandle = std::unique_ptr<CURL, FreeEasy>;

/// One attempt at a request: what is asked of libcurl, and what comes back.
class HttpAttempt {
 public:
  /// @param url of this attempt: not the request's after a redirection.
  /// @param stall after how long without a byte it is given up.
  HttpAttempt(const HttpRequest& request, std::string url, HttpReceiver& receiver,
              std::chrono::milliseconds stall, bool fresh_connection);
  HttpAttempt(const HttpAttempt&) = delete;
  HttpAttempt& operator=(const HttpAttempt&) = delete;
  ~HttpAttempt();

  /// Sets the handle up; it refers to this object until the attempt is over.
  void set_up(CURL* easy);

  const std::string& url() const noexcept { return url_; }
  const HttpHead& head() const noexcept { return head_; }

  /// What became of it.
  /// @throws HttpRetry if another attempt is worth it, Redirection, or what ends the request.
  void finish(CURLcode result);

  struct Redirection {
    std::string url;
  };
  /// The server cannot be reached: not worth many attempts if it never was.
  struct Unreachable {
    std::string why;
  };

 private:
  static std::size_t take_header(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t take_body(char* data, std::size_t size, std::size_t count, void* self);
  bool header(std::string_view line);
  bool body(std::span<const std::byte> bytes);
  bool is_good() const noexcept { return head_.status >= 200 && head_.status < 300; }
  [[noreturn]] void fail(CURLcode result) const;
  [[noreturn]] void redirect() const;

  const HttpRequest& request_;
  std::string url_;
  HttpReceiver& receiver_;
  std::chrono::milliseconds stall_;
  bool fresh_;
  curl_slist* headers_ = nullptr;
  HttpHead head_;
  bool begun_ = false;
  std::string error_body_;
  std::exception_ptr failure_;
  std::array<char, CURL_ERROR_SIZE> error_{};
};

}  // namespace reshardfs
