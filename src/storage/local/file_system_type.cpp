// SPDX-License-Identifier: Apache-2.0
#include "storage/local/file_system_type.h"

#include <algorithm>
#include <array>

namespace reshardfs {
namespace {

/// From linux/magic.h and, for those that are not part of the kernel, their own sources.
constexpr std::array<unsigned long, 15> kRemoteTypes{
    0x6969,      // NFS
    0xFF534D42,  // CIFS
    0xFE534D42,  // SMB2
    0x517B,      // SMB
    0x00C36400,  // Ceph
    0x65735546,  // FUSE and virtiofs
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS
    0x19830326,  // BeeGFS
    0xAAD7AAEA,  // PanFS
    0x20030528,  // OrangeFS
    0x5346414F,  // AFS
    0x73757245,  // Coda
    0x01021997,  // 9P
    0x786F4256,  // VirtualBox shared folders
};

}  // namespace

bool is_remote_type(unsigned long file_system_type) noexcept {
  return std::find(kRemoteTypes.begin(), kRemoteTypes.end(), file_system_type) !=
         kRemoteTypes.end();
}

}  // namespace reshardfs
