// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "export/target.h"
#include "transport/s3_store.h"

namespace reshardfs {

/// The objects of a bucket whose keys begin with a prefix. There are no locks, and objects cannot
/// be renamed or appended to. Objects appear when they are complete, and two writers of the same
/// file write the same bytes. ETags identify versions.
class ObjectTarget final : public Target {
 public:
  /// @param url "s3://BUCKET/PREFIX", the prefix with or without a slash at its end, or empty.
  /// @param source must not lie in it, nor the reverse.
  /// @throws Error kUsage if they overlap, or the prefix is no plain path.
  ObjectTarget(const std::filesystem::path& url, const std::filesystem::path& source);

  /// The object for a path below the prefix; for the empty path, the prefix with its slash.
  S3Name name(const std::string& path) const { return {prefix_.bucket, prefix_.key + path}; }

  const Words& words() const override;
  std::filesystem::path shown(const std::string& path) const override;
  Listing list(const std::set<std::string>& paths) const override;
  std::vector<std::string> names(const std::string& prefix) const override;
  std::optional<std::string> read(const std::string& name, std::string_view end) const override;
  void put(const std::string& name, const std::string& text) const override;
  void remove(const std::string& name) const override;
  std::unique_ptr<Claim> claim(const std::optional<Share>& share) const override;
  bool revoke(const std::string& name) const override;
  BlockEngineOptions engine(const OutputFiles& files, BlockEngineOptions options,
                            std::uint64_t memory) const override;
  OutputFiles choose(const OutputFiles& files, const Listing& there, bool force, Manifest& manifest,
                     const BlockEngineOptions& engine) const override;
  WriteJobs jobs(const OutputFiles& files, const OutputFiles& pending, bool replace,
                 Manifest& manifest, const BlockEngineOptions& engine,
                 std::vector<std::string>& warnings) const override;

 private:
  S3Name prefix_;
};

}  // namespace reshardfs
