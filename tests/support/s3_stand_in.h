// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/web_stand_in.h"
#include "transport/settings.h"
#include "transport/url.h"

namespace reshardfs::test {

struct S3StandInObject {
  std::string content{};
  std::string etag{"v1"};
};

/// The part of a query, decoded; empty without it.
inline std::string query_of(const WebRequest& request, const std::string& name) {
  std::istringstream parts(request.target.substr(request.target.find('?') + 1));
  for (std::string part; std::getline(parts, part, '&');) {
    if (part.starts_with(name + "=")) return url_decoded(part.substr(name.size() + 1));
  }
  return "";
}

inline std::string element(const std::string& name, const std::string& text) {
  return "<" + name + ">" + text + "</" + name + ">";
}

/// What a store answers to a request for a list.
inline WebAnswer s3_list(const std::string& items, const std::string& next = "") {
  return {200,
          {},
          element("ListBucketResult",
                  element("EncodingType", "url") + items +
                      element("IsTruncated", next.empty() ? "false" : "true") +
                      (next.empty() ? "" : element("NextContinuationToken", next)))};
}
inline std::string s3_key(const std::string& key, const S3StandInObject& object = {}) {
  return element("Contents", element("Key", url_encoded(key, /*keep_slashes=*/true)) +
                                 element("LastModified", "2026-01-31T12:34:56.000Z") +
                                 element("ETag", object.etag) +
                                 element("Size", std::to_string(object.content.size())));
}
inline std::string s3_prefix(const std::string& prefix) {
  return element("CommonPrefixes", element("Prefix", url_encoded(prefix, /*keep_slashes=*/true)));
}

/// The object store of the test's process, with one bucket, "bucket".
class S3StandIn {
 public:
  using Objects = std::map<std::string, S3StandInObject>;

  static S3StandIn& process() {
    static S3StandIn store;
    return store;
  }

  WebStandIn& server() { return server_; }

  /// Has these objects from then on. @param page items of a list at most
  void hold(Objects objects, std::size_t page = 1000) {
    server_.answer_with([objects = std::move(objects), page](const WebRequest& request) {
      const std::string path = url_decoded(request.target.substr(0, request.target.find('?')));
      const std::string key = path.substr(std::string("/bucket/").size());
      if (key.empty()) return list(objects, page, request);
      const auto found = objects.find(key);
      if (found == objects.end()) return WebAnswer{404};
      const std::vector<std::string> headers{"ETag: \"" + found->second.etag + "\""};
      if (request.method == "HEAD") return WebAnswer{200, headers};
      return part_of(found->second.content, request, headers);
    });
  }

 private:
  S3StandIn() {
    s3_settings().endpoint = server_.origin();
    s3_settings().anonymous = true;
  }

  static WebAnswer list(const Objects& objects, std::size_t page, const WebRequest& request) {
    const std::string prefix = query_of(request, "prefix");
    const std::string delimiter = query_of(request, "delimiter");
    std::vector<std::string> items;
    std::set<std::string> prefixes;
    for (const auto& [key, object] : objects) {
      if (!key.starts_with(prefix)) continue;
      const std::size_t slash =
          delimiter.empty() ? std::string::npos : key.find(delimiter, prefix.size());
      if (slash == std::string::npos) {
        items.push_back(s3_key(key, object));
      } else if (prefixes.insert(key.substr(0, slash + 1)).second) {
        items.push_back(s3_prefix(key.substr(0, slash + 1)));
      }
    }
    const std::string token = query_of(request, "continuation-token");
    const std::size_t begin = token.empty() ? 0 : std::stoul(token);
    const std::size_t end =
        std::min({items.size(), begin + page, begin + std::stoul(query_of(request, "max-keys"))});
    std::string text;
    for (std::size_t i = begin; i < end; ++i) text += items[i];
    return s3_list(text, end < items.size() ? std::to_string(end) : "");
  }

  WebStandIn server_;
};

}  // namespace reshardfs::test
