// SPDX-License-Identifier: Apache-2.0
#include "cli/program_start.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "cli/service_manager.h"
#include "fuse/caller.h"
#include "fuse/handover.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

struct NotedStart {
  std::string name;
  std::vector<std::string> words;
  std::vector<std::string> plain_words;
  fs::path directory;
};

NotedStart& noted() {
  static NotedStart start;
  return start;
}

/// The name by which it was started, if that is this very program: a symbolic link to its version
/// may lead to another one later. Otherwise its file.
fs::path installed_program(const std::string& name, const fs::path& directory) {
  std::error_code failed;
  fs::path running = fs::read_symlink("/proc/self/exe", failed);
  std::vector<fs::path> places;
  if (name.find('/') != std::string::npos) {
    places.push_back(directory / name);
  } else if (const char* path = std::getenv("PATH")) {
    std::istringstream parts{std::string(path)};
    for (std::string part; std::getline(parts, part, ':');) places.push_back(fs::path(part) / name);
  }
  for (const fs::path& place : places) {
    const bool same = fs::equivalent(place, "/proc/self/exe", failed);
    if (same && !failed && place.is_absolute()) return place;
  }
  return running;
}

/// Behind the command: of start_successor().
bool takes_over(const std::vector<std::string>& words) {
  return words.size() > 2 && words[1] == kTakeOverOption;
}

/// The value of the option.
std::optional<int>& noted_socket() noexcept {
  static std::optional<int> socket;
  return socket;
}

std::unique_ptr<Takeover>& noted_takeover() noexcept {
  static std::unique_ptr<Takeover> takeover;
  return takeover;
}

}  // namespace

std::vector<std::string> note_program_start(const std::string& program,
                                            std::vector<std::string> words) {
  std::error_code failed;
  if (takes_over(words)) {
    const std::string& number = words[2];
    int socket = -1;
    std::from_chars(number.data(), number.data() + number.size(), socket);
    noted_socket() = socket;
    words.erase(words.begin() + 1, words.begin() + 3);
  }
  noted() = {program, words, {}, fs::current_path(failed)};
  return words;
}

void meet_predecessor() {
  if (const auto socket = std::exchange(noted_socket(), std::nullopt)) {
    // If that has ended before this, the socket says so.
    end_with(::getppid());
    noted_takeover() = std::make_unique<Takeover>(Descriptor(*socket));
    return;
  }
  const std::vector<std::string>& words = noted().words;
  if (words.empty() || words.front() != "mount" || !has_service_manager()) return;
  if (auto kept = take_kept_mount()) {
    noted_takeover() = std::make_unique<Takeover>(std::move(*kept));
  }
}

const Takeover* predecessor() noexcept {
  return noted_takeover().get();
}

std::unique_ptr<Takeover> take_predecessor() noexcept {
  return std::move(noted_takeover());
}

void tell_predecessor(const std::string& why) noexcept {
  if (const auto takeover = take_predecessor()) return takeover->fail(why);
  if (!noted_socket()) return;
  const HandoverSocket socket{Descriptor(*std::exchange(noted_socket(), std::nullopt))};
  socket.send({.step = HandoverStep::kFailed, .text = why});
}

void note_plain_words(std::vector<std::string> words) {
  noted().plain_words = std::move(words);
}

const std::vector<std::string>& plain_words() noexcept {
  return noted().plain_words;
}

ProgramStart program_start() {
  const NotedStart& start = noted();
  return {installed_program(start.name, start.directory), start.words, start.directory};
}

}  // namespace reshardfs
