// SPDX-License-Identifier: Apache-2.0
#include "core/process.h"

#include <pthread.h>

#include <atomic>

#include "core/faults.h"
#include "core/memory.h"
#include "core/opening.h"
#include "core/workers.h"

namespace reshardfs::python {
namespace {

std::atomic<std::uint64_t> generation{0};

}  // namespace

void watch_forks() {
  ::pthread_atfork(nullptr, nullptr, [] {
    ++generation;
    Workers::forget_those_of_parent();
    forget_opens_of_parent();
    forget_faults_of_parent();
    Memory::forget_that_of_parent();
  });
}

ProcessMark::ProcessMark() noexcept : generation_(generation) {}

bool ProcessMark::is_here() const noexcept {
  return generation_ == generation;
}

}  // namespace reshardfs::python
