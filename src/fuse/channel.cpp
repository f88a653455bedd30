// SPDX-License-Identifier: Apache-2.0
#include "fuse/channel.h"

#include <linux/fuse.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "fuse/served_tree.h"

namespace reshardfs {
namespace {

/// How many passes of its channel the thread has; a process has one channel that answers.
thread_local unsigned passes = 0;

/// A structure from `bytes`, with zeros for what is missing.
template <typename Struct>
Struct as(std::string_view bytes) {
  Struct value{};
  bytes.copy(reinterpret_cast<char*>(&value), sizeof value);
  return value;
}

fuse_init_out answer_in(const std::string& reply) {
  return as<fuse_init_out>(std::string_view(reply).substr(sizeof(fuse_out_header)));
}

/// What the kernel says of itself with INIT without asking for consent: FUSE_HAS_IOCTL_DIR and
/// FUSE_INIT_EXT; FUSE_HAS_EXPIRE_ONLY and FUSE_HAS_RESEND, which are bits 35 and 39 of both words.
constexpr std::uint32_t kTold = FUSE_HAS_IOCTL_DIR | FUSE_INIT_EXT;
constexpr std::uint32_t kTold2 = 1U << 3 | 1U << 7;

/// The kernel's INIT, with the features alone that it was promised: others are off for good,
/// however much this program would like them.
std::string as_agreed(const Negotiation& before) {
  const fuse_init_out agreed = answer_in(before.reply);
  std::string request = before.request;
  const auto mask = [&](std::size_t field, std::uint32_t kept) {
    const std::size_t at = sizeof(fuse_in_header) + field;
    if (at + sizeof kept > request.size()) return;
    std::uint32_t flags = 0;
    std::memcpy(&flags, request.data() + at, sizeof flags);
    flags &= kept;
    std::memcpy(request.data() + at, &flags, sizeof flags);
  };
  mask(offsetof(fuse_init_in, flags), agreed.flags | kTold);
  mask(offsetof(fuse_init_in, flags2), agreed.flags2 | kTold2);
  return request;
}

/// In what the kernel would see another file system than the one that it has been told of. What is
/// a mere wish (how many requests may be under way) does not matter.
std::string difference(const std::string& before, const std::string& now) {
  if (now.size() < sizeof(fuse_out_header) || as<fuse_out_header>(now).error != 0) {
    return "the connection's parameters are refused";
  }
  const fuse_init_out old = answer_in(before);
  const fuse_init_out own = answer_in(now);
  if (old.flags != own.flags || old.flags2 != own.flags2) {
    return fmt::format("the kernel was promised the features {:#x} and {:#x}, not {:#x} and {:#x}",
                       old.flags, old.flags2, own.flags, own.flags2);
  }
  if (old.max_write != own.max_write || old.max_pages != own.max_pages) {
    return fmt::format("the kernel was promised requests of {} bytes, not of {}", old.max_write,
                       own.max_write);
  }
  if (old.minor != own.minor || old.map_alignment != own.map_alignment) {
    return fmt::format("the kernel was promised version {} of the protocol, not {}", old.minor,
                       own.minor);
  }
  return "";
}

}  // namespace

Channel::Pass::Pass(Channel& channel) noexcept : channel_(channel) {
  if (passes++ == 0) channel_.answering_.lock_shared();
}

Channel::Pass::~Pass() {
  if (--passes == 0) channel_.answering_.unlock_shared();
}

bool Channel::Pass::is_open() const noexcept {
  return !channel_.closed_;
}

Channel::Channel() : table_(std::make_unique<RequestTable>()) {}

void Channel::connect(fuse_session* session, int device) {
  fuse_custom_io io{};
  io.read = read;
  io.writev = write;
  const int error = fuse_session_custom_io(session, &io, device);
  if (error != 0) throw io_error("use the mount's descriptor", "/dev/fuse", -error);
}

void Channel::use_table(Descriptor memory) {
  table_ = std::make_unique<RequestTable>(std::move(memory));
}

// --- requests ------------------------------------------------------------------------------------

ssize_t Channel::read(int device, void* buffer, std::size_t size, void* served) noexcept {
  return static_cast<ServedTree*>(served)->channel.receive(device, buffer, size);
}

ssize_t Channel::receive(int device, void* buffer, std::size_t size) noexcept {
  const ssize_t got = table_->receive(device, buffer, size);
  if (got <= 0 || negotiation_.is_done()) return got;
  try {
    note_init(static_cast<const char*>(buffer), static_cast<std::size_t>(got));
  } catch (const std::exception&) {
    // No memory: the mount lives, and cannot be handed over.
  }
  return got;
}

void Channel::note_init(const char* request, std::size_t size) {
  const std::string_view bytes(request, size);
  const auto header = as<fuse_in_header>(bytes);
  if (header.opcode != FUSE_INIT) return;
  negotiation_.request = bytes;
  init_unique_ = header.unique;
}

// --- answers -------------------------------------------------------------------------------------

ssize_t Channel::write(int device, iovec* pieces, int count, void* served) noexcept {
  return static_cast<ServedTree*>(served)->channel.send(device, pieces, count);
}

ssize_t Channel::send(int device, const iovec* pieces, int count) noexcept {
  const std::span all(pieces, static_cast<std::size_t>(count));
  fuse_out_header header{};
  std::memcpy(&header, all.front().iov_base, sizeof header);
  if (init_unique_ && header.unique == *init_unique_) {
    init_unique_.reset();
    try {
      for (const iovec& piece : all) {
        negotiation_.reply.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
      }
    } catch (const std::exception&) {
      negotiation_.reply.clear();  // as above
    }
    if (replaying_) return static_cast<ssize_t>(header.len);
  }
  const Pass pass(*this);
  if (!pass.is_open()) {
    errno = ENOENT;
    return -1;
  }
  const ssize_t sent = ::writev(device, pieces, count);
  const int error = errno;
  table_->answered(header.unique);
  errno = error;
  return sent;
}

void Channel::close() noexcept {
  const std::unique_lock lock(answering_);
  closed_ = true;
}

void Channel::open() noexcept {
  const std::unique_lock lock(answering_);
  closed_ = false;
}

// --- a connection that there was before ----------------------------------------------------------

std::string Channel::replay(fuse_session* session, const Negotiation& before) {
  std::string request = as_agreed(before);
  negotiation_ = {};
  note_init(request.data(), request.size());
  replaying_ = true;
  fuse_buf buffer{};
  buffer.mem = request.data();
  buffer.size = request.size();
  fuse_session_process_buf(session, &buffer);
  replaying_ = false;
  std::string found = difference(before.reply, negotiation_.reply);
  // The earlier answer to the kernel remains valid.
  negotiation_ = before;
  return found;
}

}  // namespace reshardfs
