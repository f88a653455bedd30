// SPDX-License-Identifier: Apache-2.0
#include "fuse/reply.h"

namespace reshardfs {

void Reply::send(fuse_req_t request) noexcept {
  std::visit([request](auto& value) { send(request, value); }, value_);
}

void Reply::send(fuse_req_t request, const Error& error) noexcept {
  fuse_reply_err(request, error.number);
}

void Reply::send(fuse_req_t request, Bytes& bytes) noexcept {
  const std::span<std::byte> data = bytes.lease.bytes();
  // First: who has the bytes shall find them counted.
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
  // Refused if the program has been killed meanwhile.
  if (fuse_reply_open(request, &opened.info) == 0) opened.undo.forget();
}

}  // namespace reshardfs
