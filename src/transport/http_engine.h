// SPDX-License-Identifier: Apache-2.0
/// Makes HTTP requests, many at once, on one thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/http_message.h"

namespace reshardfs {

/// Thrown by an HttpReceiver for an answer that another attempt may bring right.
struct HttpRetry {
  std::string why;
  std::optional<std::chrono::milliseconds> after{};  ///< not sooner
};

/// Takes the answer to one request: for each attempt begin(), add() as often as bytes come, end();
/// or refuse() alone. All on the engine's thread, so none may wait. What they throw ends the
/// request, but for HttpRetry.
class HttpReceiver {
 public:
  HttpReceiver() = default;
  HttpReceiver(const HttpReceiver&) = delete;
  HttpReceiver& operator=(const HttpReceiver&) = delete;
  virtual ~HttpReceiver() = default;

  /// The head of an answer with a status of 200 to 299.
  virtual void begin(const HttpHead& head) = 0;
  virtual void add(std::span<const std::byte> bytes) = 0;
  /// The body has come as a whole, as its framing tells.
  virtual void end() = 0;
  /// Any other status, which another attempt will not change, with the beginning of its body.
  /// Throws what it means.
  [[noreturn]] virtual void refuse(const HttpHead& head, const std::string& body) = 0;
};

/// What is sent with a request.
struct HttpBody {
  std::span<const std::byte> bytes{};
  /// Keeps the bytes alive; empty: the thread that waits for the request does.
  std::shared_ptr<const void> owner{};

  static HttpBody of(std::string text);
};

struct HttpRequest {
  std::string method = "GET";
  std::string url{};
  std::vector<std::string> headers{};  ///< "Name: value"
  /// More headers, made anew for each attempt, such as a signature. They go to the host of `url`
  /// alone: a request with them follows no redirection.
  std::function<std::vector<std::string>()> sign{};
  std::optional<HttpBody> body{};
  /// The name in errors; never the URL, whose query may be secret.
  std::string name{};
  /// How long it is made again before it fails; nothing: as the settings say.
  std::optional<std::chrono::milliseconds> patience{};
  /// How long the server may be silent before an attempt is given up; nothing: a part of the
  /// settings' patience.
  std::optional<std::chrono::milliseconds> silence{};
};

enum class HttpPriority : std::uint8_t {
  kNeeded,  ///< somebody waits for it
  kAhead,   ///< it may be needed later
};

/// What the engine has done so far.
struct HttpCounters {
  std::atomic<std::uint64_t> requests = 0;  ///< attempts
  std::atomic<std::uint64_t> retries = 0;   ///< attempts after the first
  std::atomic<std::uint64_t> failures = 0;  ///< requests that were given up
  std::atomic<std::uint64_t> bytes = 0;     ///< of bodies
};

class HttpEngine {
 public:
  /// Called once, on the engine's thread, when the request is over. @param failure null: all is
  /// well
  using Done = std::function<void(std::exception_ptr failure)>;

  /// The process's own; its thread starts here. The child of a fork has another one.
  /// @throws Error kUnsupported without libcurl.
  static HttpEngine& process();
  /// For process() alone.
  static HttpEngine* make(const HttpEngine* before);
  static HttpCounters& counters() noexcept;
  /// Whether process() was called: then threads of libraries may run, so that a process must end
  /// by _exit(2).
  static bool is_running() noexcept;

  HttpEngine(const HttpEngine&) = delete;
  HttpEngine& operator=(const HttpEngine&) = delete;

  /// Makes a request, again and again until it succeeds, is refused, or the patience of the
  /// settings is at its end.
  void submit(HttpRequest request, std::shared_ptr<HttpReceiver> receiver, HttpPriority priority,
              Done done);
  /// The same, and waits. @throws what ends the request.
  void perform(HttpRequest request, std::shared_ptr<HttpReceiver> receiver);

 private:
  HttpEngine();
  ~HttpEngine() = default;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reshardfs
