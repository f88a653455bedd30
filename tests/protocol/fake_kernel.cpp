// SPDX-License-Identifier: Apache-2.0
#include "protocol/fake_kernel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <stdexcept>

namespace reshardfs::testing_protocol {
namespace {

using Clock = std::chrono::steady_clock;

using Length = std::uint64_t;
constexpr std::size_t kPieceBytes = std::size_t{64} << 10U;
/// Marks the numbers of INTERRUPT requests, as the kernel does.
constexpr std::uint64_t kInterruptBit = 1;

template <typename Struct>
std::optional<std::uint32_t> size_in(std::string_view body) {
  if (body.size() < sizeof(Struct)) return std::nullopt;
  return as<Struct>(body).size;
}

std::optional<std::uint32_t> asked_size(std::uint32_t opcode, std::string_view body) {
  switch (opcode) {
    case FUSE_GETXATTR:
    case FUSE_LISTXATTR:
      return size_in<fuse_getxattr_in>(body);
    case FUSE_READ:
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
      return size_in<fuse_read_in>(body);
    default:
      return 0;
  }
}

/// Whether a successful reply has the length that the kernel accepts.
bool is_right_length(std::uint32_t opcode, std::uint32_t asked, std::size_t length) {
  switch (opcode) {
    case FUSE_LOOKUP:
      return length == sizeof(fuse_entry_out);
    case FUSE_GETATTR:
      return length == sizeof(fuse_attr_out);
    case FUSE_OPEN:
    case FUSE_OPENDIR:
      return length == sizeof(fuse_open_out);
    case FUSE_STATFS:
      return length == sizeof(fuse_statfs_out);
    case FUSE_INIT:
      return length >= FUSE_COMPAT_22_INIT_OUT_SIZE && length <= sizeof(fuse_init_out);
    case FUSE_READLINK:
      return length > 0 && length < 4096;
    case FUSE_READ:
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
      return length <= asked;
    case FUSE_GETXATTR:
    case FUSE_LISTXATTR:
      return asked == 0 ? length == sizeof(fuse_getxattr_out) : length <= asked;
    default:
      return length == 0;
  }
}

}  // namespace

bool send_reply(int socket, std::string_view reply) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::string piece = bytes_of(Length{reply.size()});
  do {
    piece += reply.substr(0, kPieceBytes);
    reply.remove_prefix(std::min(kPieceBytes, reply.size()));
    ssize_t sent = 0;
    do {
      sent = ::send(socket, piece.data(), piece.size(), MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) return false;
    piece.clear();
  } while (!reply.empty());
  return true;
}

std::atomic<std::uint64_t>& refused_reply() noexcept {
  static std::atomic<std::uint64_t> unique = 0;
  return unique;
}

std::atomic<unsigned>& failing_receives() noexcept {
  static std::atomic<unsigned> count = 0;
  return count;
}

std::atomic<int>& receive_error() noexcept {
  static std::atomic<int> error = ENOMEM;
  return error;
}

bool is_unanswered(std::uint32_t opcode) noexcept {
  return opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT;
}

FakeKernel::FakeKernel(int socket) : socket_(socket), buffer_(sizeof(Length) + kPieceBytes, '\0') {}

FakeKernel::~FakeKernel() {
  close();
}

std::string FakeKernel::init_body(std::uint32_t major) {
  fuse_init_in in{};
  in.major = major;
  in.minor = 38;
  in.max_readahead = 1U << 17U;
  in.flags = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO |
             FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES;
  return bytes_of(in);
}

std::uint64_t FakeKernel::send(std::uint32_t opcode, std::uint64_t node, std::string_view body,
                               pid_t caller) {
  last_ += 2;
  fuse_in_header header{};
  header.len = static_cast<std::uint32_t>(sizeof header + body.size());
  header.opcode = opcode;
  header.unique = last_;
  header.nodeid = node;
  header.pid = static_cast<std::uint32_t>(caller);
  if (!is_unanswered(opcode) && refused_reply() != last_) {
    asked_[last_] = {.opcode = opcode, .size = asked_size(opcode, body)};
  }
  if (opcode == FUSE_INTERRUPT) interrupts_.insert(last_);
  send_raw(bytes_of(header) + std::string(body));
  return last_;
}

bool FakeKernel::send_raw(std::string_view message) {
  for (;;) {
    const ssize_t sent =
        ::send(socket_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return true;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return false;
    // The other side may itself wait for room for its replies.
    if (receive(Milliseconds(0))) continue;
    pollfd poll{.fd = socket_, .events = POLLIN | POLLOUT, .revents = 0};
    ::poll(&poll, 1, 1000);
  }
}

void FakeKernel::interrupt(std::uint64_t unique, pid_t caller) {
  fuse_in_header header{};
  fuse_interrupt_in in{};
  in.unique = unique;
  header.len = sizeof header + sizeof in;
  header.opcode = FUSE_INTERRUPT;
  header.unique = unique | kInterruptBit;
  header.pid = static_cast<std::uint32_t>(caller);
  interrupts_.insert(header.unique);
  // Most are never answered, and none that is so old.
  if (interrupts_.size() > 10000) interrupts_.erase(interrupts_.begin());
  send_raw(bytes_of(header) + bytes_of(in));
}

void FakeKernel::refuse_next_reply() {
  refused_reply() = last_ + 2;
}

bool FakeKernel::receive(Milliseconds limit) {
  if (socket_ < 0) return false;
  pollfd poll{.fd = socket_, .events = POLLIN, .revents = 0};
  if (::poll(&poll, 1, static_cast<int>(limit.count())) <= 0) return false;
  const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (got <= 0) return false;
  const auto length = as<Length>(buffer_);
  std::string message(buffer_, sizeof length, static_cast<std::size_t>(got) - sizeof length);
  while (message.size() < length) {
    const ssize_t more = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
    if (more < 0 && errno == EINTR) continue;  // a fuzzer's timer
    if (more <= 0) return false;
    message.append(buffer_, 0, static_cast<std::size_t>(more));
  }
  take_in(message);
  return true;
}

void FakeKernel::problem(const std::string& what) {
  if (problems_.size() < 20) problems_.push_back(what);
}

void FakeKernel::take_in(std::string_view message) {
  ++replies_;
  const auto header = as<fuse_out_header>(message);
  const std::string who = "reply to " + std::to_string(header.unique);
  if (message.size() < sizeof header) return problem(who + ": half a header");
  if (header.len != message.size()) problem(who + ": another length than it says");
  if (header.error > 0 || header.error <= -512) problem(who + ": no errno");
  message.remove_prefix(sizeof header);
  if (header.error != 0 && !message.empty()) problem(who + ": bytes behind an error");
  if (const auto interrupt = interrupts_.find(header.unique); interrupt != interrupts_.end()) {
    interrupts_.erase(interrupt);
    if (header.error != -EAGAIN) problem(who + ": an interrupt has only EAGAIN");
    return;
  }
  const auto found = asked_.find(header.unique);
  if (found == asked_.end()) return problem(who + ": nobody waits for it");
  const Asked asked = found->second;
  asked_.erase(found);
  if (header.error == 0 && asked.size &&
      !is_right_length(asked.opcode, *asked.size, message.size())) {
    problem(who + ", opcode " + std::to_string(asked.opcode) + ": " +
            std::to_string(message.size()) + " bytes");
  }
  arrived_[header.unique] = {
      .unique = header.unique, .error = -header.error, .body = std::string(message)};
}

std::optional<Reply> FakeKernel::wait_for(std::uint64_t unique, Milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    if (auto node = arrived_.extract(unique)) return std::move(node.mapped());
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    if (!receive(std::max(left, Milliseconds(0))) && left.count() <= 0) return std::nullopt;
  }
}

std::optional<Reply> FakeKernel::take_any(Milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (arrived_.empty()) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    if (!receive(std::max(left, Milliseconds(0))) && left.count() <= 0) return std::nullopt;
  }
  return std::move(arrived_.extract(arrived_.begin()).mapped());
}

