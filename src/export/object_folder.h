// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "transport/s3_listing.h"
#include "transport/s3_store.h"

namespace reshardfs {

/// The objects of a bucket whose keys begin with a prefix, by their paths below it.
class ObjectFolder {
 public:
  using Objects = std::map<std::string, S3Object>;

  /// Texts such as manifests are not read if they are larger.
  static constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20U;

  /// @param url "s3://BUCKET/PREFIX", the prefix without a slash at its end, or empty.
  /// @param source must not lie in it, nor the reverse.
  /// @throws Error kUsage if they overlap, or the prefix is no plain path.
  ObjectFolder(const std::filesystem::path& url, const std::filesystem::path& source);

  /// The object for a path below the prefix; for the empty path, the prefix with its slash.
  S3Name name(const std::string& path) const { return {prefix_.bucket, prefix_.key + path}; }
  /// For messages.
  std::filesystem::path shown(const std::string& path) const;

  /// Those that are wanted, each of which is asked for once.
  /// @throws Error kMissing if there is no such bucket, kIo.
  Objects list(const std::function<bool(const std::string& path)>& wanted) const;

 private:
  S3Name prefix_;
};

}  // namespace reshardfs
