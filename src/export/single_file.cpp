// SPDX-License-Identifier: Apache-2.0
#include "export/single_file.h"

#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "export/folder.h"
#include "export/partial_file.h"

namespace reshardfs {
namespace {

class SingleFileJob final : public BlockJob {
 public:
  SingleFileJob(const VirtualFile& file, Folder folder, std::string name, bool replace)
      : file_(file),
        name_(std::move(name)),
        replace_(replace),
        written_(std::move(folder), name_, file.size(), Writers::kMany) {}

  const VirtualFile& file() const override { return file_; }
  const std::string& name() const override { return name_; }
  bool takes_pieces() const override { return true; }
  bool finishes_beside() const override { return true; }
  SumKinds sums() const override { return SumKinds::kNone; }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    written_.write_at(offset, bytes);
  }
  void written(std::uint64_t offset, std::span<const std::byte> block) override {
    written_.begin_sync(offset, block.size());
  }
  void finish(const ContentSums& /*sums*/) override {
    written_.sync();
    written_.commit(replace_);
  }

 private:
  const VirtualFile& file_;
  const std::string name_;
  const bool replace_;
  PartialFile written_;
};

/// Before any work: what is there is found out at the end, too.
void require_free(const Folder& folder, const std::filesystem::path& path, bool replace) {
  const auto there = folder.look_at(path.filename().string());
  if (!there || (replace && S_ISREG(there->st_mode))) return;
  throw Error(ErrorKind::kUsage, S_ISREG(there->st_mode) ? "already exists" : "is no regular file")
      .in_file(path.string())
      .hint(S_ISREG(there->st_mode) ? "--force replaces it" : "choose another name");
}

}  // namespace

void export_file(const VirtualFile& file, const std::filesystem::path& path, bool replace,
                 const BlockEngineOptions& engine) {
  const std::string name = path.filename().string();
  const std::filesystem::path parent = path.parent_path();
  const Folder folder = Folder::open(parent.empty() ? "." : parent);
  require_free(folder, path, replace);
  std::vector<std::unique_ptr<BlockJob>> jobs;
  jobs.push_back(std::make_unique<SingleFileJob>(file, folder.find({}).value(), name, replace));
  if (engine.progress != nullptr) engine.progress->start("writing", file.size(), 1);
  run_blocks(jobs, engine);
  folder.sync();
}

}  // namespace reshardfs
