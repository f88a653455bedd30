// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/read_ahead.h"

#include <sys/vfs.h>

#include "base/text/url_path.h"
#include "storage/local/file_system_type.h"

namespace reshardfs {
namespace {

constexpr unsigned kLocalKib = 1024;
constexpr unsigned kRemoteKib = 4096;

}  // namespace

unsigned read_ahead_for(const std::filesystem::path& source) noexcept {
  if (is_url(source)) return kRemoteKib;
  struct statfs info {};
  if (::statfs(source.c_str(), &info) != 0) return kLocalKib;
  return is_remote_type(type_of(info)) ? kRemoteKib : kLocalKib;
}

}  // namespace reshardfs
