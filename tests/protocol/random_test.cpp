// SPDX-License-Identifier: Apache-2.0
/// Very many requests in random order, several under way at once: one reply for each, and the right
/// bytes. RESHARDFS_PROTOCOL_SEED and RESHARDFS_PROTOCOL_REQUESTS repeat or prolong a run.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <random>

#include "fuse/opening_table.h"
#include "protocol/protocol_test.h"

namespace reshardfs::testing_protocol {
namespace {

using testing_mount::is_pattern;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class ProtocolRandom : public ProtocolTest {
 protected:
  struct Read {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  ///< that must come
  };
  struct Opening {
    std::uint32_t release = 0;
    std::uint64_t inode = 0;
  };

  std::uint64_t pick(std::uint64_t below) { return random() % below; }
  std::uint64_t any_node() {
    return pick(20) == 0 ? random() : nodes[static_cast<std::size_t>(pick(nodes.size()))];
  }
  std::uint64_t any_handle() { return pick(10) == 0 ? random() : pick(50); }
  pid_t any_caller() { return pick(2) == 0 ? 0 : ::getpid(); }

  void send_read() {
    const std::size_t i = pick(files.size());
    const std::uint64_t end = kFileBytes[i];
    const std::uint64_t offset = pick(16) == 0 ? random() : pick(end + 5000);
    const auto size = static_cast<std::uint32_t>(pick(100) == 0 ? 1U << 20U : pick(9000));
    const std::uint64_t left = offset < end ? end - offset : 0;
    // What has no bytes may be a text that an opening holds: without one nothing is known of it.
    if (end == 0 || pick(4) == 0) {
      const std::uint64_t wild = opening_handle(any_handle(), true);
      errors[kernel().send(FUSE_READ, files[i], read_body(wild, offset, size), any_caller())] =
          ESTALE;
      return;
    }
    // No opening of these files has contents of its own.
    reads[kernel().send(FUSE_READ, files[i], read_body(0, offset, size), any_caller())] = {
        offset, std::min<std::uint64_t>(left, size)};
  }
  void send_open() {
    const bool directory = pick(2) == 0;
    const std::uint64_t inode = any_node();
    opens[kernel().send(directory ? FUSE_OPENDIR : FUSE_OPEN, inode,
                        open_body(pick(4) == 0 ? O_RDWR : O_RDONLY))] = {
        directory ? FUSE_RELEASEDIR : FUSE_RELEASE, inode};
  }
  void send_release() {
    if (handles.empty()) return;
    const auto one = handles.begin();
    kernel().send(one->second.release, one->second.inode, release_body(one->first));
    handles.erase(one);
  }
  void send_write() {
    constexpr std::array<std::uint32_t, 6> kWrites = {FUSE_WRITE,  FUSE_SETATTR,   FUSE_UNLINK,
                                                      FUSE_CREATE, FUSE_FALLOCATE, FUSE_RENAME};
    const std::uint64_t unique =
        kernel().send(kWrites[pick(kWrites.size())], any_node(), std::string(100, 'x') + '\0');
    errors[unique] = EROFS;
  }
  void send_forget() {
    if (pick(2) == 0) {
      kernel().send(FUSE_FORGET, any_node(), bytes_of(fuse_forget_in{.nlookup = random()}));
    } else {
      kernel().send(FUSE_BATCH_FORGET, 0,
                    bytes_of(fuse_batch_forget_in{.count = static_cast<std::uint32_t>(random()),
                                                  .dummy = 0}));
    }
  }
  void send_lookup() {
    constexpr std::array<const char*, 8> kNames = {"dir",     "0", "5",    "status",
                                                   ".hidden", "",  "none", "link"};
    kernel().send(FUSE_LOOKUP, any_node(), name_body(kNames[pick(kNames.size())]));
  }
  void send_any() {
    const std::uint64_t inode = any_node();
    const auto size = static_cast<std::uint32_t>(pick(8) == 0 ? random() : pick(5000));
    switch (pick(16)) {
      case 0:
      case 1:
      case 2:
        return send_read();
      case 3:
      case 4:
        return send_lookup();
      case 5:
        return send_open();
      case 6:
        return send_release();
      case 7:
        return send_write();
      case 8:
        return send_forget();
      case 9:
        return kernel().interrupt(2 * pick(kernel().next_unique()), any_caller());
      case 10:
        kernel().send(FUSE_GETATTR, inode, bytes_of(fuse_getattr_in{}));
        return;
      case 11:
        kernel().send(pick(2) == 0 ? FUSE_READDIR : FUSE_READDIRPLUS, inode,
                      read_body(any_handle() | 1ULL << 40U, pick(60), size));
        return;
      case 12:
        kernel().send(FUSE_GETXATTR, inode, getxattr_body("user.reshardfs.sources", size));
        return;
      case 13:
        kernel().send(FUSE_LISTXATTR, inode, listxattr_body(size));
        return;
      case 14:
        kernel().send(pick(2) == 0 ? FUSE_READLINK : FUSE_STATFS, inode);
        return;
      default:
        errors[kernel().send(static_cast<std::uint32_t>(pick(2) == 0 ? 100 + pick(3000)
                                                                     : std::uint64_t{FUSE_ACCESS}),
                             inode, std::string(8, '\0'))] = ENOSYS;
        return;
    }
  }

  void check(const Reply& reply) {
    if (const auto read = reads.extract(reply.unique)) {
      const auto [offset, bytes] = read.mapped();
      EXPECT_EQ(reply.error, 0);
      EXPECT_EQ(reply.body.size(), bytes);
      EXPECT_TRUE(is_pattern(reply.body, offset));
    } else if (const auto open = opens.extract(reply.unique)) {
      if (reply.error == 0) {
        handles.emplace(as<fuse_open_out>(reply.body).fh, open.mapped());
      }
    } else if (const auto error = errors.extract(reply.unique)) {
      EXPECT_EQ(reply.error, error.mapped());
    }
  }

  std::mt19937_64 random;
  std::vector<std::uint64_t> nodes;
  std::vector<std::uint64_t> files;
  std::map<std::uint64_t, Read> reads;
  std::map<std::uint64_t, Opening> opens;
  std::map<std::uint64_t, int> errors;
  std::multimap<std::uint64_t, Opening> handles;
};

TEST_F(ProtocolRandom, EachRequestHasOneReply) {
  const std::uint64_t seed = setting("RESHARDFS_PROTOCOL_SEED", std::random_device()());
  const std::uint64_t requests = setting("RESHARDFS_PROTOCOL_REQUESTS", 100000);
  SCOPED_TRACE("RESHARDFS_PROTOCOL_SEED=" + std::to_string(seed));
  random.seed(seed);
  for (std::size_t i = 0; i < kFileBytes.size(); ++i) {
    files.push_back(node("dir", std::to_string(i)));
  }
  nodes = files;
  for (const char* name : {"dir", "changing", "status", "broken", "link", ".hidden"}) {
    nodes.push_back(node(name));
  }
  nodes.push_back(kRootInode);

  const std::uint64_t before = kernel().next_unique();
  while ((kernel().next_unique() - before) / 2 < requests && !HasFailure()) {
    send_any();
    // Between none and many under way.
    while (kernel().pending() > random() % 64) {
      const auto reply = kernel().take_any(kPatience);
      ASSERT_TRUE(reply) << kernel().pending() << " requests have no reply";
      check(*reply);
    }
  }
  ASSERT_TRUE(kernel().settle());
  while (const auto reply = kernel().take_any(Milliseconds(0))) check(*reply);
  while (!handles.empty()) send_release();
  ASSERT_TRUE(kernel().settle());
  EXPECT_TRUE(reads.empty());
  EXPECT_TRUE(opens.empty());
  EXPECT_TRUE(errors.empty());
  EXPECT_EQ(source.open_files(), 0);
  EXPECT_TRUE(holds_snapshots(0));
}

}  // namespace
}  // namespace reshardfs::testing_protocol
