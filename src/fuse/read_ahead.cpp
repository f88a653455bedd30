// SPDX-License-Identifier: Apache-2.0
#include "fuse/read_ahead.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>

#include "base/url_path.h"

namespace reshardfs {
namespace {

constexpr unsigned kLocalKib = 1024;
constexpr unsigned kRemoteKib = 4096;

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

bool is_remote(unsigned long file_system_type) noexcept {
  return std::find(kRemoteTypes.begin(), kRemoteTypes.end(), file_system_type) !=
         kRemoteTypes.end();
}

unsigned read_ahead_for(const std::filesystem::path& source) noexcept {
  if (is_url(source)) return kRemoteKib;
  struct statfs info {};
  if (::statfs(source.c_str(), &info) != 0) return kLocalKib;
  // The field is signed, and so widened with its sign on some machines.
  return is_remote(static_cast<unsigned long>(info.f_type) & 0xFFFFFFFFUL) ? kRemoteKib : kLocalKib;
}

}  // namespace reshardfs
