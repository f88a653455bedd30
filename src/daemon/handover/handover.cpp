// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/handover.h"

#include <poll.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/json/json_writer.h"
#include "base/posix/descriptor_message.h"
#include "base/process/resource_limits.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostText = std::size_t{32} << 10;

class SpawnAttributes {
 public:
  SpawnAttributes() {
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawn_file_actions_init(&actions_);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  ~SpawnAttributes() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  /// Signals as a program finds them that a shell starts, but for those that are ignored.
  void reset_signals() {
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }

  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t actions_{};
};

std::string text_of(const HandoverMessage& message) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member("crash", message.after_crash);
  json.member("newest", message.versions.newest);
  json.member("oldest", message.versions.oldest);
  json.member("replace", message.replace);
  json.member("step", static_cast<int>(message.step));
  json.member("text", std::string_view(message.text).substr(0, kMostText / 2));
  json.close_object();
  return json.take();
}

/// @return `otherwise` if there is no such member.
std::int64_t number_in(const JsonValue& json, std::string_view key, std::int64_t otherwise) {
  const auto found = json.find(key);
  return found ? found->integer().value_or(otherwise) : otherwise;
}

bool is_true(const JsonValue& json, std::string_view key) {
  const auto found = json.find(key);
  return found && found->boolean() == true;
}

/// Without descriptors. @return nothing: it is none.
std::optional<HandoverMessage> message_in(const std::string& text) {
  const auto document = JsonDocument::parse(text);
  if (!document || !document->value().find("step")) return std::nullopt;
  const JsonValue json = document->value();
  const auto said = json.find("text");
  HandoverMessage message;
  message.step = static_cast<HandoverStep>(number_in(json, "step", 0));
  message.versions = {static_cast<unsigned>(number_in(json, "oldest", 0)),
                      static_cast<unsigned>(number_in(json, "newest", 0))};
  message.after_crash = is_true(json, "crash");
  message.replace = is_true(json, "replace");
  if (said) message.text = said->text().value_or("");
  return message;
}

}  // namespace

bool HandoverSocket::send(const HandoverMessage& message,
                          std::span<const int> descriptors) const noexcept {
  try {
    const std::string text = text_of(message);
    return send_message(socket_.get(), text, descriptors) == 0;
  } catch (const std::exception&) {
    return false;
  }
}

std::optional<HandoverMessage> HandoverSocket::receive(std::chrono::milliseconds limit) const {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + limit;
  for (;;) {
    if (auto got = receive_message(socket_.get(), kMostText)) {
      if (got->is_end) return std::nullopt;
      auto read = got->is_truncated ? std::nullopt : message_in(got->text);
      if (!read) {
        throw Error(ErrorKind::kIo, got->is_truncated ? "not all descriptors could be handed over"
                                                      : "the other process sends nonsense")
            .hint(got->is_truncated ? limit_hint(Resource::kOpenFiles) : "");
      }
      HandoverMessage message = std::move(*read);
      message.descriptors = std::move(got->descriptors);
      return message;
    }
    int left = -1;
    if (limit.count() >= 0) {
      const auto time = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (time.count() <= 0) return std::nullopt;
      left = static_cast<int>(time.count());
    }
    pollfd poll_fd{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    ::poll(&poll_fd, 1, left);
  }
}

pid_t start_successor(const ProgramStart& start, const Descriptor& socket) {
  // The new process gets no other descriptor of this one, even if a library forgot to mark one
  // close-on-exec.
  constexpr int kSocket = STDERR_FILENO + 1;
  const std::string number = std::to_string(kSocket);
  std::vector<std::string> words{start.program.string()};
  words.insert(words.end(), start.words.begin(), start.words.end());
  // Behind the command, where no "--" is before it.
  words.insert(words.begin() + 2, {kTakeOverOption, number});
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  SpawnAttributes spawn;
  spawn.reset_signals();
  ::posix_spawn_file_actions_adddup2(&spawn.actions_, socket.get(), kSocket);
  ::posix_spawn_file_actions_addclosefrom_np(&spawn.actions_, kSocket + 1);
  ::posix_spawn_file_actions_addchdir_np(&spawn.actions_, start.directory.c_str());
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, start.program.c_str(), &spawn.actions_, &spawn.attributes_,
                                  argv.data(), environ);
  if (error != 0) {
    throw io_error("start it in " + printable(start.directory.string()), start.program.string(),
                   error);
  }
  return pid;
}

std::string version_conflict(const HandoverMessage& hello) {
  const HandoverVersions own = handover_versions();
  if (hello.step == HandoverStep::kHello && hello.versions.newest >= own.oldest &&
      hello.versions.oldest <= own.newest) {
    return "";
  }
  return fmt::format(
      "reshardfs {} takes mounts over in the versions {} to {} of the hand-over, and this one "
      "gives {} to {}",
      printable(hello.text), hello.versions.oldest, hello.versions.newest, own.oldest, own.newest);
}

}  // namespace reshardfs
