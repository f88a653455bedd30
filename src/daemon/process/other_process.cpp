// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/other_process.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>

#include "base/posix/read_write.h"
#include "base/text/numbers.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// What /proc/PID/status says behind "NAME:" and the tab; empty if the process has ended.
std::string status_of(pid_t process, const std::string& name) {
  const std::string text = "\n" + text_of_file("/proc/" + std::to_string(process) + "/status");
  const std::string key = "\n" + name + ":\t";
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size();
  return text.substr(begin, text.find('\n', begin) - begin);
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

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> all;
  std::error_code failed;
  fs::directory_iterator thread("/proc/" + std::to_string(process) + "/task", failed);
  for (; !failed && thread != fs::directory_iterator(); thread.increment(failed)) {
    std::istringstream list(text_of_file(thread->path() / "children"));
    for (pid_t child = 0; list >> child;) all.push_back(child);
  }
  return all;
}

std::vector<pid_t> descendants_of(pid_t process) {
  std::vector<pid_t> all = children_of(process);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<pid_t> more = children_of(all[i]);
    all.insert(all.end(), more.begin(), more.end());
  }
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
