// SPDX-License-Identifier: Apache-2.0
#include "transport/http_engine.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "reshardfs/error.h"

#include "base/no_signals.h"
#include "transport/http_attempt.h"
#include "transport/retry_schedule.h"
#include "transport/settings.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

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
/// Of a server that has never answered: a wrong name shall be told soon.
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
};
using JobPtr = std::unique_ptr<Job>;

}  // namespace

struct HttpEngine::State {
  const CurlLibrary& curl = curl_library();
  CURLM* multi = nullptr;

  std::mutex mutex;
  std::vector<JobPtr> inbox;  ///< guarded by mutex

  // Of the engine's thread alone.
  std::deque<JobPtr> needed;
  std::deque<JobPtr> ahead;
  unsigned turn = 0;
  std::vector<JobPtr> delayed;
  std::map<CURL*, JobPtr> running;
  std::vector<EasyHandle> spare;
  std::set<std::string> known;  ///< origins that have answered

  unsigned limit = kLeastAtOnce;  ///< of requests that are made at once
  std::int64_t latency_us = 0;    ///< time to the first byte of an answer, lately

  void run();
  void take_inbox();
  void queue(JobPtr job);
  void wake_delayed();
  void start_some();
  void start(JobPtr job);
  void collect();
  void end_attempt(JobPtr job, CURLcode result);
  void again(JobPtr job, const std::string& why, std::optional<milliseconds> after);
  void measure(CURL* easy);
  static void end(const Job& job, std::exception_ptr failure) noexcept;
  milliseconds time_to_wait() const;
};

HttpBody HttpBody::of(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const auto bytes = std::as_bytes(std::span(*owner));
  return {bytes, std::move(owner)};
}

HttpCounters& HttpEngine::counters() noexcept {
  static HttpCounters counters;
  return counters;
}

namespace {

// Never freed: threads use it until the process ends.
std::atomic<HttpEngine*> the_engine = nullptr;
std::atomic<pid_t> its_process = 0;
std::mutex start_mutex;

}  // namespace

HttpEngine& HttpEngine::process() {
  const pid_t own = ::getpid();
  if (its_process == own) return *the_engine;
  const std::scoped_lock lock(start_mutex);
  if (its_process != own) {
    the_engine = new HttpEngine;
    its_process = own;
  }
  return *the_engine;
}

bool HttpEngine::is_running() noexcept {
  return its_process == ::getpid();
}

HttpEngine::HttpEngine() : state_(std::make_unique<State>()) {
  state_->multi = state_->curl.multi_init();
  if (state_->multi == nullptr) throw std::bad_alloc();
  state_->curl.multi_setopt(state_->multi, CURLMOPT_MAXCONNECTS, long{2 * kMostAtOnce});
  const NoSignals none;
  std::thread([state = state_.get()] { state->run(); }).detach();
}

