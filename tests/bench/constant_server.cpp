// SPDX-License-Identifier: Apache-2.0
/// constant_server MOUNTPOINT BYTES: a mount with one file, /constant, whose reads are all answered
/// from the same buffer. What a FUSE server reaches that computes nothing: the ceiling of any
/// mount. Runs in the foreground until it is unmounted.
#define FUSE_USE_VERSION 312
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <fuse3/fuse_lowlevel.h>

namespace {

constexpr std::size_t kRequestBytes = 1 << 20;
constexpr fuse_ino_t kFile = 2;
constexpr double kTimeout = 86400;
constexpr const char* kName = "constant";

std::uint64_t file_bytes = 0;
const std::vector<char> content(kRequestBytes, 'x');

struct stat attributes(fuse_ino_t inode) {
  struct stat out {};
  out.st_ino = inode;
  out.st_nlink = 1;
  out.st_mode = inode == kFile ? S_IFREG | 0444 : S_IFDIR | 0555;
  if (inode == kFile) out.st_size = static_cast<off_t>(file_bytes);
  return out;
}

void init(void*, fuse_conn_info* connection) {
  connection->max_read = connection->max_readahead = kRequestBytes;
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_READ);
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (parent != FUSE_ROOT_ID || std::strcmp(name, kName) != 0) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry{};
  entry.ino = kFile;
  entry.attr = attributes(kFile);
  entry.attr_timeout = entry.entry_timeout = kTimeout;
  fuse_reply_entry(request, &entry);
}

void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
  const struct stat found = attributes(inode);
  fuse_reply_attr(request, &found, kTimeout);
}

void open(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  info->keep_cache = 1;
  fuse_reply_open(request, info);
}

void read(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info*) {
  const std::uint64_t left = file_bytes - std::min(file_bytes, static_cast<std::uint64_t>(offset));
  fuse_reply_buf(request, content.data(), std::min({size, left, content.size()}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: constant_server MOUNTPOINT BYTES\n", stderr);
    return 2;
  }
  file_bytes = std::stoull(argv[2]);
  fuse_lowlevel_ops operations{};
  operations.init = init;
  operations.lookup = lookup;
  operations.getattr = getattr;
  operations.open = open;
  operations.read = read;
  std::array<char*, 3> words{argv[0], const_cast<char*>("-o"),
                             const_cast<char*>("ro,fsname=constant,max_read=1048576")};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(words.size()), words.data());
  fuse_session* session = fuse_session_new(&arguments, &operations, sizeof operations, nullptr);
  if (session == nullptr || fuse_session_mount(session, argv[1]) != 0) return 3;
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_session_loop_mt(session, config);
  fuse_loop_cfg_destroy(config);
  fuse_session_unmount(session);
  fuse_session_destroy(session);
  return 0;
}
