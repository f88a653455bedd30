// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/process/counters.h"
#include "fuse/attributes.h"
#include "fuse/operations.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

constexpr std::size_t kNameBytes = 255;

/// Finds out what a pending directory holds, and makes what a deferred one does. Why that cannot be
/// done is said elsewhere, once, and not for each request.
/// @return 0 or an errno.
int open_directory(TreeSource& source, InodeNumber inode) noexcept {
  try {
    source.open_directory(inode);
    static_cast<void>(source.current()->open(inode));
    return 0;
  } catch (...) {
    return errno_of_current_exception();
  }
}

/// Answers with what `make` returns, as soon as the node, of `tree`, is known to hold what it
/// holds.
template <typename Make>
void answer_when_open(fuse_req_t request, const Node& node, const char* operation,
                      Make make) noexcept {
  if (!node.must_open()) return answer(request, node.inode, operation, make);
  ServedTree& all = served(request);
  answer_in_turn(request, node.inode, operation, WaitClass::kDirectory,
                 [&all, inode = node.inode, make = std::move(make)]() mutable {
                   const int error = open_directory(all.source, inode);
                   return error != 0 ? Reply::error(error) : make();
                 });
}

/// The same for a node that the present generation lacks: it may be known again.
template <typename Make>
void answer_when_reopened(fuse_req_t request, InodeNumber inode, const char* operation,
                          Make make) noexcept {
  ServedTree& all = served(request);
  if (!all.source.can_reopen(inode)) {
    fuse_reply_err(request, ESTALE);
    return;
  }
  answer_in_turn(request, inode, operation, WaitClass::kDirectory,
                 [&all, inode, make = std::move(make)]() mutable {
                   const int error = open_directory(all.source, inode);
                   // Under the path there may be another one now, which the kernel then looks for.
                   if (error != 0) return Reply::error(error == ENOENT ? ESTALE : error);
                   return make();
                 });
}

fuse_entry_param entry_of(const Node& node, const struct stat& stat) noexcept {
  fuse_entry_param entry{};
  entry.ino = node.inode;
  entry.generation = 1;
  entry.attr = stat;
  entry.attr_timeout = node_seconds(node);
  entry.entry_timeout = node_seconds(node);
  return entry;
}

// --- names -------------------------------------------------------------------------------------

Reply child(ServedTree& all, InodeNumber parent, const std::string& name) {
  const TreePtr tree = all.source.current();
  const Node* directory = tree->find(parent);
  // If the kernel forgot it meanwhile, it walks the path again.
  if (directory == nullptr || directory->pending) return Reply::error(ESTALE);
  const Node* node = tree->lookup(parent, name);
  if (node != nullptr) return Reply::entry(entry_of(*node, attributes(*node, all.options)));
  // Number 0: there is no such name, and the kernel may remember that too.
  return Reply::entry({.ino = 0,
                       .generation = 0,
                       .attr = {},
                       .attr_timeout = 0,
                       .entry_timeout = absence_seconds(*directory)});
}

/// What a lookup waits for before child() can answer.
std::optional<WaitClass> wait_for(ServedTree& all, const Tree& tree, const Node& directory,
                                  const char* name) {
  const Node* node = tree.lookup(directory.inode, name);
  if (node == nullptr) {
    return directory.changing ? std::optional(WaitClass::kLook) : std::nullopt;
  }
  if (directory.changing) all.refresher.request();
  return has_size_to_make(*node) ? std::optional(WaitClass::kMade) : std::nullopt;
}

// --- listings ----------------------------------------------------------------------------------

// A directory that changes is listed in several requests from one generation, which its handle
// holds; of other directories the table of openings knows of which tree they are.

void end_listing(ServedTree& all, OpeningHandle handle, std::uint64_t tree) noexcept {
  if (holds_something(handle)) return all.listings.remove(handle);
  all.source.closed(tree);
}

/// @param info of the request. @param request its number.
Reply open_listing(ServedTree& all, InodeNumber inode, fuse_file_info info, std::uint64_t request) {
  const TreePtr tree = all.source.current();
  const Node* node = tree->find(inode);
  if (node == nullptr) return Reply::error(ESTALE);
  const OpeningHandle handle = opening_handle(request, node->changing);
  info.fh = handle;
  if (node->changing) all.listings.add(handle, tree);
  info.cache_readdir = node->changing ? 0 : 1;
  info.keep_cache = node->changing ? 0 : 1;
  return Reply::opened(info, all.source.tree_of_listing(inode),
                       [&all, handle](Reply::Outcome outcome) {
                         if (!holds_something(handle)) return;
                         if (outcome == Reply::Outcome::kNot) all.listings.remove(handle);
                         if (outcome == Reply::Outcome::kOpen) all.listings.confirm(handle);
                       });
}

