// SPDX-License-Identifier: Apache-2.0
/// Requests to a server, while neither who asks nor the engine's thread has memory.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "reshardfs/error.h"

#include "failing_allocations.h"
#include "transport/http_engine.h"
#include "transport/settings.h"
#include "transport/text_receiver.h"

namespace reshardfs::no_memory {
namespace {

/// Gives each connection one answer: first, if there is one, `first_`. Needs no memory.
class Server {
 public:
  Server() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::listen(socket_, 16);
    socklen_t length = sizeof(address);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/file";
    thread_ = std::thread([this] { run(); });
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }

  const std::string& url() const { return url_; }
  /// The next connection gets another answer.
  void answer_once(const char* answer) { first_ = answer; }

 private:
  static constexpr const char* kAnswer =
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\nETag: \"x\"\r\n\r\nhello";

  void run() noexcept {
    for (;;) {
      const int connection = ::accept(socket_, nullptr, nullptr);
      if (connection < 0) return;
      char request[4096];
      std::size_t got = 0;
      while (got < sizeof(request) - 1) {
        const ssize_t count = ::read(connection, request + got, sizeof(request) - 1 - got);
        if (count <= 0) break;
        got += static_cast<std::size_t>(count);
        request[got] = '\0';
        if (std::strstr(request, "\r\n\r\n") != nullptr) break;
      }
      const char* const other = first_.exchange(nullptr);
      const char* const answer = other != nullptr ? other : kAnswer;
      [[maybe_unused]] const ssize_t sent =
          ::send(connection, answer, std::strlen(answer), MSG_NOSIGNAL);
      ::close(connection);
    }
  }

  const int socket_;
  std::string url_;
  std::atomic<const char*> first_ = nullptr;
  std::thread thread_;
};

std::string fetched(const std::string& url) {
  HttpRequest request;
  request.url = url;
  request.name = "the file of the test";
  request.patience = std::chrono::seconds(60);
  const auto receiver = std::make_shared<TextReceiver>(
      request.name, 1000, [](const HttpHead& head, const std::string& body) {
        throw_status(head, body, "the file of the test");
      });
  HttpEngine::process().perform(std::move(request), receiver);
  return receiver->text();
}

void check(const char* first_answer) {
  Server server;
  ASSERT_EQ(fetched(server.url()), "hello");
  with_each_failing(
      Threads::kAll,
      [&] {
        if (first_answer != nullptr) server.answer_once(first_answer);
        fetched(server.url());
      },
      [&] {
        server.answer_once(nullptr);
        EXPECT_EQ(fetched(server.url()), "hello");
      });
}

TEST(Transport, AnswersARequest) {
  check(nullptr);
}

TEST(Transport, MakesARequestAgain) {
  check("HTTP/1.1 503 no\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

TEST(Transport, FollowsARedirection) {
  check("HTTP/1.1 302 there\r\nLocation: /other\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

}  // namespace
}  // namespace reshardfs::no_memory
