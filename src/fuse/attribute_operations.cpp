// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process/counters.h"
#include "fuse/operations.h"
#include "fuse/request.h"

namespace reshardfs {
namespace {

/// The kernel's XATTR_SIZE_MAX.
constexpr std::size_t kMaxAttributeBytes = 65536;
constexpr std::string_view kAttributePrefix = "user.reshardfs.";

/// @param size bytes that the program has room for; 0: it asks how many there are.
Reply attribute(const VirtualFile& file, std::string_view name, std::size_t size) {
  std::optional<std::string> value = file.attribute(name);
  if (!value) return Reply::error(ENODATA);
  // What the kernel itself says of a value that no attribute can hold. ERANGE would send programs
  // to look for a larger buffer.
  if (value->size() > kMaxAttributeBytes) return Reply::error(E2BIG);
  if (size == 0) return Reply::data_size(value->size());
  if (size < value->size()) return Reply::error(ERANGE);
  return Reply::data(std::move(*value));
}

}  // namespace

namespace ops {

void getxattr(fuse_req_t request, fuse_ino_t inode, const char* full_name,
              std::size_t size) noexcept {
  counters().request(Operation::kGetxattr);
  // The kernel asks for security.capability and the like at every turn.
  std::string_view name(full_name);
  if (!name.starts_with(kAttributePrefix)) {
    fuse_reply_err(request, ENODATA);
    return;
  }
  name.remove_prefix(kAttributePrefix.size());
  const TreePtr tree = served(request).source.current();
  const Node* node = tree->find(inode);
  if (node == nullptr || node->file == nullptr) {
    fuse_reply_err(request, node == nullptr ? ESTALE : ENODATA);
    return;
  }
  try {
    const std::vector<std::string> listed = node->file->attribute_names();
    const bool cheap = std::find(listed.begin(), listed.end(), name) != listed.end();
    auto make = [file = node->file, text = std::string(name), size] {
      return attribute(*file, text, size);
    };
    answer_in_turn(request, inode, "getxattr", cheap ? WaitClass::kMade : WaitClass::kAttribute,
                   std::move(make));
  } catch (...) {
    answer_failure(request, {inode, "getxattr", Asker::of(request)});
  }
}

void listxattr(fuse_req_t request, fuse_ino_t inode, std::size_t size) noexcept {
  answer(request, inode, "listxattr", [&] {
    const TreePtr tree = served(request).source.current();
    const Node* node = tree->find(inode);
    if (node == nullptr) return Reply::error(ESTALE);
    std::string names;
    if (node->file != nullptr) {
      for (const std::string& name : node->file->attribute_names()) {
        names.append(kAttributePrefix).append(name).push_back('\0');
      }
    }
    if (size == 0) return Reply::data_size(names.size());
    if (size < names.size()) return Reply::error(ERANGE);
    return Reply::data(std::move(names));
  });
}

}  // namespace ops
}  // namespace reshardfs
