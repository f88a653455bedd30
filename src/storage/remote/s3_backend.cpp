// SPDX-License-Identifier: Apache-2.0
/// Objects of S3-compatible stores. A directory is what the objects' keys have in common.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "storage/backend.h"
#include "storage/remote/remote_object.h"
#include "transport/s3_listing.h"
#include "transport/s3_objects.h"
#include "transport/s3_store.h"
#include "transport/text_receiver.h"

namespace reshardfs {
namespace {

// 1,000 keys a page.
constexpr std::size_t kMaxPageBytes = 16 << 20;

/// @param key of the directory, without a slash at its end; empty for the bucket.
S3Page page_of(const S3Name& directory, const std::string& shown, const std::string& token,
               unsigned most) {
  S3Store::Query query{{"list-type", "2"},
                       {"delimiter", "/"},
                       {"encoding-type", "url"},
                       {"max-keys", std::to_string(most)},
                       {"prefix", directory.key.empty() ? "" : directory.key + "/"}};
  if (!token.empty()) query.emplace_back("continuation-token", token);
  const auto receiver = std::make_shared<TextReceiver>(
      shown, kMaxPageBytes,
      [&](const HttpHead& head, const std::string& body) { throw_s3_refusal(head, body, shown); });
  HttpEngine::process().perform(
      S3Store::process().request("GET", {directory.bucket, ""}, shown, query), receiver);
  return parse_s3_page(receiver->text(), shown);
}

S3Name name_of(const std::filesystem::path& location) {
  S3Name name = S3Name::of(location.string());
  while (name.key.ends_with('/')) name.key.pop_back();
  return name;
}

RemoteAddress address_of(const std::filesystem::path& location) {
  RemoteAddress address;
  address.name = location.string();
  address.kind = SourceKind::kS3;
  address.reader = S3Store::process().reader();
  address.request = [object = S3Name::of(location.string()), name = address.name] {
    return S3Store::process().request("GET", object, name);
  };
  return address;
}

class S3Backend final : public Backend {
 public:
  std::span<const std::string_view> schemes() const noexcept override {
    static constexpr std::array<std::string_view, 1> kSchemes{"s3"};
    return kSchemes;
  }

  ByteSourcePtr open(const std::filesystem::path& location) const override {
    return open_remote_source(address_of(location));
  }

  ByteSourcePtr open_listed(const std::filesystem::path& location,
                            const ListedObject& object) const override {
    // A weak one ("W/...") does not tell the version for certain.
    if (object.etag.empty() || object.etag.find('"') != std::string::npos) return open(location);
    return open_listed_source(address_of(location), object);
  }

  std::optional<std::vector<ListedObject>> list_below(const std::filesystem::path& location,
                                                      std::size_t most) const override {
    S3Name prefix = name_of(location);
    if (!prefix.key.empty()) prefix.key += "/";
    std::vector<ListedObject> objects;
    bool all = true;
    list_s3_objects(prefix, [&](S3Object& object) {
      all = objects.size() < most;
      if (!all) return false;
      objects.push_back({object.key.substr(prefix.key.size()), object.size, std::move(object.etag),
                         std::move(object.modified)});
      return true;
    });
    if (!all) return std::nullopt;
    return objects;
  }

  std::vector<DirectoryEntry> list(const std::filesystem::path& location) const override {
    constexpr unsigned kPage = 1000;
    const S3Name directory = name_of(location);
    const std::string prefix = directory.key.empty() ? "" : directory.key + "/";
    std::vector<DirectoryEntry> entries;
    bool exists = directory.key.empty();
    std::string token;
    std::set<std::string> tokens;
    do {
      S3Page page = page_of(directory, location.string(), token, kPage);
      const auto add = [&](const std::string& key, bool is_directory) {
        if (!key.starts_with(prefix)) return;
        exists = true;
        std::string name = key.substr(prefix.size());
        if (is_directory && name.ends_with('/')) name.pop_back();
        // The directory's own marker; and names that no path can have.
        if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
            name.find('\0') != std::string::npos) {
          return;
        }
        entries.push_back({std::move(name), is_directory, !is_directory});
      };
      for (const std::string& key : page.prefixes) add(key, /*is_directory=*/true);
      for (const std::string& key : page.keys) add(key, /*is_directory=*/false);
      if (!page.next.empty() && !tokens.insert(page.next).second) {
        throw Error(ErrorKind::kBadInput, "the store's list has a page that leads to itself")
            .in_file(location.string());
      }
      token = std::move(page.next);
    } while (!token.empty());
    if (!exists) {
      throw Error(ErrorKind::kMissing, "no such directory").in_file(location.string());
    }
    // An object and a directory may have one name; a path stands for the directory then.
    std::ranges::sort(entries, {}, [](const DirectoryEntry& entry) {
      return std::pair<std::string_view, bool>(entry.name, !entry.is_directory);
    });
    entries.erase(std::unique(entries.begin(), entries.end(),
                              [](const auto& a, const auto& b) { return a.name == b.name; }),
                  entries.end());
    return entries;
  }

  PathKind kind(const std::filesystem::path& location) const override {
    const S3Name name = name_of(location);
    if (name.key.empty()) return PathKind::kDirectory;
    const S3Page page = page_of(name, location.string(), "", 1);
    if (!page.keys.empty() || !page.prefixes.empty()) return PathKind::kDirectory;
    const auto receiver = std::make_shared<TextReceiver>(
        location.string(), 0, [&](const HttpHead& head, const std::string& body) {
          throw_s3_refusal(head, body, location.string());
        });
    try {
      HttpEngine::process().perform(S3Store::process().request("HEAD", name, location.string()),
                                    receiver);
      return PathKind::kOther;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kMissing) return PathKind::kMissing;
      throw;
    }
  }
};

}  // namespace

const Backend& s3_backend() {
  static const S3Backend backend;
  return backend;
}

}  // namespace reshardfs
