// SPDX-License-Identifier: Apache-2.0
#include "export/single_file.h"

#include <sys/stat.h>

#include <span>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/sha256.h"
#include "export/exporter.h"
#include "export/file_job.h"
#include "export/folder.h"
#include "export/partial_file.h"
#include "export/read_back.h"

namespace reshardfs {
namespace {

constexpr Target::Words kWords{"directory", "beside it",
                               "the blocks that were written stay beside its name", "block",
                               "written"};

/// Checks the target before any work; it is checked again at the end.
void require_free(const Folder& folder, const std::filesystem::path& path, bool replace) {
  const auto there = folder.look_at(path.filename().string());
  if (!there || (replace && S_ISREG(there->st_mode))) return;
  throw Error(ErrorKind::kUsage, S_ISREG(there->st_mode) ? "already exists" : "is no regular file")
      .in_file(path.string())
      .hint(S_ISREG(there->st_mode) ? "--force replaces it" : "choose another name");
}

}  // namespace

ExportResult export_file(std::shared_ptr<const VirtualFile> file, const std::filesystem::path& path,
                         const std::filesystem::path& source, const std::string& identity,
                         bool replace, const BlockEngineOptions& engine) {
  ExportResult result;
  const OutputFile output{path.filename().string(), std::move(file)};
  const std::filesystem::path parent = path.parent_path();
  const Folder folder = Folder::open(parent.empty() ? "." : parent);
  require_free(folder, path, replace);
  if (auto warning = require_not_hidden(path, *output.file, source)) {
    result.warnings.push_back(std::move(*warning));
  }
  const FileWriting writing{folder,        sha256_of(std::as_bytes(std::span(identity))),
                            nullptr,       replace,
                            Writers::kOne, engine.block_bytes};
  const bool is_begun = !remove_partial_files(folder, {output.path}, Writers::kOne).empty();
  std::vector<std::unique_ptr<BlockJob>> jobs;
  auto write = file_job(output, writing, is_begun);
  const std::vector<WriteJob*> writes{write.get()};
  jobs.push_back(std::move(write));
  if (engine.progress != nullptr) engine.progress->start("writing", output.file->size(), 1);
  run_writes(jobs, writes, engine, kWords.stays, [] {});
  folder.sync();
  result.written_files = 1;
  note_resumed(*writes.front(), kWords, result);
  result.written_bytes = output.file->size() - result.resumed_bytes;
  return result;
}

}  // namespace reshardfs
