// SPDX-License-Identifier: Apache-2.0
#include "core/faults.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include "base/process/failure_log.h"
#include "base/process/fault_report.h"
#include "base/process/process_state.h"

namespace reshardfs::python {
namespace {

/// Lines that wait for somebody who has the GIL: those who report them must not wait for it.
class Faults {
 public:
  void add(const FailureLog::Failure& fault) noexcept { log_.add(fault); }

  std::vector<std::string> take() {
    if (!any_) return {};
    const std::lock_guard lock(mutex_);
    any_ = false;
    return std::exchange(lines_, {});
  }

 private:
  void keep(const std::string& line) noexcept {
    constexpr std::size_t kMostLines = 1000;
    const std::lock_guard lock(mutex_);
    try {
      if (lines_.size() < kMostLines) lines_.push_back(line);
      any_ = true;
    } catch (const std::bad_alloc&) {
      // Nor is there memory to tell of it.
    }
  }

  std::atomic<bool> any_{false};
  std::mutex mutex_;  // guards lines_
  std::vector<std::string> lines_;
  FailureLog log_{[this](const std::string& line) { keep(line); }};
};

ProcessState<Faults> faults("Python's faults", make_new<Faults>);

}  // namespace

void collect_faults() {
  set_fault_listener([](LogEvent event, const std::string& cause, const std::string& text) {
    try {
      faults.get().add({.event = event, .cause = cause, .line = text});
    } catch (const std::bad_alloc&) {
      // Nor is there memory to tell of it.
    }
  });
}

void log_faults() {
  Faults* const found = faults.made();
  if (found == nullptr) return;
  for (const std::string& line : found->take()) {
    pybind11::module_::import("logging").attr("getLogger")("reshardfs").attr("warning")("%s", line);
  }
}

}  // namespace reshardfs::python
