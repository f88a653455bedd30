// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace reshardfs::test {

struct WebRequest {
  std::string method;
  std::string target;                          ///< path and query, as they were sent
  std::map<std::string, std::string> headers;  ///< names in lower case
};

struct WebAnswer {
  int status = 200;
  std::vector<std::string> headers{};  ///< "Name: value"
  std::string body{};
  bool tells_length = true;  ///< else the connection's end is the body's
};

/// A server for HTTP in the test's own process, which answers as the test says.
class WebStandIn {
 public:
  using Answer = std::function<WebAnswer(const WebRequest&)>;

  explicit WebStandIn(Answer answer = {})
      : answer_(std::move(answer)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, any, length) != 0 || ::listen(socket_, 64) != 0 ||
        ::getsockname(socket_, any, &length) != 0) {
      throw std::runtime_error("cannot listen");
    }
    origin_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { run(); });
  }
  WebStandIn(const WebStandIn&) = delete;
  WebStandIn& operator=(const WebStandIn&) = delete;
  ~WebStandIn() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }

  const std::string& origin() const { return origin_; }

  /// From the next request on. Forgets the requests before it.
  void answer_with(Answer answer) {
    const std::scoped_lock lock(mutex_);
    answer_ = std::move(answer);
    requests_.clear();
  }
  std::vector<WebRequest> requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }
  void forget_requests() {
    const std::scoped_lock lock(mutex_);
    requests_.clear();
  }

 private:
  void run() {
    for (;;) {
      const int connection = ::accept(socket_, nullptr, nullptr);
      if (connection < 0) return;
      serve(connection);
      ::close(connection);
    }
  }

  void serve(int connection) {
    std::string head;
    while (head.find("\r\n\r\n") == std::string::npos) {
      char bytes[4096];
      const ssize_t count = ::read(connection, bytes, sizeof(bytes));
      if (count <= 0) return;
      head.append(bytes, static_cast<std::size_t>(count));
    }
    const WebRequest request = parsed(head);
    WebAnswer answer;
    {
      const std::scoped_lock lock(mutex_);
      requests_.push_back(request);
      answer = answer_(request);
    }
    std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " Answer\r\n";
    for (const std::string& header : answer.headers) text += header + "\r\n";
    if (answer.tells_length) {
      text += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
    }
    text += "Connection: close\r\n\r\n";
    if (request.method != "HEAD") text += answer.body;
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t count =
          ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<std::size_t>(count);
    }
  }

  static WebRequest parsed(const std::string& head) {
    std::istringstream lines(head);
    WebRequest request;
    std::string line;
    std::getline(lines, line);
    std::istringstream(line) >> request.method >> request.target;
    while (std::getline(lines, line) && line != "\r") {
      const std::size_t colon = line.find(": ");
      if (colon == std::string::npos) continue;
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      request.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
    }
    return request;
  }

  mutable std::mutex mutex_;
  Answer answer_;                     ///< guarded by mutex_
  std::vector<WebRequest> requests_;  ///< guarded by mutex_
  const int socket_;
  std::string origin_;
  std::thread thread_;
};

/// The first byte and the last one that a request asks for, of so many; all without a range.
inline std::pair<std::size_t, std::size_t> range_of(const WebRequest& request, std::size_t size) {
  const auto found = request.headers.find("range");
  if (found == request.headers.end()) return {0, size - 1};
  std::size_t first = 0;
  std::size_t last = 0;
  char other = 0;
  std::istringstream(found->second.substr(std::string("bytes=").size())) >> first >> other >> last;
  return {first, std::min(last, size - 1)};
}

/// The range of a file that a request asks for, as servers answer it.
inline WebAnswer part_of(const std::string& content, const WebRequest& request,
                         std::vector<std::string> headers) {
  const auto [first, last] = range_of(request, content.size());
  headers.push_back("Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(last) +
                    "/" + std::to_string(content.size()));
  return {206, std::move(headers), content.substr(first, last - first + 1)};
}

}  // namespace reshardfs::test
