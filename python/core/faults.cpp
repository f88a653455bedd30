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
#include "daemon/process/log.h"

namespace reshardfs::python {
namespace {

struct Line {
  bool is_warning;
  std::string text;
};

/// Lines that wait for somebody who has the GIL: those who report them must not wait for it.
class Faults {
 public:
  void add(const FailureLog::Failure& fault) noexcept { log_.add(fault); }

  std::vector<Line> take() {
    if (!any_) return {};
    const std::lock_guard lock(mutex_);
    any_ = false;
    return std::exchange(lines_, {});
  }

  void keep(bool is_warning, const std::string& line) noexcept {
    constexpr std::size_t kMostLines = 1000;
    const std::lock_guard lock(mutex_);
    try {
      if (lines_.size() < kMostLines) lines_.push_back({is_warning, line});
      any_ = true;
    } catch (const std::bad_alloc&) {
      // Nor is there memory to tell of it.
    }
  }

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;  // guards lines_
  std::vector<Line> lines_;
  FailureLog log_{[this](const std::string& line) { keep(true, line); }};
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
  set_log_listener([](bool is_warning, const std::string& line) {
    try {
      faults.get().keep(is_warning, line);
    } catch (const std::bad_alloc&) {
      // As above.
    }
  });
}

void log_faults() {
  Faults* const found = faults.made();
  if (found == nullptr) return;
  const std::vector<Line> lines = found->take();
  if (lines.empty()) return;
  const auto logger = pybind11::module_::import("logging").attr("getLogger")("reshardfs");
  for (const auto& [is_warning, text] : lines) {
    logger.attr(is_warning ? "warning" : "info")(
        "%s", pybind11::reinterpret_steal<pybind11::str>(PyUnicode_DecodeUTF8(
                  text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
  }
}

}  // namespace reshardfs::python
