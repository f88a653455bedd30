// SPDX-License-Identifier: Apache-2.0
#include "export/object_folder.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/text/url_path.h"
#include "export/folder.h"
#include "transport/s3_objects.h"

namespace reshardfs {
namespace {

S3Name prefix_of(const std::filesystem::path& url) {
  if (!url.native().starts_with("s3://")) {
    throw Error(ErrorKind::kUsage, "cannot be written to")
        .in_file(url)
        .hint("export to a directory, or to s3://BUCKET/PREFIX");
  }
  S3Name name = S3Name::of(url.native());
  while (name.key.ends_with('/')) name.key.pop_back();
  if (name.key.empty()) return name;
  // Tools that copy the objects to a directory would not find the names again.
  const bool is_plain = is_plain_path(name.key) && name.key.find("//") == std::string::npos &&
                        ("/" + name.key + "/").find("/./") == std::string::npos;
  if (!is_plain) {
    throw Error(ErrorKind::kUsage, "the prefix is not a plain path")
        .in_file(url)
        .hint("leave out '.', '..' and empty names");
  }
  name.key += '/';
  return name;
}

}  // namespace

ObjectFolder::ObjectFolder(const std::filesystem::path& url, const std::filesystem::path& source)
    : prefix_(prefix_of(url)) {
  if (!source.native().starts_with("s3://")) return;
  const S3Name from = S3Name::of(source.native());
  const std::string key = from.key + "/";
  if (from.bucket != prefix_.bucket) return;
  if (from.key.empty() || prefix_.key.starts_with(key)) {
    throw Error(ErrorKind::kUsage, "the target lies inside the source " + source.native())
        .in_file(url)
        .hint("choose a prefix outside the source");
  }
  if (key.starts_with(prefix_.key)) {
    throw Error(ErrorKind::kUsage, "the source " + source.native() + " lies inside the target")
        .in_file(url)
        .hint("choose a prefix outside the source");
  }
}

std::filesystem::path ObjectFolder::shown(const std::string& path) const {
  return shown_s3(name(path));
}

ObjectFolder::Objects ObjectFolder::list(
    const std::function<bool(const std::string& path)>& wanted) const {
  Objects objects;
  list_s3_objects(prefix_, [&](S3Object& object) {
    std::string path = object.key.substr(prefix_.key.size());
    if (wanted(path)) objects.insert_or_assign(std::move(path), std::move(object));
    return true;
  });
  return objects;
}

}  // namespace reshardfs
