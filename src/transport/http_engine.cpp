// SPDX-License-Identifier: Apache-2.0
#include "transport/http_engine.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <list>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/process_state.h"
#include "base/process/signals.h"
#include "transport/http_attempt.h"
#include "transport/retry_schedule.h"
#include "transport/settings.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

/// " (3 attempts in 12 s)"; nothing of a single one, as the reason alone says what happened.
std::string attempts_words(unsigned attempts, std::int64_t seconds) {
  if (attempts < 2) return {};
  const std::string time = seconds < 1 ? "less than 1 s" : std::to_string(seconds) + " s";
  return " (" + std::to_string(attempts) + " attempts in " + time + ")";
}

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Between a server's need to be spared and a link's need to be full: with more time to the first
// byte, more requests are under way. These are the bounds.
constexpr unsigned kLeastAtOnce = 16;
constexpr unsigned kMostAtOnce = 64;
constexpr std::int64_t kLatencyForMost = 60'000;  // microseconds

/// One request in so many is one that was asked for ahead, even if others wait.
constexpr unsigned kTurnOfAhead = 4;
constexpr int kMaxRedirections = 5;
/// For a server that has never answered: few, so that a mistyped host is reported soon.
constexpr unsigned kAttemptsAtStranger = 3;
constexpr milliseconds kLongestStall{10'000};
constexpr milliseconds kIdle{60'000};

std::uint64_t new_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

/// A request, from its submission to its end.
struct Job {
  Job(HttpRequest its_request, std::shared_ptr<HttpReceiver> its_receiver,
      HttpPriority its_priority, HttpEngine::Done when_done)
      : request(std::move(its_request)),
        receiver(std::move(its_receiver)),
        priority(its_priority),
        done(std::move(when_done)),
        url(request.url) {}

  const HttpRequest request;
  const std::shared_ptr<HttpReceiver> receiver;
  const HttpPriority priority;
  const HttpEngine::Done done;
  std::string url;  ///< of the next attempt
  const Clock::time_point begun = Clock::now();
  Clock::time_point not_before{};
  RetrySchedule schedule{new_seed()};
  unsigned attempts = 0;
  int redirections = 0;
  bool fresh = false;
  std::optional<HttpAttempt> attempt{};
  EasyHandle easy{};
  bool has_ended = false;  ///< `done` was called
};
/// A job moves from list to list, which needs no memory: its caller must learn of the end even
/// when memory has run out.
using Jobs = std::list<Job>;

}  // namespace

struct HttpEngine::State {
  const CurlLibrary& curl = curl_library();
  CURLM* multi = nullptr;

  std::mutex mutex;
  Jobs inbox;  ///< guarded by mutex

  // Of the engine's thread alone.
  Jobs needed;
  Jobs ahead;
  unsigned turn = 0;
  Jobs delayed;
  Jobs running;
  std::vector<EasyHandle> spare;  ///< kMostAtOnce at most
  std::set<std::string> known;    ///< origins that have answered

  unsigned limit = kLeastAtOnce;  ///< of requests that are made at once
  std::int64_t latency_us = 0;    ///< time to the first byte of an answer, lately

  void run() noexcept;
  void take_inbox() noexcept;
  // Each of these takes over what is in `from`, which has one job.
  void queue(Jobs& from) noexcept;
  void start(Jobs& from) noexcept;
  void end_attempt(Jobs& from, CURLcode result);
  void again(Jobs& from, const std::string& why, std::optional<milliseconds> after);
  void wake_delayed() noexcept;
  void start_some() noexcept;
  void collect() noexcept;
  void note_answer(const Job& job) noexcept;
  void recycle(Job& job) noexcept;
  void measure(CURL* easy) noexcept;
  static void end(Job& job, std::exception_ptr failure) noexcept;
  milliseconds time_to_wait() const;
};

HttpBody HttpBody::of(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const auto bytes = std::as_bytes(std::span(*owner));
  return {bytes, std::move(owner)};
}

HttpCounters& HttpEngine::counters() noexcept {
  static constinit HttpCounters counters;
  return counters;
}

HttpEngine* HttpEngine::make(const HttpEngine* /*before*/) {
  return new HttpEngine;
}

namespace {

ProcessState<HttpEngine> the_engine("HTTP engine", &HttpEngine::make);

}  // namespace

HttpEngine& HttpEngine::process() {
  return the_engine.get();
}

bool HttpEngine::is_running() noexcept {
  return the_engine.made() != nullptr;
}

HttpEngine::HttpEngine() : state_(std::make_unique<State>()) {
  state_->spare.reserve(kMostAtOnce);
  state_->multi = state_->curl.multi_init();
  if (state_->multi == nullptr) throw std::bad_alloc();
  state_->curl.multi_setopt(state_->multi, CURLMOPT_MAXCONNECTS, long{2 * kMostAtOnce});
  const NoSignals none;
  std::thread([state = state_.get()] { state->run(); }).detach();
}

void HttpEngine::submit(HttpRequest request, std::shared_ptr<HttpReceiver> receiver,
                        HttpPriority priority, Done done) {
  Jobs job;
  job.emplace_back(std::move(request), std::move(receiver), priority, std::move(done));
  {
    const std::scoped_lock lock(state_->mutex);
    state_->inbox.splice(state_->inbox.end(), job);
  }
  state_->curl.multi_wakeup(state_->multi);
}

void HttpEngine::perform(HttpRequest request, std::shared_ptr<HttpReceiver> receiver) {
  struct Waiting {
    std::mutex mutex;
    std::condition_variable over;
    bool is_over = false;
    std::exception_ptr failure;
  };
  auto waiting = std::make_shared<Waiting>();
  submit(std::move(request), std::move(receiver), HttpPriority::kNeeded,
         [waiting](std::exception_ptr failure) {
           const std::scoped_lock lock(waiting->mutex);
           waiting->is_over = true;
           waiting->failure = std::move(failure);
           waiting->over.notify_all();
         });
  std::unique_lock lock(waiting->mutex);
  waiting->over.wait(lock, [&] { return waiting->is_over; });
  if (waiting->failure != nullptr) std::rethrow_exception(waiting->failure);
}

void HttpEngine::State::end(Job& job, std::exception_ptr failure) noexcept {
  if (std::exchange(job.has_ended, true)) return;
  if (failure != nullptr) HttpEngine::counters().failures.fetch_add(1, std::memory_order_relaxed);
  job.done(std::move(failure));
}

void HttpEngine::State::queue(Jobs& from) noexcept {
  Jobs& to = from.front().priority == HttpPriority::kNeeded ? needed : ahead;
  to.splice(to.end(), from);
}

void HttpEngine::State::take_inbox() noexcept {
  Jobs jobs;
  {
    const std::scoped_lock lock(mutex);
    jobs.swap(inbox);
  }
  while (!jobs.empty()) {
    Jobs one;
    one.splice(one.end(), jobs, jobs.begin());
    queue(one);
  }
}

void HttpEngine::State::wake_delayed() noexcept {
  const auto now = Clock::now();
  for (auto next = delayed.begin(); next != delayed.end();) {
    const auto job = next++;
    if (job->not_before > now) continue;
    Jobs one;
    one.splice(one.end(), delayed, job);
    queue(one);
  }
}

void HttpEngine::State::start_some() noexcept {
  while (running.size() < limit && !(needed.empty() && ahead.empty())) {
    // Somebody may wait by now for what was asked for ahead.
    const bool turn_of_ahead = !ahead.empty() && ++turn % kTurnOfAhead == 0;
    Jobs& from = needed.empty() || turn_of_ahead ? ahead : needed;
    Jobs one;
    one.splice(one.end(), from, from.begin());
    start(one);
  }
}

void HttpEngine::State::start(Jobs& from) noexcept {
  Job& job = from.front();
  try {
    if (spare.empty()) {
      job.easy.reset(curl.easy_init());
      if (!job.easy) throw std::bad_alloc();
    } else {
      job.easy = std::move(spare.back());
      spare.pop_back();
    }
    const milliseconds stall = job.request.silence.value_or(
        std::clamp(transport_settings().patience / 3, milliseconds(1000), kLongestStall));
    job.attempt.emplace(job.request, job.url, *job.receiver, stall, job.fresh);
    job.attempt->set_up(job.easy.get());
    ++job.attempts;
    HttpEngine::counters().requests.fetch_add(1, std::memory_order_relaxed);
    if (job.attempts > 1) HttpEngine::counters().retries.fetch_add(1, std::memory_order_relaxed);
    const CURLMcode code = curl.multi_add_handle(multi, job.easy.get());
    if (code != CURLM_OK) {
      throw Error(ErrorKind::kIo, curl.multi_strerror(code)).in_file(job.request.name);
    }
    running.splice(running.end(), from);
  } catch (...) {
    end(job, std::current_exception());
  }
}

void HttpEngine::State::measure(CURL* easy) noexcept {
  curl_off_t ready = 0;
  curl_off_t first = 0;
  curl.easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &ready);
  curl.easy_getinfo(easy, CURLINFO_STARTTRANSFER_TIME_T, &first);
  if (first <= ready) return;
  const std::int64_t measured = first - ready;
  const std::int64_t before = latency_us;
  const std::int64_t now = before == 0 ? measured : before + (measured - before) / 8;
  latency_us = now;
  const std::int64_t more = std::min(now, kLatencyForMost) * (kMostAtOnce - kLeastAtOnce);
  limit = kLeastAtOnce + static_cast<unsigned>(more / kLatencyForMost);
}

