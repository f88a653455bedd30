// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/asker.h"

#include <algorithm>
#include <array>

#include "base/text/numbers.h"
#include "fuse/queue/killable_request.h"

namespace reshardfs {

Asker Asker::of(fuse_req_t request) noexcept {
  return {.thread = fuse_req_ctx(request)->pid};
}

void Asker::describe(LogFields& fields) const {
  fields.duration = Clock::now() - since;
  ProcText text;
  if (read_proc(thread, "status", text)) fields.client_pid = process_of_status(text.data());
  // A thread that ends has both files, or neither.
  if (read_proc(thread, "cgroup", text)) fields.client_cgroup = cgroup_path(text.data());
}

pid_t process_of_status(std::string_view status) noexcept {
  constexpr std::string_view kKey = "\nTgid:\t";
  const std::size_t at = status.find(kKey);
  if (at == std::string_view::npos) return 0;
  status.remove_prefix(at + kKey.size());
  return take_number<pid_t>(status, 10).value_or(0);
}

std::string cgroup_path(std::string_view text) {
  std::string_view first;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // "number:controllers:path": the path may hold colons.
    const std::size_t controllers = line.find(':');
    if (controllers == std::string_view::npos) continue;
    const std::size_t path = line.find(':', controllers + 1);
    if (path == std::string_view::npos) continue;
    const std::string_view its_path = line.substr(path + 1);
    if (line.starts_with("0::")) return std::string(its_path);
    if (first.empty() && its_path != "/") first = its_path;
  }
  return std::string(first);
}

}  // namespace reshardfs