void HttpEngine::submit(HttpRequest request, std::shared_ptr<HttpReceiver> receiver,
                        HttpPriority priority, Done done) {
  auto job =
      std::make_unique<Job>(std::move(request), std::move(receiver), priority, std::move(done));
  {
    const std::scoped_lock lock(state_->mutex);
    state_->inbox.push_back(std::move(job));
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

void HttpEngine::State::end(const Job& job, std::exception_ptr failure) noexcept {
  if (failure != nullptr) HttpEngine::counters().failures.fetch_add(1, std::memory_order_relaxed);
  job.done(std::move(failure));
}

void HttpEngine::State::queue(JobPtr job) {
  (job->priority == HttpPriority::kNeeded ? needed : ahead).push_back(std::move(job));
}

void HttpEngine::State::take_inbox() {
  std::vector<JobPtr> jobs;
  {
    const std::scoped_lock lock(mutex);
    jobs.swap(inbox);
  }
  for (JobPtr& job : jobs) queue(std::move(job));
}

void HttpEngine::State::wake_delayed() {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < delayed.size();) {
    if (delayed[i]->not_before > now) {
      ++i;
      continue;
    }
    queue(std::move(delayed[i]));
    delayed[i] = std::move(delayed.back());
    delayed.pop_back();
  }
}

void HttpEngine::State::start_some() {
  while (running.size() < limit && !(needed.empty() && ahead.empty())) {
    // Somebody may wait by now for what was asked for ahead.
    const bool turn_of_ahead = !ahead.empty() && ++turn % kTurnOfAhead == 0;
    std::deque<JobPtr>& from = needed.empty() || turn_of_ahead ? ahead : needed;
    JobPtr job = std::move(from.front());
    from.pop_front();
    start(std::move(job));
  }
}

void HttpEngine::State::start(JobPtr job) {
  try {
    if (spare.empty()) {
      job->easy.reset(curl.easy_init());
      if (!job->easy) throw std::bad_alloc();
    } else {
      job->easy = std::move(spare.back());
      spare.pop_back();
    }
    const milliseconds stall = job->request.silence.value_or(
        std::clamp(transport_settings().patience / 3, milliseconds(1000), kLongestStall));
    job->attempt.emplace(job->request, job->url, *job->receiver, stall, job->fresh);
    job->attempt->set_up(job->easy.get());
    ++job->attempts;
    HttpEngine::counters().requests.fetch_add(1, std::memory_order_relaxed);
    if (job->attempts > 1) HttpEngine::counters().retries.fetch_add(1, std::memory_order_relaxed);
    CURL* const easy = job->easy.get();
    Job* const started = job.get();
    running.emplace(easy, std::move(job));
    const CURLMcode code = curl.multi_add_handle(multi, easy);
    if (code == CURLM_OK) return;
    auto node = running.extract(easy);
    end(*started,
        std::make_exception_ptr(
            Error(ErrorKind::kIo, curl.multi_strerror(code)).in_file(started->request.name)));
  } catch (...) {
    if (job) end(*job, std::current_exception());
  }
}

void HttpEngine::State::measure(CURL* easy) {
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

void HttpEngine::State::collect() {
  int left = 0;
  while (const CURLMsg* message = curl.multi_info_read(multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* const easy = message->easy_handle;
    const CURLcode result = message->data.result;
    curl.multi_remove_handle(multi, easy);
    auto node = running.extract(easy);
    // With a body, the time until the answer is that of sending it.
    if (result == CURLE_OK && !node.mapped()->request.body) measure(easy);
    end_attempt(std::move(node.mapped()), result);
  }
}

void HttpEngine::State::end_attempt(JobPtr job, CURLcode result) {
  Job& it = *job;
  if (it.attempt->head().status != 0) known.insert(origin_of(it.attempt->url()));
  const auto recycle = [&] {
    it.attempt.reset();
    spare.push_back(std::move(it.easy));
  };
  try {
    it.attempt->finish(result);
    recycle();
    end(it, nullptr);
  } catch (const HttpRetry& retry) {
    recycle();
    it.fresh = result != CURLE_OK;
    again(std::move(job), retry.why, retry.after);
  } catch (const HttpAttempt::Unreachable& problem) {
    const bool stranger = !known.contains(origin_of(it.attempt->url()));
    recycle();
    if (stranger && it.attempts >= kAttemptsAtStranger) {
      end(it, std::make_exception_ptr(Error(ErrorKind::kIo, problem.why)
                                          .in_file(it.request.name)
                                          .os_error(EIO)
                                          .hint("check the URL, the network and the proxy")));
    } else {
      again(std::move(job), problem.why, std::nullopt);
    }
  } catch (const HttpAttempt::Redirection& redirection) {
    recycle();
    if (++it.redirections > kMaxRedirections) {
      end(it,
          std::make_exception_ptr(Error(ErrorKind::kIo, "the server redirects more than 5 times")
                                      .in_file(it.request.name)
                                      .os_error(EIO)));
      return;
    }
    it.url = redirection.url;
    --it.attempts;
    needed.push_front(std::move(job));
  } catch (...) {
    recycle();
    end(it, std::current_exception());
  }
}

void HttpEngine::State::again(JobPtr job, const std::string& why,
                              std::optional<milliseconds> after) {
  const auto now = Clock::now();
  const auto wait = job->schedule.next(after);
  const auto patience = job->request.patience.value_or(transport_settings().patience);
  if (now + wait - job->begun > patience) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - job->begun).count();
    end(*job,
        std::make_exception_ptr(
            Error(ErrorKind::kIo, (job->request.body ? "cannot be written: " : "cannot be read: ") +
                                      why + " (" + std::to_string(job->attempts) + " attempts in " +
                                      std::to_string(seconds) + " s)")
                .in_file(job->request.name)
                .os_error(EIO)));
    return;
  }
  // A redirection may have been to a URL that holds for a while only.
  job->url = job->request.url;
  job->redirections = 0;
  job->not_before = now + wait;
  delayed.push_back(std::move(job));
}

milliseconds HttpEngine::State::time_to_wait() const {
  const auto now = Clock::now();
  milliseconds wait = kIdle;
  for (const JobPtr& job : delayed) {
    const auto left = std::chrono::ceil<milliseconds>(job->not_before - now);
    wait = std::clamp(left, milliseconds(0), wait);
  }
  return wait;
}

void HttpEngine::State::run() {
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
