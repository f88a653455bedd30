// SPDX-License-Identifier: Apache-2.0
#include "base/process/mount_name.h"

#include <utility>

#include "base/process/process_state.h"

namespace reshardfs {
namespace {

MountName name_of_process;  // read and written under a ForkLock

}  // namespace

MountName mount_name() {
  const ForkLock lock;
  return name_of_process;
}

void set_mount_name(MountName name) {
  const ForkLock lock;
  std::swap(name_of_process, name);
}

}  // namespace reshardfs
