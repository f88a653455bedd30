// SPDX-License-Identifier: Apache-2.0
#include "fuse/read_operations.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "fuse/operations.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

using std::chrono::steady_clock;

/// The kernel's XATTR_SIZE_MAX.
constexpr std::size_t kMaxAttributeBytes = 65536;
constexpr std::string_view kAttributePrefix = "user.reshardfs.";

void reply_error(KillableRequest& request, int error) noexcept {
  if (fuse_req_t claimed = request.claim()) fuse_reply_err(claimed, error);
}

/// Hands a request over to those who may run it. It has been watched: only they may answer it now.
/// @return 0, or an errno if there is no memory to queue it; then it has been answered.
template <typename Scheduler, typename Request>
int submit(ServedTree& served, Scheduler& scheduler, const Request& request,
           const char* operation) noexcept {
  try {
    scheduler.submit(request);
    return 0;
  } catch (...) {
    const int error = errno_of_current_exception();
    log_failure(served, request.inode, operation);
    reply_error(*request.request, error);
    return error;
  }
}

void count_end(const ReadRequest& read, int error) noexcept {
  const auto took = steady_clock::now() - read.arrived;
  if (error == 0) {
    counters().read_done(took);
  } else {
    counters().read_failed(error, took);
  }
}

// --- read --------------------------------------------------------------------------------------

/// Answers with all bytes that the file has in the range, or tells or throws which error is to be
/// the answer: the kernel would take fewer bytes for the end of the file and shrink it.
/// @return 0 or an errno.
int reply_with_bytes(ServedTree& served, const ReadRequest& read) {
  if (read.request->is_over()) return EINTR;
  const TreePtr tree = served.source.current();
  const Node* node = tree->find(read.inode);
  if (node == nullptr) return ESTALE;
  if (node->file == nullptr) return EISDIR;
  const VirtualFile& file = read.snapshot != nullptr ? *read.snapshot : *node->file;
  const std::uint64_t file_size = read.snapshot != nullptr ? file.size() : node->size;
  const std::uint64_t left = file_size - std::min(file_size, read.offset);
  const std::uint64_t size = std::min<std::uint64_t>(read.size, left);
  if (size == 0) {
    if (fuse_req_t request = read.request->claim()) fuse_reply_buf(request, nullptr, 0);
    return 0;
  }
  const BufferPool::Lease lease = served.buffers.take(size);
  file.read_at(read.offset, lease.bytes());
  fuse_req_t request = read.request->claim();
  if (request == nullptr) return EINTR;
  counters().read_delivers(size);
  fuse_reply_buf(request, reinterpret_cast<const char*>(lease.bytes().data()), size);
  return 0;
}

void read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
          fuse_file_info* info) {
  counters().request(Operation::kRead);
  if (size > kAbsurdBytes) {
    fuse_reply_err(request, EINVAL);  // rather than make room for it
    return;
  }
  answer(request, inode, "read", [&] {
    ServedTree& tree = served(request);
    const ReadRequest read{.request = KillableRequest::watch(request, is_killed, tree.kill_watch),
                           .inode = inode,
                           .snapshot = tree.snapshots.find(info->fh),
                           .offset = static_cast<std::uint64_t>(offset),
                           .size = size,
                           .arrived = steady_clock::now()};
    counters().read_began();
    const int error = submit(tree, tree.reads, read, "read");
    if (error != 0) count_end(read, error);
  });
}

// --- extended attributes -----------------------------------------------------------------------

/// Answers, or throws before.
void reply_with_attribute(ServedTree& served, const AttributeRequest& query) {
  if (query.request->is_over()) return;
  const TreePtr tree = served.source.current();
  const Node* node = tree->find(query.inode);
  if (node == nullptr || node->file == nullptr) return reply_error(*query.request, ESTALE);
  const std::optional<std::string> value = node->file->attribute(query.name);
  if (!value) return reply_error(*query.request, ENODATA);
  // What the kernel itself says of a value that no attribute can hold. ERANGE would send programs
  // to look for a larger buffer.
  if (value->size() > kMaxAttributeBytes) return reply_error(*query.request, E2BIG);
  if (query.size != 0 && query.size < value->size()) return reply_error(*query.request, ERANGE);
  fuse_req_t request = query.request->claim();
  if (request == nullptr) return;
  if (query.size == 0) {
    fuse_reply_xattr(request, value->size());
  } else {
    fuse_reply_buf(request, value->data(), value->size());
  }
}

void getxattr(fuse_req_t request, fuse_ino_t inode, const char* full_name, std::size_t size) {
  counters().request(Operation::kGetxattr);
  // The kernel asks for security.capability and the like at every turn.
  std::string_view name(full_name);
  if (!name.starts_with(kAttributePrefix)) {
    fuse_reply_err(request, ENODATA);
    return;
  }
  name.remove_prefix(kAttributePrefix.size());
  answer(request, inode, "getxattr", [&] {
    const TreePtr tree = current_tree(request);
    const Node* node = find_or_answer(request, *tree, inode);
    if (node == nullptr) return;
    if (node->file == nullptr) {
      fuse_reply_err(request, ENODATA);
      return;
    }
    ServedTree& all = served(request);
    const std::vector<std::string> listed = node->file->attribute_names();
    const bool cheap = std::find(listed.begin(), listed.end(), name) != listed.end();
    std::string text(name);
    const AttributeRequest query{
        .request = KillableRequest::watch(request, is_killed, all.kill_watch),
        .inode = inode,
        .name = std::move(text),
        .size = size};
    submit(all, cheap ? all.cheap_attributes : all.costly_attributes, query, "getxattr");
  });
}

void listxattr(fuse_req_t request, fuse_ino_t inode, std::size_t size) {
  answer(request, inode, "listxattr", [&] {
    const TreePtr tree = current_tree(request);
    const Node* node = find_or_answer(request, *tree, inode);
    if (node == nullptr) return;
    std::string names;
    if (node->file != nullptr) {
      for (const std::string& name : node->file->attribute_names()) {
        names.append(kAttributePrefix).append(name).push_back('\0');
      }
    }
    if (size == 0) {
      fuse_reply_xattr(request, names.size());
    } else if (size < names.size()) {
      fuse_reply_err(request, ERANGE);
    } else {
      fuse_reply_buf(request, names.data(), names.size());
    }
  });
}

}  // namespace

void run_read(ServedTree& served, const ReadRequest& read) noexcept {
  int error = 0;
  try {
    error = reply_with_bytes(served, read);
  } catch (...) {
    error = errno_of_current_exception();
    log_failure(served, read.inode, "read");
  }
  count_end(read, error);
  // Last: who gets an error finds it in the log and in the counters.
  if (error != 0) reply_error(*read.request, error);
}

void run_getxattr(ServedTree& served, const AttributeRequest& query) noexcept {
  try {
    reply_with_attribute(served, query);
  } catch (...) {
    const int error = errno_of_current_exception();
    log_failure(served, query.inode, "getxattr");
    reply_error(*query.request, error);
  }
}

void add_read_operations(fuse_lowlevel_ops& ops) {
  ops.read = read;
  ops.getxattr = getxattr;
  ops.listxattr = listxattr;
}

}  // namespace reshardfs
