// SPDX-License-Identifier: Apache-2.0
#include "fuse/kernel_caches.h"

#include <linux/fuse.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "fuse/event_log.h"

namespace reshardfs {
namespace {

/// Not through the channel, so that no thread waits for a message that the kernel accepts late.
void send(int fuse, int code, const void* what, std::size_t size, std::string_view name) noexcept {
  fuse_out_header header{};
  const std::string_view end("\0", 1);
  const std::size_t text = name.empty() ? 0 : name.size() + 1;
  header.len = static_cast<std::uint32_t>(sizeof header + size + text);
  header.error = code;
  std::array<iovec, 4> pieces{{{&header, sizeof header},
                               {const_cast<void*>(what), size},
                               {const_cast<char*>(name.data()), name.size()},
                               {const_cast<char*>(end.data()), end.size()}}};
  // ENOENT means that the kernel had nothing cached, which is fine.
  while (::writev(fuse, pieces.data(), text == 0 ? 2 : 4) < 0 && errno == EINTR) {
  }
}

void forget_name(int fuse, InodeNumber directory, std::string_view name) noexcept {
  fuse_notify_inval_entry_out out{};
  out.parent = directory;
  out.namelen = static_cast<std::uint32_t>(name.size());
  send(fuse, FUSE_NOTIFY_INVAL_ENTRY, &out, sizeof out, name);
}

enum class Forget : std::uint8_t {
  kAttributes,
  kAll,  ///< also the cached bytes of a file, or the kept listing of a directory
};

void forget(int fuse, InodeNumber inode, Forget what) noexcept {
  fuse_notify_inval_inode_out out{};
  out.ino = inode;
  out.off = what == Forget::kAll ? 0 : -1;
  send(fuse, FUSE_NOTIFY_INVAL_INODE, &out, sizeof out, {});
}

std::string key_of(InodeNumber directory, std::string_view name) {
  return std::to_string(directory) + "/" + std::string(name);
}

}  // namespace

std::vector<KnownName> names_of(const Tree& tree) {
  std::vector<KnownName> names;
  names.reserve(tree.node_count());
  tree.for_each([&](const Node& node) {
    if (node.inode == kRootInode) return;
    names.push_back({node.parent, node.inode, node.is_directory(), std::string(node.name)});
  });
  return names;
}

void KernelCaches::start(int fuse, TreeChange change, std::shared_ptr<const Tree> now,
                         const WakePipe& events) {
  thread_.start([this, fuse, change = std::move(change), now = std::move(now), &events] {
    try {
      tell(fuse, change, *now);
    } catch (const std::exception& error) {
      log_warning(LogEvent::kKernelCacheStale,
                  "the kernel may show some of the former files for a while: {}", error.what());
    }
    events.post(Event::kToldKernel);
  });
}

void KernelCaches::tell(int fuse, const TreeChange& change, const Tree& now) const {
  std::unordered_set<std::string> known;
  for (const KnownName& name : change.names) {
    if (stopping_) return;
    known.insert(key_of(name.directory, name.name));
    const Node* const node = now.lookup(name.directory, name.name);
    if (node != nullptr && node->inode == name.inode) continue;
    forget_name(fuse, name.directory, name.name);
  }
  // The kernel also keeps that a name does not exist.
  if (change.is_replaced) {
    now.for_each([&](const Node& node) {
      if (stopping_ || node.inode == kRootInode) return;
      if (!known.contains(key_of(node.parent, node.name))) {
        forget_name(fuse, node.parent, node.name);
      }
    });
  }
  for (const KnownName& name : change.names) {
    if (stopping_) return;
    if (name.is_directory || change.has_lost) forget(fuse, name.inode, Forget::kAll);
  }
  now.for_each([&](const Node& node) {
    if (stopping_) return;
    forget(fuse, node.inode, node.is_directory() ? Forget::kAll : Forget::kAttributes);
  });
}

bool KernelCaches::stop(std::chrono::milliseconds limit) noexcept {
  stopping_ = true;
  return thread_.ends_within(limit);
}

}  // namespace reshardfs
