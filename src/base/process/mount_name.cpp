// SPDX-License-Identifier: Apache-2.0
#include "base/process/mount_name.h"

#include <utility>

#include "base/process/across_forks.h"

namespace reshardfs {
namespace {

AcrossForks<MountName> name_of_process;

}  // namespace

MountName mount_name() {
  return name_of_process.get();
}

void set_mount_name(MountName name) {
  name_of_process.set(std::move(name));
}

}  // namespace reshardfs