/// Collects directory entries in the kernel's format, with or without attributes.
class Listing {
 public:
  /// @param size the largest number of bytes. Most directories need a small part of the kernel's
  ///        room, so memory grows with the entries.
  Listing(std::size_t size, bool with_attributes)
      : size_(size), with_attributes_(with_attributes) {}

  /// @param next the position after this entry.
  /// @return whether it found room.
  bool add(const char* name, const fuse_entry_param& entry, std::size_t next) {
    const std::size_t used = buffer_.size();
    const std::size_t needed = put(nullptr, 0, name, entry, next);
    if (needed > size_ - used) return false;
    buffer_.resize(used + needed);
    put(buffer_.data() + used, needed, name, entry, next);
    return true;
  }

  Reply reply() && { return Reply::data(std::move(buffer_)); }

 private:
  /// @param room nullptr if only the size is asked for.
  /// @return the size of the entry. libfuse wants to know nothing of the request here: it may be
  ///         another thread's by now.
  std::size_t put(char* room, std::size_t left, const char* name, const fuse_entry_param& entry,
                  std::size_t next) const {
    const auto position = static_cast<off_t>(next);
    return with_attributes_ ? fuse_add_direntry_plus(nullptr, room, left, name, &entry, position)
                            : fuse_add_direntry(nullptr, room, left, name, &entry.attr, position);
  }

  std::string buffer_;
  std::size_t size_;
  bool with_attributes_;
};

/// A part of a listing that a request asks for.
struct ListingRequest {
  InodeNumber directory = 0;
  std::size_t size = 0;      ///< bytes
  std::size_t position = 0;  ///< 0 is ".", 1 is "..", 2 + i is the i-th child
  bool plus = false;         ///< with attributes
  bool is_former = false;    ///< of a tree that is not shown any more
};

/// Hidden children have a position, too, so that one means the same entry in every listing.
Reply list(const ServedTree& all, const Tree& tree, const ListingRequest& part) {
  constexpr std::size_t kDots = 2;
  const Node* directory = tree.open(part.directory);
  if (directory == nullptr || directory->pending) return Reply::error(ESTALE);
  if (!directory->is_directory()) return Reply::error(ENOTDIR);
  Listing listing(std::min(part.size, kRequestBytes), part.plus);
  const std::size_t end = kDots + directory->children.size();
  for (std::size_t at = part.position; at < end; ++at) {
    const bool dots = at < kDots;
    const Node& node = at == 0   ? *directory
                       : at == 1 ? *tree.find(directory->parent)
                                 : *tree.find(directory->children[at - kDots]);
    if (!dots && node.hidden) continue;
    fuse_entry_param entry = entry_of(node, attributes_at_once(node, all.options));
    // No lookup of "." and "..": the kernel has these nodes. It looks up files of unknown size
    // later, and must not keep more former nodes.
    if (dots || part.is_former || has_size_to_make(node)) entry.ino = 0;
    const char* name = at == 0 ? "." : at == 1 ? ".." : node.name.data();
    if (!listing.add(name, entry, at + 1)) break;
  }
  return std::move(listing).reply();
}

void list(fuse_req_t request, ListingRequest part, const fuse_file_info* info) noexcept {
  counters().request(Operation::kReaddir);
  ServedTree& all = served(request);
  const bool holds = holds_something(info->fh);
  const TreePtr held = holds ? all.listings.find(info->fh) : nullptr;
  const std::uint64_t number =
      all.openings->tree_of(info->fh).value_or(all.source.tree_of_listing(part.directory));
  const TreePtr tree = holds ? held : all.source.of_listing(number);
  const Node* const directory = tree == nullptr ? nullptr : tree->find(part.directory);
  if (tree != nullptr && !holds && (directory == nullptr || directory->pending)) {
    return answer_when_reopened(request, part.directory, "readdir",
                                [&all, part] { return list(all, *all.source.current(), part); });
  }
  // If the process that held the listing's generation has crashed, the position in the listing is
  // unknown.
  if (directory == nullptr || (directory->changing && !holds)) {
    fuse_reply_err(request, ESTALE);
    return;
  }
  if (held != nullptr && part.position == 0) {
    // A listing that begins (again) is of the newest generation.
    answer_in_turn(request, part.directory, "readdir", WaitClass::kLook,
                   [&all, part, number = info->fh] {
                     all.refresher.request_and_wait();
                     const TreePtr newest = all.source.current();
                     all.listings.replace(number, newest);
                     return list(all, *newest, part);
                   });
    return;
  }
  part.is_former = !holds && all.source.is_former(number);
  answer(request, part.directory, "readdir", [&] { return list(all, *tree, part); });
}

}  // namespace

