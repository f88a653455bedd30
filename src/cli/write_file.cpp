// SPDX-License-Identifier: Apache-2.0
#include "cli/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

void write_all(int fd, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw io_error("write", name, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_new_file(const std::filesystem::path& path, bool replace,
                    const std::function<void(const TextSink&)>& produce) {
  std::string temporary = path.string() + ".tmp.XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) throw io_error("create", path, errno);
  try {
    produce([&](std::string_view text) { write_all(fd, text, path); });
    const mode_t mask = ::umask(0);  // mkstemp is stricter than the user asked for
    ::umask(mask);
    if (::fchmod(fd, 0666 & ~mask) != 0 || ::fsync(fd) != 0) throw io_error("write", path, errno);
    const unsigned flags = replace ? 0U : RENAME_NOREPLACE;
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), flags) != 0) {
      if (errno == EEXIST) {
        throw Error(ErrorKind::kUsage, "exists already").in_file(path).hint("--force replaces it");
      }
      throw io_error("write", path, errno);
    }
  } catch (...) {
    ::close(fd);
    ::unlink(temporary.c_str());
    throw;
  }
  ::close(fd);
}

}  // namespace

void write_file(const std::filesystem::path& path, std::string_view bytes, bool replace) {
  write_new_file(path, replace, [&](const TextSink& out) { out(bytes); });
}

void write_output(const std::string& output, bool replace,
                  const std::function<void(const TextSink&)>& produce) {
  if (output != "-") return write_new_file(output, replace, produce);
  produce([](std::string_view text) { write_all(STDOUT_FILENO, text, "standard output"); });
}

}  // namespace reshardfs
