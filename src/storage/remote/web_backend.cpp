// SPDX-License-Identifier: Apache-2.0
/// Files of a web server, and directories of which it shows a list.
#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "storage/backend.h"
#include "storage/location.h"
#include "storage/remote/remote_object.h"
#include "transport/text_receiver.h"
#include "transport/url.h"
#include "transport/web_index.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMaxIndexBytes = 64 << 20;

/// A URL with a slash at the end of its path.
std::string directory_url(const std::filesystem::path& location) {
  std::string url = web_url(location);
  const std::size_t query = std::min(url.find('?'), url.size());
  if (!std::string_view(url).substr(0, query).ends_with('/')) url.insert(query, 1, '/');
  return url;
}

/// Passes over an answer; what is not a success throws.
class IgnoredAnswer final : public HttpReceiver {
 public:
  explicit IgnoredAnswer(std::string name) : name_(std::move(name)) {}
  void begin(const HttpHead& /*head*/) override {}
  void add(std::span<const std::byte> /*bytes*/) override {}
  void end() override {}
  [[noreturn]] void refuse(const HttpHead& head, const std::string& body) override {
    if (head.status == 405 || head.status == 501) throw NoSuchMethod{};
    throw_status(head, body, name_);
  }

  struct NoSuchMethod {};

 private:
  std::string name_;
};

enum class FoundFile : std::uint8_t { kYes, kNo, kDenied };

FoundFile look_for(const std::string& url, const std::string& name) {
  const auto ask = [&](const std::string& method, std::vector<std::string> headers) {
    HttpRequest request;
    request.method = method;
    request.url = url;
    request.name = name;
    request.headers = std::move(headers);
    HttpEngine::process().perform(std::move(request), std::make_shared<IgnoredAnswer>(name));
  };
  try {
    try {
      ask("HEAD", {});
    } catch (const IgnoredAnswer::NoSuchMethod&) {
      ask("GET", {"Range: bytes=0-0"});
    }
    return FoundFile::kYes;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kMissing) return FoundFile::kNo;
    if (error.os_error() == EACCES) return FoundFile::kDenied;
    throw;
  }
}

Error not_listed(const std::filesystem::path& location) {
  return Error(ErrorKind::kIo, "the server does not list the directory (403)")
      .in_file(shown_location(location.string()))
      .os_error(EACCES)
      .hint(
          "let it list directories (nginx: autoindex on), or name a JSON list of URLs as the "
          "source");
}

class WebBackend final : public Backend {
 public:
  std::span<const std::string_view> schemes() const noexcept override {
    static constexpr std::array<std::string_view, 2> kSchemes{"http", "https"};
    return kSchemes;
  }

  ByteSourcePtr open(const std::filesystem::path& location) const override {
    return open_web_source(shown_location(location.string()), web_url(location));
  }

  std::vector<DirectoryEntry> list(const std::filesystem::path& location) const override {
    HttpRequest request;
    request.url = directory_url(location);
    request.name = shown_location(location.string());
    const std::string url = request.url;
    const auto receiver = std::make_shared<TextReceiver>(
        request.name, kMaxIndexBytes, [&](const HttpHead& head, const std::string& /*body*/) {
          if (head.status == 404) {
            throw Error(ErrorKind::kMissing, "no such directory")
                .in_file(shown_location(location.string()));
          }
          if (head.status == 403) throw not_listed(location);
        });
    HttpEngine::process().perform(std::move(request), receiver);
    std::vector<DirectoryEntry> entries;
    for (const WebEntry& entry :
         parse_web_index(receiver->head().value("content-type"), receiver->text(), url)) {
      entries.push_back({entry.name, entry.is_directory, !entry.is_directory});
    }
    std::ranges::sort(entries, {}, &DirectoryEntry::name);
    return entries;
  }

  PathKind kind(const std::filesystem::path& location) const override {
    const std::string name = shown_location(location.string());
    const std::string url = web_url(location);
    // A signed URL is valid for one file, and for reading only.
    if (url.find('?') != std::string::npos) return PathKind::kOther;
    // A URL without the slash leads to the one with it where that is a directory.
    const FoundFile directory = look_for(directory_url(location), name);
    if (directory == FoundFile::kYes) return PathKind::kDirectory;
    const FoundFile file = look_for(url, name);
    if (file == FoundFile::kYes) return PathKind::kOther;
    if (directory == FoundFile::kDenied || file == FoundFile::kDenied) throw not_listed(location);
    return PathKind::kMissing;
  }
};

}  // namespace

const Backend& web_backend() {
  static const WebBackend backend;
  return backend;
}

}  // namespace reshardfs
