// SPDX-License-Identifier: Apache-2.0
/// A source that is a JSON list of URLs: signed ones, which no server could list. It is either an
/// object of names to URLs, {"rank_0/net.ckpt": "https://..."}, or an array of URLs, whose names
/// are what their paths do not have in common. The directory that it describes is "urls://" and
/// the list's location.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/process/process_state.h"
#include "storage/backend.h"
#include "storage/location.h"
#include "storage/remote/remote_object.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

constexpr std::string_view kScheme = "urls://";
constexpr std::string_view kExtension = ".json";
constexpr std::uint64_t kMaxListBytes = 256 << 20;

/// Name to URL.
using UrlList = std::map<std::string, std::string>;

Error bad_list(const std::string& list, const std::string& what) {
  return Error(ErrorKind::kBadInput, what)
      .in_file(list)
      .needs(Need::kSource)
      .hint("a source that is a JSON file is an array of URLs, or an object of names to URLs");
}

bool is_plain_name(const std::string& name) {
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = std::string_view(name).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return name.find('\0') == std::string::npos;
}

/// The parts of paths that all share are no part of the names.
UrlList named_by_path(const std::vector<std::string>& urls) {
  std::vector<std::string> paths;
  for (const std::string& url : urls) {
    const UrlParts parts = split_url(url);
    paths.push_back("/" + parts.authority + url_decoded(parts.path));
  }
  std::string common = paths.empty() ? "" : paths.front();
  for (const std::string& path : paths) {
    const auto end = std::mismatch(path.begin(), path.end(), common.begin(), common.end());
    common.erase(end.second, common.end());
    common.erase(common.rfind('/') + 1);
  }
  UrlList list;
  for (std::size_t i = 0; i < urls.size(); ++i) list[paths[i].substr(common.size())] = urls[i];
  return list;
}

std::string url_of(const JsonValue& value, const std::string& list) {
  if (!value.text()) throw bad_list(list, "has an entry that is not a URL");
  std::string url(*value.text());
  const std::string scheme = split_url(url).scheme;
  if (scheme != "http" && scheme != "https" && scheme != "s3") {
    throw bad_list(list, "has the entry '" + printable(shown_location(url)) +
                             "', which is not a URL that begins with http://, https:// or s3://");
  }
  return url;
}

UrlList parse_list(const std::string& text, const std::string& name) {
  const auto document = JsonDocument::parse(text);
  if (!document || (!document->value().is_list() && !document->value().is_object())) {
    throw bad_list(name, "is not a list of URLs in JSON");
  }
  const JsonValue json = document->value();
  if (json.is_object() && json.find("weight_map")) {
    throw Error(ErrorKind::kUsage, "is the index of a model, and not a list of URLs")
        .in_file(name)
        .needs(Need::kSource)
        .hint("name its directory as the source");
  }
  UrlList list;
  if (json.is_list()) {
    std::vector<std::string> urls;
    for (const JsonValue value : json) urls.push_back(url_of(value, name));
    list = named_by_path(urls);
    if (list.size() != urls.size()) throw bad_list(name, "has two URLs with one path");
  } else {
    for (const JsonValue value : json) list[std::string(value.key())] = url_of(value, name);
  }
  if (list.empty()) throw bad_list(name, "has no URLs in it");
  for (const auto& [key, url] : list) {
    if (!is_plain_name(key)) {
      throw bad_list(name, "has the name '" + printable(key) + "', which is not one of a file");
    }
    const auto below = list.lower_bound(key + "/");
    if (below != list.end() && below->first.starts_with(key + "/")) {
      throw bad_list(name, "has '" + printable(key) + "' as a file and as a directory");
    }
  }
  return list;
}

bool is_local_directory(const std::string& location) {
  std::error_code failed;
  return !is_url(location) && std::filesystem::is_directory(location, failed);
}

/// A location below a list.
struct ListedPlace {
  std::string list;  ///< the list's own location
  std::string name;  ///< below it, without slashes around it; empty for itself

  static ListedPlace of(const std::filesystem::path& location) {
    const std::string text = location.string().substr(kScheme.size());
    // A directory may have such a name, too.
    std::size_t end = 0;
    do {
      end = text.find(std::string(kExtension) + "/", end);
      end = end == std::string::npos ? text.size() : end + kExtension.size();
    } while (end < text.size() && is_local_directory(text.substr(0, end)));
    ListedPlace place{text.substr(0, end), end < text.size() ? text.substr(end + 1) : ""};
    while (place.name.ends_with('/')) place.name.pop_back();
    return place;
  }
};

/// Lists are read once.
class Lists {
 public:
  std::shared_ptr<const UrlList> get(const std::string& location) {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<const UrlList>& list = lists_[location];
    if (list == nullptr) {
      list = std::make_shared<const UrlList>(
          parse_list(read_small_file(location, kMaxListBytes), location));
    }
    return list;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const UrlList>> lists_;  ///< guarded by mutex_
};

ProcessState<Lists> the_lists("lists of URLs", make_new<Lists>);

std::shared_ptr<const UrlList> list_of(const ListedPlace& place) {
  return the_lists.get().get(place.list);
}

class UrlListBackend final : public Backend {
 public:
  std::span<const std::string_view> schemes() const noexcept override {
    static constexpr std::array<std::string_view, 1> kSchemes{"urls"};
    return kSchemes;
  }

  ByteSourcePtr open(const std::filesystem::path& location) const override {
    const ListedPlace place = ListedPlace::of(location);
    const auto list = list_of(place);
    const auto found = list->find(place.name);
    if (found == list->end()) {
      throw Error(ErrorKind::kMissing, "no such file").in_file(location.string());
    }
    if (split_url(found->second).scheme == "s3") return open_file(found->second);
    // Another list may have the name that this one has: the reader tells them apart.
    return open_web_source(location.string(), found->second, shown_location(found->second));
  }

  std::vector<DirectoryEntry> list(const std::filesystem::path& location) const override {
    const ListedPlace place = ListedPlace::of(location);
    const std::string prefix = place.name.empty() ? "" : place.name + "/";
    const auto list = list_of(place);
    std::vector<DirectoryEntry> entries;
    for (auto next = list->lower_bound(prefix); next != list->end(); ++next) {
      if (!next->first.starts_with(prefix)) break;
      const std::string rest = next->first.substr(prefix.size());
      const std::size_t slash = rest.find('/');
      const bool is_directory = slash != std::string::npos;
      std::string name = rest.substr(0, slash);
      if (!entries.empty() && entries.back().name == name) continue;
      entries.push_back({std::move(name), is_directory, !is_directory});
    }
    if (entries.empty()) {
      throw Error(ErrorKind::kMissing, "no such directory").in_file(location.string());
    }
    std::sort(entries.begin(), entries.end(),
              [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
    return entries;
  }

  PathKind kind(const std::filesystem::path& location) const override {
    const ListedPlace place = ListedPlace::of(location);
    const auto list = list_of(place);
    if (place.name.empty()) return PathKind::kDirectory;
    if (list->contains(place.name)) return PathKind::kOther;
    const auto next = list->lower_bound(place.name + "/");
    const bool is_directory = next != list->end() && next->first.starts_with(place.name + "/");
    return is_directory ? PathKind::kDirectory : PathKind::kMissing;
  }
};

}  // namespace

const Backend& url_list_backend() {
  static const UrlListBackend backend;
  return backend;
}

}  // namespace reshardfs
