// SPDX-License-Identifier: Apache-2.0
#include "fuse/request.h"

#include <cerrno>
#include <exception>
#include <new>
#include <string>

#include "reshardfs/error.h"

#include "base/process/counters.h"

namespace reshardfs {
namespace {

int passed_on(int os_error) noexcept {
  switch (os_error) {
    case ESTALE:
    case ETIMEDOUT:
    case ENOMEM:
    case EACCES:
    case EINTR:
      return os_error;
    default:
      return EIO;
  }
}

}  // namespace

int errno_of(const Error& error) noexcept {
  switch (error.kind()) {
    case ErrorKind::kMissing:
      return ENOENT;
    case ErrorKind::kUnsupported:
      return EOPNOTSUPP;
    case ErrorKind::kIo:
      return passed_on(error.os_error());
    case ErrorKind::kChanged:
      return ESTALE;
    case ErrorKind::kUsage:
    case ErrorKind::kBadInput:
    case ErrorKind::kInternal:
      return EIO;
  }
  return EIO;
}

int errno_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return errno_of(error);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (...) {
  }
  return EIO;
}

namespace {

/// For what never changes.
constexpr double kLongSeconds = 24.0 * 60 * 60;
/// For what another generation may have otherwise.
constexpr double kShortSeconds = 1.0;

struct Failure {
  std::string cause;  ///< the same for all offsets in the file
  std::string text;
  std::string source_file{};
  std::string parameter{};
};

Failure current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.file() + '\0' + error.parameter() + '\0' + error.message(), error.what(),
            error.file(), error.parameter()};
  } catch (const std::exception& error) {
    return {error.what(), error.what()};
  } catch (...) {
  }
  return {"", "an exception of unknown type"};
}

}  // namespace

void log_failure(ServedTree& served, const Asked& asked) noexcept {
  counters().request_failed();
  try {
    const int error = errno_of_current_exception();
    const Failure failure = current_failure();
    const std::string path = served.source.current()->path(asked.inode);
    const auto fields = [&] {
      LogFields made{.operation = asked.operation,
                     .file = path,
                     .source_file = failure.source_file,
                     .parameter = failure.parameter,
                     .error = error};
      asked.asker.describe(made);
      return made;
    };
    served.failures.add(
        {.event = LogEvent::kRequestFailed,
         .file = path,
         .cause = failure.cause,
         .line = std::string(asked.operation) + " of '/" + printable(path) + "': " + failure.text},
        fields);
  } catch (...) {
    // No memory for a message: the program that asked still gets its errno.
  }
}

void answer_failure(fuse_req_t request, const Asked& asked) noexcept {
  const int error = errno_of_current_exception();
  log_failure(served(request), asked);
  fuse_reply_err(request, error);
}

std::uint64_t& request_number() noexcept {
  static thread_local std::uint64_t number = 0;
  return number;
}

std::optional<std::uint64_t> take_opening(fuse_req_t request, OpeningHandle handle) noexcept {
  ServedTree& all = served(request);
  const Channel::Pass pass(all.channel);
  return pass.is_open() ? all.openings->remove(handle) : std::nullopt;
}

double node_seconds(const Node& node) noexcept {
  return node.brief ? kShortSeconds : kLongSeconds;
}

double absence_seconds(const Node& directory) noexcept {
  return directory.changing ? kShortSeconds : kLongSeconds;
}

}  // namespace reshardfs
