// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/backing_files.h"

#include <sys/mman.h>

#include <cerrno>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "reshardfs/error.h"

#include "fuse/event_log.h"
#include "storage/descriptor_pool.h"

namespace reshardfs {
namespace {

std::string reason(int error) {
  switch (error) {
    case EPERM:
      return "this process lacks the capability SYS_ADMIN";
    case ELOOP:
      // What strerror() says of it is about symbolic links.
      return "it is on a file system that itself lies on another (overlayfs)";
    default:
      return std::generic_category().message(error);
  }
}

}  // namespace

/// Once: the other files of a mount are mostly refused for the same reason.
void BackingFiles::refused(int error, const std::string& what) noexcept {
  if (warned_.exchange(true)) return;
  try {
    log_warning(LogEvent::kPassthroughOff,
                "no passthrough: the kernel refuses {}: {}; reads go through reshardfs", what,
                reason(error));
  } catch (const std::exception&) {
    // The mount works without the line, too.
  }
}

void BackingFiles::try_out() {
  const Descriptor file(::memfd_create("reshardfs", MFD_CLOEXEC));
  if (!file) return;  // the first opening will tell
  const std::int32_t number = kernel_.add(file.get());
  if (number > 0) {
    kernel_.remove(number);
  } else {
    refused(-number, "backing files");
  }
}

std::shared_ptr<BackingFiles::Way> BackingFiles::enter(InodeNumber inode) {
  const std::lock_guard lock(mutex_);
  auto found = ways_.find(inode);
  if (found == ways_.end()) found = ways_.emplace(inode, std::make_shared<Way>()).first;
  ++found->second->openings;
  return found->second;
}

BackingFiles::Backing BackingFiles::find_backing(const VirtualFile& file) {
  ByteSourcePtr source = file.equal_source();
  if (!source) return {};
  const DescriptorPtr descriptor = source->descriptor();
  if (!descriptor) return {};
  source->check_unchanged();
  const std::int32_t number = kernel_.add(descriptor->get());
  if (number <= 0) {
    refused(-number, "'" + printable(source->name()) + "'");
    return {};
  }
  return {number, std::move(source)};
}

std::int32_t BackingFiles::open(InodeNumber inode, const VirtualFile& file) {
  const std::shared_ptr<Way> way = enter(inode);
  try {
    const std::lock_guard deciding(way->deciding);
    if (!way->decided) {
      Backing found = find_backing(file);
      const std::lock_guard lock(mutex_);
      way->backing = std::move(found);
      way->decided = true;
    } else if (way->backing.source) {
      way->backing.source->check_unchanged();
    }
    return way->backing.number;
  } catch (...) {
    close(inode);
    throw;
  }
}

ByteSourcePtr BackingFiles::close(InodeNumber inode) noexcept {
  Backing backing;
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = ways_.find(inode);
    if (found == ways_.end()) return nullptr;
    backing = found->second->backing;
    last = --found->second->openings == 0;
    if (last) ways_.erase(found);
  }
  if (last && backing.number != kNone) kernel_.remove(backing.number);
  return backing.source;
}

}  // namespace reshardfs