Reply FakeKernel::call(std::uint32_t opcode, std::uint64_t node, std::string_view body,
                       pid_t caller) {
  const std::uint64_t unique = send(opcode, node, body, caller);
  std::optional<Reply> reply = wait_for(unique);
  if (!reply) throw std::runtime_error("no reply to opcode " + std::to_string(opcode));
  return std::move(*reply);
}

std::uint64_t FakeKernel::lookup(std::uint64_t directory, std::string_view name) {
  const Reply reply = call(FUSE_LOOKUP, directory, name_body(name));
  const auto entry = as<fuse_entry_out>(reply.body);
  if (reply.error != 0 || entry.nodeid == 0) throw std::runtime_error("no " + std::string(name));
  return entry.nodeid;
}

bool FakeKernel::settle(Milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!asked_.empty()) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    if (!receive(std::max(left, Milliseconds(0))) && left.count() <= 0) return false;
  }
  drain();
  return true;
}

std::string FakeKernel::unanswered() const {
  std::string list;
  for (const auto& [unique, asked] : asked_) {
    list += " " + std::to_string(unique) + " (opcode " + std::to_string(asked.opcode) + ")";
  }
  return list;
}

void FakeKernel::drain() {
  while (receive(Milliseconds(0))) {
  }
}

void FakeKernel::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

}  // namespace reshardfs::testing_protocol

/// libfuse keeps interrupts of requests that it does not know, and does not free them at the end.
/// That no request is forgotten the tests see by its missing reply.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libfuse3\n";
}
