// SPDX-License-Identifier: Apache-2.0
#include "daemon/started_program.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/text/numbers.h"
#include "daemon/handover/handover.h"
#include "daemon/keeping/service_manager.h"
#include "daemon/process/caller.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

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

fs::path working_directory() {
  std::error_code failed;
  return fs::current_path(failed);
}

}  // namespace

StartedProgram::StartedProgram(std::string name, std::vector<std::string> words)
    : name_(std::move(name)), words_(std::move(words)), directory_(working_directory()) {
  if (!takes_over(words_)) return;
  socket_ = parse_number<int>(words_[2]).value_or(-1);
  words_.erase(words_.begin() + 1, words_.begin() + 3);
}

void StartedProgram::meet_predecessor() {
  if (const auto socket = std::exchange(socket_, std::nullopt)) {
    // If that has ended before this, the socket says so.
    end_with(::getppid());
    takeover_ = std::make_unique<Takeover>(Descriptor(*socket));
    return;
  }
  if (words_.empty() || words_.front() != "mount" || !has_service_manager()) return;
  if (auto kept = take_kept_mount()) takeover_ = std::make_unique<Takeover>(std::move(*kept));
}

void StartedProgram::tell_predecessor(const std::string& why) noexcept {
  if (const auto takeover = take_predecessor()) return takeover->fail(why);
  if (!socket_) return;
  const HandoverSocket socket{Descriptor(*std::exchange(socket_, std::nullopt))};
  socket.send({.step = HandoverStep::kFailed, .text = why});
}

ProgramStart StartedProgram::successor() const {
  return {installed_program(name_, directory_), words_, directory_};
}

}  // namespace reshardfs
