// SPDX-License-Identifier: Apache-2.0
#include "fuse/directory_operations.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

constexpr std::size_t kNameBytes = 255;

/// Runs `then` when the node is known to hold what it holds: at once, but for pending directories.
/// Why one could not be opened is said elsewhere, once, and not for each request.
template <typename Then>
void when_open(fuse_req_t request, const Node& node, const char* operation, Then&& then) {
  if (!node.pending) {
    std::forward<Then>(then)();
    return;
  }
  served(request).opener.submit(node.inode, [request, inode = node.inode, operation,
                                             go_on = std::forward<Then>(then)](int error) {
    if (error != 0) {
      fuse_reply_err(request, error);
    } else {
      answer(request, inode, operation, go_on);
    }
  });
}

// --- lookup ------------------------------------------------------------------------------------

void reply_with_child(fuse_req_t request, fuse_ino_t parent, const std::string& name) {
  TreePtr tree = current_tree(request);
  const Node* directory = find_or_answer(request, *tree, parent);
  if (directory == nullptr) return;
  const double seconds = absence_seconds(*directory);
  const bool changing = directory->changing;
  const Node* node = tree->lookup(parent, name);
  if (changing && node != nullptr) {
    served(request).refresher.request();
  } else if (changing) {
    served(request).refresher.request_and_wait();
    tree = current_tree(request);
    node = tree->lookup(parent, name);
  }
  // Number 0: there is no such name, and the kernel may remember that too.
  const fuse_entry_param nothing{
      .ino = 0, .generation = 0, .attr = {}, .attr_timeout = 0, .entry_timeout = seconds};
  const fuse_entry_param entry = node != nullptr ? entry_of(request, *node) : nothing;
  fuse_reply_entry(request, &entry);
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (std::strlen(name) > kNameBytes) {
    fuse_reply_err(request, ENAMETOOLONG);
    return;
  }
  counters().request(Operation::kLookup);
  answer(request, parent, "lookup", [&] {
    const TreePtr tree = current_tree(request);
    const Node* directory = find_or_answer(request, *tree, parent);
    if (directory == nullptr) return;
    when_open(request, *directory, "lookup", [request, parent, text = std::string(name)] {
      reply_with_child(request, parent, text);
    });
  });
}

void readlink(fuse_req_t request, fuse_ino_t inode) {
  answer(request, inode, "readlink", [&] {
    // A link is read to be followed: to where it leads now.
    served(request).refresher.request_and_wait();
    const TreePtr tree = current_tree(request);
    const Node* node = find_or_answer(request, *tree, inode);
    if (node == nullptr) return;
    if (node->is_link()) {
      fuse_reply_readlink(request, node->link.data());
    } else {
      fuse_reply_err(request, EINVAL);
    }
  });
}

// --- listings ----------------------------------------------------------------------------------

// A directory that changes is listed in several requests from one generation, which its handle
// holds. Other directories have no state.

void reply_with_handle(fuse_req_t request, fuse_ino_t inode, fuse_file_info info) {
  const TreePtr tree = current_tree(request);
  const Node* node = find_or_answer(request, *tree, inode);
  if (node == nullptr) return;
  OpenListings& listings = served(request).listings;
  info.fh = node->changing ? listings.add(tree) : OpenListings::kNone;
  info.cache_readdir = node->changing ? 0 : 1;
  info.keep_cache = node->changing ? 0 : 1;
  // Refused if the program has been killed meanwhile; then there will be no releasedir.
  if (fuse_reply_open(request, &info) != 0) listings.remove(info.fh);
}

void opendir(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  answer(request, inode, "opendir", [&] {
    const TreePtr tree = current_tree(request);
    const Node* node = find_or_answer(request, *tree, inode);
    if (node == nullptr) return;
    if (!node->is_directory()) {
      fuse_reply_err(request, ENOTDIR);
      return;
    }
    when_open(request, *node, "opendir",
              [request, inode, handle = *info] { reply_with_handle(request, inode, handle); });
  });
}

void releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  served(request).listings.remove(info->fh);
  fuse_reply_err(request, 0);
}

/// Collects directory entries in the kernel's format, with or without attributes.
class Listing {
 public:
  Listing(fuse_req_t request, std::size_t size, bool with_attributes)
      : request_(request), buffer_(size), with_attributes_(with_attributes) {}

  /// @param next the position after this entry.
  /// @return whether it found room.
  bool add(const char* name, const fuse_entry_param& entry, std::size_t next) {
    const std::span<char> room = std::span(buffer_).subspan(used_);
    const auto position = static_cast<off_t>(next);
    const std::size_t needed =
        with_attributes_
            ? fuse_add_direntry_plus(request_, room.data(), room.size(), name, &entry, position)
            : fuse_add_direntry(request_, room.data(), room.size(), name, &entry.attr, position);
    if (needed > room.size()) return false;
    used_ += needed;
    return true;
  }

  void reply() { fuse_reply_buf(request_, buffer_.data(), used_); }

 private:
  fuse_req_t request_;
  std::vector<char> buffer_;
  std::size_t used_ = 0;
  bool with_attributes_;
};

/// Positions: 0 is ".", 1 is "..", 2 + i is the i-th child. Hidden children have one, too, so that
/// a position means the same entry in every listing.
void list(fuse_req_t request, const Tree& tree, const Node& directory, std::size_t size,
          off_t offset, bool plus) {
  constexpr std::size_t kDots = 2;
  Listing listing(request, size, plus);
  const std::size_t end = kDots + directory.children.size();
  for (auto at = static_cast<std::size_t>(offset); at < end; ++at) {
    const bool dots = at < kDots;
    const Node& node = at == 0   ? directory
                       : at == 1 ? *tree.find(directory.parent)
                                 : *tree.find(directory.children[at - kDots]);
    if (!dots && node.hidden) continue;
    fuse_entry_param entry = entry_of(request, node);
    if (dots) entry.ino = 0;  // no lookup of "." and "..": the kernel has these nodes
    const char* name = at == 0 ? "." : at == 1 ? ".." : node.name.data();
    if (!listing.add(name, entry, at + 1)) break;
  }
  listing.reply();
}

/// The generation to list. A listing that begins (again) is of the newest one.
TreePtr tree_to_list(fuse_req_t request, off_t offset, const fuse_file_info* info) {
  ServedTree& all = served(request);
  TreePtr held = all.listings.find(info->fh);
  if (held == nullptr) return all.source.current();
  if (offset == 0) {
    all.refresher.request_and_wait();
    held = all.source.current();
    all.listings.replace(info->fh, held);
  }
  return held;
}

void list(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
          const fuse_file_info* info, bool plus) {
  counters().request(Operation::kReaddir);
  const TreePtr tree = tree_to_list(request, offset, info);
  const Node* directory = find_or_answer(request, *tree, inode);
  if (directory == nullptr) return;
  if (!directory->is_directory()) {
    fuse_reply_err(request, ENOTDIR);
    return;
  }
  list(request, *tree, *directory, std::min(size, kRequestBytes), offset, plus);
}

void readdir(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
             fuse_file_info* info) {
  answer(request, inode, "readdir", [&] { list(request, inode, size, offset, info, false); });
}

void readdirplus(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
                 fuse_file_info* info) {
  answer(request, inode, "readdir", [&] { list(request, inode, size, offset, info, true); });
}

}  // namespace

void add_directory_operations(fuse_lowlevel_ops& ops) {
  ops.lookup = lookup;
  ops.readlink = readlink;
  ops.opendir = opendir;
  ops.readdir = readdir;
  ops.readdirplus = readdirplus;
  ops.releasedir = releasedir;
}

}  // namespace reshardfs
