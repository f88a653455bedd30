// SPDX-License-Identifier: Apache-2.0
/// The input as requests of the FUSE protocol to one session that lives as long as the program:
/// several under way at once, each with one reply of the right form. Their numbers, callers and
/// order are a kernel's; everything else may be anything.
#include <linux/fuse.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <spdlog/spdlog.h>

#include "fuzz/fuzzing.h"
#include "protocol/fake_kernel.h"
#include "protocol/protocol_session.h"
#include "protocol/test_tree.h"
#include "vfs/inode_number.h"

namespace reshardfs::fuzz {
namespace {

using namespace testing_protocol;

/// How many requests of one input may be under way at once.
constexpr std::size_t kUnderWay = 24;

struct LongLived {
  LongLived() {
    spdlog::set_level(spdlog::level::off);
    session = std::make_unique<ProtocolSession>(tree);
    session->init();
    nodes = {kRootInode, 0, ~std::uint64_t{0}};
    for (const char* name : {"dir", "changing", "status", "broken", "link", ".hidden"}) {
      nodes.push_back(session->kernel().lookup(kRootInode, name));
    }
    for (std::size_t i = 0; i < kFileBytes.size(); ++i) {
      nodes.push_back(session->kernel().lookup(nodes[3], std::to_string(i)));
    }
  }