void HttpEngine::State::collect() noexcept {
  int left = 0;
  while (const CURLMsg* message = curl.multi_info_read(multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* const easy = message->easy_handle;
    const CURLcode result = message->data.result;
    curl.multi_remove_handle(multi, easy);
    const auto found = std::find_if(running.begin(), running.end(),
                                    [easy](const Job& job) { return job.easy.get() == easy; });
    Jobs one;
    one.splice(one.end(), running, found);
    // With a body, the time until the answer is that of sending it.
    if (result == CURLE_OK && !one.front().request.body) measure(easy);
    try {
      end_attempt(one, result);
    } catch (...) {
      // Out of memory: neither another attempt nor a message is possible.
      if (!one.empty()) end(one.front(), std::current_exception());
    }
  }
}

/// Without memory for it, the server stays a stranger.
void HttpEngine::State::note_answer(const Job& job) noexcept {
  try {
    if (job.attempt->head().status != 0) known.insert(origin_of(job.attempt->url()));
  } catch (const std::bad_alloc&) {
    return;
  }
}

void HttpEngine::State::recycle(Job& job) noexcept {
  job.attempt.reset();
  if (spare.size() < spare.capacity()) spare.push_back(std::move(job.easy));
  job.easy.reset();
}

void HttpEngine::State::end_attempt(Jobs& from, CURLcode result) {
  Job& it = from.front();
  note_answer(it);
  try {
    it.attempt->finish(result);
    recycle(it);
    end(it, nullptr);
  } catch (const HttpRetry& retry) {
    recycle(it);
    it.fresh = result != CURLE_OK;
    again(from, retry.why, retry.after);
  } catch (const HttpAttempt::Unreachable& problem) {
    const bool stranger = !known.contains(origin_of(it.attempt->url()));
    recycle(it);
    if (stranger && it.attempts >= kAttemptsAtStranger) {
      throw Error(ErrorKind::kIo, problem.why)
          .in_file(it.request.name)
          .os_error(EIO)
          .hint("check the URL, the network and the proxy");
    }
    again(from, problem.why, std::nullopt);
  } catch (const HttpAttempt::Redirection& redirection) {
    recycle(it);
    if (++it.redirections > kMaxRedirections) {
      throw Error(ErrorKind::kIo, "the server redirects more than 5 times")
          .in_file(it.request.name)
          .os_error(EIO);
    }
    it.url = redirection.url;
    --it.attempts;
    needed.splice(needed.begin(), from);
  } catch (...) {
    recycle(it);
    throw;
  }
}

/// @throws Error where it is not made again.
void HttpEngine::State::again(Jobs& from, const std::string& why,
                              std::optional<milliseconds> after) {
  Job& job = from.front();
  const auto now = Clock::now();
  const auto wait = job.schedule.next(after);
  const auto patience = job.request.patience.value_or(transport_settings().patience);
  if (now + wait - job.begun > patience) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - job.begun).count();
    throw Error(ErrorKind::kIo, (job.request.body ? "cannot be written: " : "cannot be read: ") +
                                    why + attempts_words(job.attempts, seconds))
        .in_file(job.request.name)
        .os_error(EIO);
  }
  // A redirection may have been to a URL that holds for a while only.
  job.url = job.request.url;
  job.redirections = 0;
  job.not_before = now + wait;
  delayed.splice(delayed.end(), from);
}

milliseconds HttpEngine::State::time_to_wait() const {
  const auto now = Clock::now();
  milliseconds wait = kIdle;
  for (const Job& job : delayed) {
    const auto left = std::chrono::ceil<milliseconds>(job.not_before - now);
    wait = std::clamp(left, milliseconds(0), wait);
  }
  return wait;
}

void HttpEngine::State::run() noexcept {
  while (true) {
    take_inbox();
    wake_delayed();
    start_some();
    int active = 0;
    curl.multi_perform(multi, &active);
    collect();
    const bool can_start = running.size() < limit && !(needed.empty() && ahead.empty());
    if (can_start) continue;
    curl.multi_poll(multi, nullptr, 0, static_cast<int>(time_to_wait().count()), nullptr);
  }
}

}  // namespace reshardfs
