// SPDX-License-Identifier: Apache-2.0
#include "cli/write_file.h"

#include <unistd.h>

#include <span>
#include <string>

#include "reshardfs/error.h"

#include "base/posix/read_write.h"
#include "export/partial_file.h"

namespace reshardfs {
namespace {

void write_to_standard_output(std::string_view bytes) {
  const int failed = write_all(STDOUT_FILENO, bytes);
  if (failed != 0) throw io_error("write", "standard output", failed);
}

void write_new_file(const std::filesystem::path& path, bool replace,
                    const std::function<void(const TextSink&)>& produce) {
  if (!path.has_filename()) throw Error(ErrorKind::kUsage, "is not a file name").in_file(path);
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  PartialFile file(Folder::open(directory), path.filename(), 0, Writers::kMany);
  std::uint64_t offset = 0;
  produce([&](std::string_view text) {
    file.write_at(offset, std::as_bytes(std::span(text)));
    offset += text.size();
  });
  file.sync();
  file.commit(replace);
}

}  // namespace

void write_file(const std::filesystem::path& path, std::string_view bytes, bool replace) {
  write_new_file(path, replace, [&](const TextSink& out) { out(bytes); });
}

void write_output(const std::string& output, bool replace,
                  const std::function<void(const TextSink&)>& produce) {
  if (output != "-") return write_new_file(output, replace, produce);
  produce(write_to_standard_output);
}

}  // namespace reshardfs
