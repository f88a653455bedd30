// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/successor.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/descriptor_message.h"
#include "base/process/signals.h"

namespace reshardfs {
namespace {

/// For the answer to MOUNT: what is left to be done then takes milliseconds. Readers wait
/// meanwhile.
constexpr std::chrono::seconds kLivePatience{10};

/// For the end of a process that was killed.
constexpr std::chrono::seconds kEndPatience{2};
constexpr std::chrono::milliseconds kEndInterval{1};

std::string words_of_end(const siginfo_t& end) {
  if (end.si_code == CLD_EXITED) return fmt::format("it ended with exit code {}", end.si_status);
  return fmt::format("signal {} ({}) ended it", end.si_status, ::strsignal(end.si_status));
}

}  // namespace

Successor::Successor(const ProgramStart& start, SuccessorOffer offer, const WakePipe& events)
    : events_(events), offer_(std::move(offer)) {
  auto [own, its] = message_sockets();
  process_ = start_successor(start, its);
  socket_ = HandoverSocket(std::move(own));
  try {
    const NoSignals none;
    thread_ = std::thread([this] { talk(); });
  } catch (...) {
    end_process();
    throw;
  }
}

Successor::~Successor() {
  if (!given_ && process_ > 0) {
    ::kill(process_, SIGKILL);
    // The thread hears the end of the connection now, and not when a process ends that waits for a
    // file system which does not answer.
    ended_ = true;
    ::shutdown(socket_.get(), SHUT_RDWR);
  }
  if (thread_.joinable()) thread_.join();
  if (!given_) end_process();
}

/// A killed process may wait in the kernel forever. It runs no more code, so it is left to the
/// process that inherits it.
void Successor::end_process() noexcept {
  using Clock = std::chrono::steady_clock;
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  const auto deadline = Clock::now() + kEndPatience;
  while (::waitpid(process_, nullptr, WNOHANG) == 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(kEndInterval);
  }
  process_ = -1;
}

void Successor::talk() noexcept {
  try {
    failure_ = ask();
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  events_.post(Event::kSuccessor);
}

/// @return why it is not ready.
std::string Successor::ask() {
  constexpr std::chrono::milliseconds kAsLongAsItTakes{-1};
  const auto gone = [this]() -> std::string {
    if (ended_) return "this process has ended it";
    // It stays a process's number until end_process().
    siginfo_t end{};
    while (::waitid(P_PID, static_cast<id_t>(process_), &end, WEXITED | WNOWAIT) != 0) {
      if (errno != EINTR) return "it has gone";
    }
    return words_of_end(end) + " before it was ready";
  };
  const auto hello = socket_.receive(kAsLongAsItTakes);
  if (!hello) return gone() + "; it may be a version that cannot take mounts over";
  if (hello->step == HandoverStep::kFailed) return hello->text;
  if (std::string conflict = version_conflict(*hello); !conflict.empty()) {
    socket_.send({.step = HandoverStep::kFailed, .text = conflict});
    return conflict;
  }
  const std::array descriptors{offer_.state, offer_.names.descriptor()};
  socket_.send({.step = HandoverStep::kOffer, .replace = offer_.replace}, descriptors);
  const auto ready = socket_.receive(kAsLongAsItTakes);
  if (!ready) return gone();
  return ready->step == HandoverStep::kReady ? "" : ready->text;
}

bool Successor::give(const std::array<int, kHandedNames.size()>& descriptors) noexcept {
  try {
    if (thread_.joinable()) thread_.join();
    HandoverMessage mount{.step = HandoverStep::kMount};
    std::vector<int> there;
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      if (descriptors[i] < 0) continue;
      there.push_back(descriptors[i]);
      mount.text.append(kHandedNames[i]).append(" ");
    }
    socket_.send(mount, there);
    const auto live = socket_.receive(kLivePatience);
    given_ = live && live->step == HandoverStep::kLive;
    if (live && !given_) failure_ = live->text;
    if (!live) failure_ = "it did not take over the mount";
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  // From here on it may not touch the mount any more.
  if (!given_) end_process();
  return given_;
}

}  // namespace reshardfs
