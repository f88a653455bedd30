// SPDX-License-Identifier: Apache-2.0
#include "fuse/reply.h"

#include <cerrno>
#include <new>

#include "fuse/served_tree.h"

namespace reshardfs {

void Reply::send(fuse_req_t request) noexcept {
  std::visit([request](auto& value) { send(request, value); }, value_);
}

void Reply::send(fuse_req_t request, const Error& error) noexcept {
  fuse_reply_err(request, error.number);
}

void Reply::send(fuse_req_t request, Bytes& bytes) noexcept {
  const std::span<std::byte> data = bytes.lease.bytes();
  // Before the reply, so that a reader with the bytes finds them counted.
  bytes.tally.delivers(data.size());
  fuse_reply_buf(request, reinterpret_cast<const char*>(data.data()), data.size());
}

void Reply::send(fuse_req_t request, EndOfFile& end) noexcept {
  end.tally.delivers(0);
  fuse_reply_buf(request, nullptr, 0);
}

void Reply::send(fuse_req_t request, const Data& data) noexcept {
  fuse_reply_buf(request, data.data.data(), data.data.size());
}

void Reply::send(fuse_req_t request, const DataSize& size) noexcept {
  fuse_reply_xattr(request, size.bytes);
}

void Reply::send(fuse_req_t request, const fuse_entry_param& entry) noexcept {
  fuse_reply_entry(request, &entry);
}

void Reply::send(fuse_req_t request, const Attributes& attributes) noexcept {
  fuse_reply_attr(request, &attributes.stat, attributes.seconds);
}

void Reply::send(fuse_req_t request, const Link& link) noexcept {
  fuse_reply_readlink(request, link.target.c_str());
}

void Reply::send(fuse_req_t request, const struct statvfs& statistics) noexcept {
  fuse_reply_statfs(request, &statistics);
}

void Reply::send(fuse_req_t request, Opened& opened) noexcept {
  ServedTree& all = *static_cast<ServedTree*>(fuse_req_userdata(request));
  bool is_new = false;
  {
    // In one piece: a successor gets exactly the replies that the kernel got.
    const Channel::Pass pass(all.channel);
    if (!pass.is_open()) {
      fuse_reply_err(request, 0);  // so that libfuse forgets it
      return;
    }
    // Before the kernel knows: a process that is killed between the two leaves it noted.
    try {
      is_new = all.openings->add(opened.info.fh, opened.tree);
    } catch (const std::bad_alloc&) {
      fuse_reply_err(request, ENOMEM);
      return;
    }
    // Refused if the program has been killed meanwhile, or if a process that was killed has
    // answered: then the opening that it has noted counts.
    if (fuse_reply_open(request, &opened.info) != 0) {
      if (is_new) all.openings->remove(opened.info.fh);
      return;
    }
    opened.settling.settle(Outcome::kOpen);
  }
  if (!is_new) opened.settling.settle(Outcome::kWasOpen);
}

}  // namespace reshardfs