  TestTree tree;
  std::unique_ptr<ProtocolSession> session;
  std::vector<std::uint64_t> nodes;
};

LongLived& long_lived() {
  static LongLived all;
  return all;
}

/// DESTROY is a session's last request, and NOTIFY_REPLY the answer to a question that is not
/// asked: libfuse keeps it for ever. Openings must be known, so that they can be closed, and
/// interrupts too.
bool is_left_out(std::uint32_t opcode) {
  return opcode == FUSE_DESTROY || opcode == FUSE_NOTIFY_REPLY || opcode == FUSE_OPEN ||
         opcode == FUSE_OPENDIR || opcode == FUSE_INTERRUPT;
}

/// Small ones, those near powers of two, and any.
std::uint64_t number(Numbers& input) {
  switch (input.pick(0, 3)) {
    case 0:
      return input.byte();
    case 1:
      return (std::uint64_t{1} << (input.byte() % 64U)) + input.byte() - 128U;
    case 2:
      return static_cast<std::uint64_t>(input.pick(0, 0xffffff));
    default:
      return static_cast<std::uint64_t>(input.pick(0, 0xffff'ffff)) << 32U |
             static_cast<std::uint64_t>(input.pick(0, 0xffff'ffff));
  }
}

std::string text(Numbers& input, std::size_t most) {
  std::string bytes(static_cast<std::size_t>(input.pick(0, static_cast<std::int64_t>(most))), '\0');
  for (char& byte : bytes) byte = static_cast<char>(input.byte());
  return bytes;
}

std::string name(Numbers& input) {
  constexpr std::array<const char*, 8> kNames = {
      "dir", "5", "status", "changing", "user.reshardfs.sources", "user.reshardfs.sha256", ".", ""};
  if (input.one_in(3)) return text(input, 300) + '\0';
  return name_body(kNames[static_cast<std::size_t>(input.pick(0, kNames.size() - 1))]);
}

class Sequence {
 public:
  explicit Sequence(Numbers& input) : input_(input) {}

  void run() {
    while (!input_.ended()) {
      send_one();
      if (kernel().pending() >= kUnderWay) settle();
    }
    settle();
    // What the input has opened and not closed would else be there for ever.
    for (const auto& [release, inode, handle] : openings_) {
      kernel().send(release, inode, release_body(handle));
    }
    settle();
  }

 private:
  struct Opening {
    std::uint32_t release = 0;
    std::uint64_t inode = 0;
    std::uint64_t handle = 0;
  };

  FakeKernel& kernel() { return long_lived().session->kernel(); }

  void settle() {
    if (!kernel().settle()) fail("no reply to" + kernel().unanswered());
    while (kernel().take_any(Milliseconds(0))) {
    }
    if (!kernel().problems().empty()) fail(kernel().problems().front());
  }

  std::uint64_t node() {
    const auto& nodes = long_lived().nodes;
    const auto at = static_cast<std::size_t>(input_.pick(0, static_cast<int>(nodes.size())));
    return at < nodes.size() ? nodes[at] : number(input_);
  }
  std::uint64_t handle() {
    return openings_.empty() || input_.one_in(4) ? number(input_) : openings_.back().handle;
  }
  /// The fuzzer itself has not been killed, so no request is given up.
  pid_t caller() { return input_.one_in(2) ? 0 : ::getpid(); }

  void send(std::uint32_t opcode, std::uint64_t inode, const std::string& body) {
    kernel().send(opcode, inode, body, caller());
  }

  void send_one() {
    switch (input_.pick(0, 11)) {
      case 0:
        return send(FUSE_LOOKUP, node(), name(input_));
      case 1:
        return send(FUSE_READ, node(),
                    read_body(handle(), number(input_),
                              static_cast<std::uint32_t>(number(input_) % 0x2000000)));
      case 2:
        return send(
            input_.one_in(2) ? FUSE_READDIR : FUSE_READDIRPLUS, node(),
            read_body(handle(), number(input_), static_cast<std::uint32_t>(number(input_))));
      case 3:
      case 4:
        return open();
      case 5:
        return release();
      case 6:
        return send(FUSE_GETXATTR, node(),
                    listxattr_body(static_cast<std::uint32_t>(number(input_))) + name(input_));
      case 7:
        return send(FUSE_LISTXATTR, node(),
                    listxattr_body(static_cast<std::uint32_t>(number(input_))));
      case 8:
        return forget();
      case 9:
        return kernel().interrupt((kernel().next_unique() + 8 - 2 * input_.byte()) & ~1ULL,
                                  caller());
      default:
        return send_any();
    }
  }

  void open() {
    const bool directory = input_.one_in(2);
    const std::uint64_t inode = node();
    const testing_protocol::Reply reply =
        kernel().call(directory ? FUSE_OPENDIR : FUSE_OPEN, inode,
                      open_body(input_.one_in(4) ? input_.byte() : 0U), caller());
    if (reply.error != 0) return;
    openings_.push_back(
        {directory ? FUSE_RELEASEDIR : FUSE_RELEASE, inode, as<fuse_open_out>(reply.body).fh});
  }

  void release() {
    if (openings_.empty() || input_.one_in(3)) {
      return send(input_.one_in(2) ? FUSE_RELEASEDIR : FUSE_RELEASE, node(),
                  release_body(number(input_)));
    }
    const Opening last = openings_.back();
    openings_.pop_back();
    send(last.release, last.inode, release_body(last.handle));
  }

  void forget() {
    if (input_.one_in(2)) {
      send(FUSE_FORGET, node(), bytes_of(fuse_forget_in{.nlookup = number(input_)}));
    } else {
      const auto count = static_cast<std::uint32_t>(number(input_));
      send(FUSE_BATCH_FORGET, node(),
           bytes_of(fuse_batch_forget_in{.count = count, .dummy = 0}) + text(input_, 64));
    }
  }

  /// Any opcode with any body.
  void send_any() {
    const auto opcode =
        input_.one_in(4) ? static_cast<std::uint32_t>(number(input_)) : input_.byte() % 60U;
    if (is_left_out(opcode)) return;
    send(opcode, node(), text(input_, 255));
  }

  Numbers& input_;
  std::vector<Opening> openings_;
};

}  // namespace
}  // namespace reshardfs::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace reshardfs::fuzz;
  Numbers input(data, size);
  Sequence(input).run();
  const auto nothing_is_held = [] {
    const auto& tree = long_lived().tree;
    return tree.held_snapshots() == 0 && tree.held_trees() == 0;
  };
  require(reshardfs::testing_mount::eventually(nothing_is_held), "openings are not let go of");
  return 0;
}
