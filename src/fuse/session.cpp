// SPDX-License-Identifier: Apache-2.0
#include "fuse/session.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "fuse/event_log.h"
#include "fuse/mounting/captured_stderr.h"
#include "fuse/mounting/fuse_descriptor.h"
#include "fuse/mounting/mount_options.h"
#include "fuse/mounting/mountpoint.h"
#include "fuse/mounting/unmount.h"
#include "fuse/operations.h"

namespace reshardfs {
namespace {

/// Where this thread's messages from libfuse go while a session is being set up: into the text of
/// an exception. Otherwise (nullptr) they go to the log.
thread_local std::string* collected_messages = nullptr;

std::string format_message(const char* format, va_list arguments) {
  std::array<char, 1024> buffer{};
  static_cast<void>(std::vsnprintf(buffer.data(), buffer.size(), format, arguments));
  return buffer.data();
}

void drop_last_newline(std::string& text) {
  if (text.ends_with('\n')) text.pop_back();
}

void take_message(fuse_log_level level, const char* format, va_list arguments) {
  try {
    std::string text = format_message(format, arguments);
    if (collected_messages != nullptr) {
      *collected_messages += text;
      return;
    }
    drop_last_newline(text);
    log_event(level <= FUSE_LOG_ERR ? LogLevel::kError : LogLevel::kDebug, LogEvent::kMessage, "{}",
              printable(text));
  } catch (const std::exception&) {
    // Exceptions must not pass through libfuse, which is C; the message is lost.
  }
}

class MessageCollector {
 public:
  MessageCollector() {
    fuse_set_log_func(take_message);
    collected_messages = &text_;
  }
  MessageCollector(const MessageCollector&) = delete;
  MessageCollector& operator=(const MessageCollector&) = delete;
  ~MessageCollector() { collected_messages = nullptr; }

  /// Lines; libfuse says some things in several pieces.
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

/// A process without free descriptors after mounting could not even unmount.
void require_descriptors() {
  constexpr std::size_t kNeeded = 8;
  std::vector<Descriptor> free;
  while (free.size() < kNeeded) {
    Descriptor file(::open("/", O_PATH | O_CLOEXEC));
    if (!file) throw io_error("keep files open for the mount", "", errno);
    free.push_back(std::move(file));
  }
}

/// @throws Error kUsage
fuse_session* new_session(const MountOptions& options, const fuse_lowlevel_ops& operations,
                          void* served) {
  const MessageCollector messages;
  std::string program = "reshardfs";
  std::string option = "-o";
  std::string its_words = mount_words(options);
  std::array words{program.data(), option.data(), its_words.data()};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(words.size()), words.data());
  fuse_session* const session =
      fuse_session_new(&arguments, &operations, sizeof(fuse_lowlevel_ops), served);
  fuse_opt_free_args(&arguments);  // those that libfuse has made of them
  if (session == nullptr) throw unknown_mount_option(messages.text());
  return session;
}

/// Ends the connection, and gives libfuse a descriptor that reports this: the write end of a pipe
/// without a reader. Without a descriptor for that, the end of the process does it.
void end_connection(fuse_session* session) noexcept {
  try {
    const Pipe pipe;
    ::dup2(pipe.writer.get(), fuse_session_fd(session));
  } catch (const std::exception&) {
    // As above.
  }
}

}  // namespace

void require_known_options(const MountOptions& options) {
  constexpr fuse_lowlevel_ops kNone{};
  fuse_session_destroy(new_session(options, kNone, nullptr));
}

Session::Session(const MountOptions& options, ServedTree& served)
    : options_(options), channel_(served.channel) {
  session_ = new_session(options, operations(), &served);
}

Session::~Session() {
  if (released_) {
    fuse_session_destroy(session_);
    return;
  }
  // libfuse unmounts any mount at the place that it knows, so that must show this one.
  if (!mount_ || (is_in_place() && mount_->mountpoint == options_.mountpoint)) {
    fuse_session_unmount(session_);
  }
  // And it takes a connection that was aborted (/sys/fs/fuse) for an unmounted one, which would
  // leave a dead directory.
  detach();
  fuse_session_destroy(session_);
}

void Session::mount() {
  if (const auto descriptor = fuse_descriptor(options_.mountpoint)) {
    check_fuse_descriptor(*descriptor);
    // Programs that this process starts, such as fusermount3, must not keep it open.
    static_cast<void>(::fcntl(*descriptor, F_SETFD, FD_CLOEXEC));
  }
  const MountPlace place(options_.mountpoint);
  if (!options_.nonempty) check_empty(options_.mountpoint);
  require_descriptors();
  require_way_to_unmount();
  const MessageCollector messages;
  CapturedStderr of_fusermount;
  if (fuse_session_mount(session_, options_.mountpoint.c_str()) != 0) {
    throw cannot_mount(of_fusermount.finish() + messages.text()).in_file(options_.mountpoint);
  }
  mount_ = mount_at(options_.mountpoint);
  channel_.connect(session_, fuse_session_fd(session_));
}

std::string Session::replay(const Negotiation& before) {
  // In the place of the mount's descriptor, which libfuse closes itself.
  Descriptor place(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!place) throw io_error("open", "/dev/null", errno);
  channel_.connect(session_, place.release());
  return channel_.replay(session_, before);
}

void Session::adopt(Descriptor fuse, std::optional<MountEntry> place) {
  if (::dup3(fuse.get(), fuse_session_fd(session_), O_CLOEXEC) == -1) {
    throw io_error("keep the mount's descriptor", "/dev/fuse", errno);
  }
  mount_ = std::move(place);
}

int Session::descriptor() const noexcept {
  return fuse_session_fd(session_);
}

void Session::release() noexcept {
  released_ = true;
  // Threads that still wait for a source would answer at their end.
  end_connection(session_);
}

void Session::watch_for_unmount() noexcept {
  if (mount_) notice_.emplace(options_.mountpoint);
}

void Session::detach() noexcept {
  if (is_in_place()) take_away();
}

void Session::abandon() noexcept {
  const bool in_place = is_in_place();
  fuse_session_exit(session_);  // no complaint of libfuse about replies that come too late
  end_connection(session_);
  if (in_place) take_away();
}

void Session::take_away() noexcept {
  try {
    detach_mount(mount_->mountpoint);
  } catch (const std::exception& error) {
    log_warning(LogEvent::kMountLeft, "the mount may be left there: {}", error.what());
  }
}

bool Session::is_in_place() noexcept {
  if (!mount_) return false;
  try {
    // First the table: while there is no notice, the device's number is still this mount's. The
    // mount's own is not if the file system is mounted elsewhere, too (mount --bind).
    const auto now = found_again(*mount_);
    if (!now) return false;
    mount_->mountpoint = now->mountpoint;
  } catch (const std::exception& error) {
    log_warning(LogEvent::kMountLeft, "the mount may be left there: {}", error.what());
    return false;
  }
  if (notice_ && notice_->watches()) return !notice_->came();
  const int descriptor = fuse_session_fd(session_);
  return descriptor >= 0 && !has_ended(descriptor);
}

}  // namespace reshardfs
