// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/other_process.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// What /proc/PID/status says behind "NAME:" and the tab; empty if the process has ended.
std::string status_of(pid_t process, const std::string& name) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  }
  return "";
}

/// Of all its threads.
void add_children_of(pid_t process, std::vector<pid_t>& all) {
  std::error_code failed;
  fs::directory_iterator thread("/proc/" + std::to_string(process) + "/task", failed);
  for (; !failed && thread != fs::directory_iterator(); thread.increment(failed)) {
    std::ifstream list(thread->path() / "children");
    for (pid_t child = 0; list >> child;) all.push_back(child);
  }
}

}  // namespace

bool handles_signal(pid_t process, int signal) noexcept {
  try {
    const auto caught = parse_number<std::uint64_t>(status_of(process, "SigCgt"), 16);
    return caught && (*caught >> (signal - 1) & 1) != 0;
  } catch (const std::exception&) {
    return false;  // no memory
  }
}

bool has_process_ended(pid_t process) noexcept {
  try {
    const std::string state = status_of(process, "State");
    return state.empty() || state.find_first_of("ZX") < state.find('(');
  } catch (const std::exception&) {
    return false;  // no memory
  }
}

std::vector<pid_t> descendants_of(pid_t process) {
  std::vector<pid_t> all;
  add_children_of(process, all);
  for (std::size_t i = 0; i < all.size(); ++i) add_children_of(all[i], all);
  return all;
}

bool may_have_open(pid_t process, int descriptor) noexcept {
  try {
    std::error_code failed;
    const fs::path file = fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), failed);
    if (failed) return true;
    fs::directory_iterator link("/proc/" + std::to_string(process) + "/fd", failed);
    for (; !failed && link != fs::directory_iterator(); link.increment(failed)) {
      std::error_code closed;
      // Only the name: a look at the file itself may wait for its file system.
      if (fs::read_symlink(link->path(), closed) == file && !closed) return true;
    }
    return failed && failed.value() != ENOENT && failed.value() != ESRCH;
  } catch (const std::exception&) {
    return true;  // no memory
  }
}

}  // namespace reshardfs