namespace ops {

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) noexcept {
  if (std::strlen(name) > kNameBytes) {
    fuse_reply_err(request, ENAMETOOLONG);
    return;
  }
  counters().request(Operation::kLookup);
  ServedTree& all = served(request);
  const TreePtr tree = all.source.current();
  const Node* directory = tree->find(parent);
  try {
    auto make = [&all, parent, text = std::string(name)] { return child(all, parent, text); };
    if (directory == nullptr) {
      return answer_when_reopened(request, parent, "lookup", std::move(make));
    }
    const auto waits =
        directory->must_open() ? std::nullopt : wait_for(all, *tree, *directory, name);
    if (!waits) return answer_when_open(request, *directory, "lookup", std::move(make));
    answer_in_turn(request, parent, "lookup", *waits,
                   [&all, make = std::move(make), looks = *waits == WaitClass::kLook] {
                     if (looks) all.refresher.request_and_wait();
                     return make();
                   });
  } catch (...) {
    answer_failure(request, {parent, "lookup", Asker::of(request)});
  }
}

void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) noexcept {
  counters().request(Operation::kGetattr);
  ServedTree& all = served(request);
  const TreePtr tree = all.source.current();
  const Node* node = tree->find(inode);
  if (node == nullptr) {
    return answer_when_reopened(request, inode, "getattr", [&all, inode] {
      const TreePtr again = all.source.current();
      const Node* const found = again->find(inode);
      if (found == nullptr) return Reply::error(ESTALE);
      return Reply::attributes(attributes(*found, all.options), node_seconds(*found));
    });
  }
  // The work keeps the tree, and so the node.
  auto make = [&all, tree, node] {
    return Reply::attributes(attributes(*node, all.options), node_seconds(*node));
  };
  if (has_size_to_make(*node)) {
    answer_in_turn(request, inode, "getattr", WaitClass::kMade, std::move(make));
  } else {
    answer(request, inode, "getattr", make);
  }
}

void readlink(fuse_req_t request, fuse_ino_t inode) noexcept {
  ServedTree& all = served(request);
  answer_in_turn(request, inode, "readlink", WaitClass::kLook, [&all, inode] {
    all.refresher.request_and_wait();
    const TreePtr tree = all.source.current();
    const Node* node = tree->find(inode);
    if (node == nullptr) return Reply::error(ESTALE);
    return node->is_link() ? Reply::link(std::string(node->link)) : Reply::error(EINVAL);
  });
}

void opendir(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept {
  ServedTree& all = served(request);
  const TreePtr tree = all.source.current();
  const Node* node = tree->find(inode);
  if (node != nullptr && !node->is_directory()) {
    fuse_reply_err(request, ENOTDIR);
    return;
  }
  auto open = [&all, inode, handle = *info, number = request_number()] {
    return open_listing(all, inode, handle, number);
  };
  if (node == nullptr) return answer_when_reopened(request, inode, "opendir", std::move(open));
  answer_when_open(request, *node, "opendir", std::move(open));
}

void releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) noexcept {
  ServedTree& all = served(request);
  const OpeningHandle handle = info->fh;
  if (const auto tree = take_opening(request, handle)) end_listing(all, handle, *tree);
  fuse_reply_err(request, 0);
}

void readdir(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
             fuse_file_info* info) noexcept {
  list(request, {inode, size, static_cast<std::size_t>(offset), false}, info);
}

void readdirplus(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
                 fuse_file_info* info) noexcept {
  list(request, {inode, size, static_cast<std::size_t>(offset), true}, info);
}

}  // namespace ops
}  // namespace reshardfs
