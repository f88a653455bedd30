// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/handover.h"

#include <unistd.h>

#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/json/json_writer.h"
#include "base/posix/descriptor_message.h"
#include "base/posix/poll_until.h"
#include "base/process/child_process.h"
#include "base/process/resource_limits.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostText = std::size_t{32} << 10;

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

/// Without descriptors. @return nothing if it is not such a message.
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
  const auto deadline = deadline_after(limit);
  for (;;) {
    if (auto got = receive_message(socket_.get(), kMostText)) {
      if (got->is_end) return std::nullopt;
      auto read = got->is_truncated ? std::nullopt : message_in(got->text);
      if (!read) {
        throw Error(ErrorKind::kIo, got->is_truncated ? "not all descriptors could be handed over"
                                                      : "the other process sent invalid data")
            .hint(got->is_truncated ? limit_hint(Resource::kOpenFiles) : "");
      }
      HandoverMessage message = std::move(*read);
      message.descriptors = std::move(got->descriptors);
      return message;
    }
    if (!wait_readable(socket_.get(), deadline)) return std::nullopt;
  }
}

pid_t start_successor(const ProgramStart& start, const Descriptor& socket) {
  constexpr int kSocket = STDERR_FILENO + 1;
  std::vector<std::string> words{start.program.string()};
  words.insert(words.end(), start.words.begin(), start.words.end());
  // Behind the command, where no "--" is before it.
  words.insert(words.begin() + 2, {kTakeOverOption, std::to_string(kSocket)});
  // Signals are as a program finds them that a shell starts, but for those that are ignored.
  const Spawned spawned = spawn({.program = start.program.string(),
                                 .words = std::move(words),
                                 .directory = start.directory,
                                 .descriptors = {{socket.get(), kSocket}},
                                 .closes_others = true,
                                 .unblocks_signals = true});
  if (spawned.error != 0) {
    throw io_error("start it in " + printable(start.directory.string()), start.program.string(),
                   spawned.error);
  }
  return spawned.process;
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
