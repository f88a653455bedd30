// SPDX-License-Identifier: Apache-2.0
#include "base/process/progress.h"

namespace reshardfs {

Progress::Values Progress::values() const {
  const std::lock_guard lock(mutex_);
  return {phase_, current_, bytes_, total_bytes_, files_, total_files_};
}

void Progress::set_current(const std::string& name) {
  const std::lock_guard lock(mutex_);
  current_ = name;
}

void Progress::start(const std::string& phase, std::uint64_t total_bytes,
                     std::uint64_t total_files) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  current_.clear();
  bytes_ = 0;
  files_ = 0;
  total_bytes_ = total_bytes;
  total_files_ = total_files;
}

}  // namespace reshardfs
