// SPDX-License-Identifier: Apache-2.0
#include "storage/remote/remote_object.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <xxhash.h>

#include "reshardfs/error.h"

#include "base/process/counters.h"
#include "storage/file_version.h"
#include "storage/pool/pooled_source.h"
#include "transport/curl_library.h"
#include "transport/text_receiver.h"

namespace reshardfs {
namespace {

/// Enough for the header of many files; to ask for it takes as long as to ask for nothing.
constexpr std::uint64_t kProbeBytes = 16 << 10;

Error refused(const std::string& name, const std::string& what) {
  return Error(ErrorKind::kIo, what).in_file(name).os_error(EIO);
}

void require_plain(const HttpHead& head, const std::string& name) {
  const std::string encoding = head.value("content-encoding");
  if (encoding.empty() || encoding == "identity") return;
  throw refused(name, "the server answers in the encoding '" + printable(encoding) +
                          "', which was not asked for");
}

/// What tells versions of an object apart.
struct Version {
  std::uint64_t size = 0;
  std::string etag;
  std::string last_modified;
  std::string version_id;
  std::int64_t mtime_ns = 0;

  static Version of(const HttpHead& head, std::uint64_t size) {
    Version out{size, head.value("etag"), head.value("last-modified"),
                head.value("x-amz-version-id")};
    const std::time_t seconds = curl_library().getdate(out.last_modified.c_str(), nullptr);
    // -1: it is no date.
    out.mtime_ns = std::max<std::int64_t>(seconds, 0) * 1'000'000'000;
    return out;
  }
  bool is_certain() const noexcept { return is_strong_etag(etag); }
  /// The condition under which bytes are of this version.
  std::string condition() const {
    return is_certain() ? "If-Match: " + etag : "If-Unmodified-Since: " + last_modified;
  }
};

/// What stays while requests are under way.
struct KnownVersion {
  RemoteAddress address;
  Version version;
  std::string identity;
  std::atomic<bool> opened = true;  ///< whether the server has answered with bytes of it

  /// What was found first is the reason from then on: a request that was under way meanwhile, or
  /// ahead of any reader, may have found it. @throws Error kChanged
  [[noreturn]] void fail_changed(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (!change_) change_ = reshardfs::changed(address.name, what);  // which counts it
    has_changed_ = true;
    throw Error(*change_);
  }
  /// @throws Error kChanged if fail_changed() was called.
  void require_unchanged() {
    if (!has_changed_) return;
    const std::lock_guard lock(mutex_);
    throw Error(*change_);
  }

 private:
  std::atomic<bool> has_changed_ = false;
  std::mutex mutex_;
  std::optional<Error> change_;  ///< guarded by mutex_
};

/// Takes one range.
class RangeReceiver final : public HttpReceiver {
 public:
  RangeReceiver(std::shared_ptr<KnownVersion> known, const ByteRange& range,
                std::vector<std::span<std::byte>> out)
      : known_(std::move(known)), range_(range), out_(std::move(out)) {}

  void begin(const HttpHead& head) override {
    filled_ = {};
    const std::string& name = known_->address.name;
    const Version& version = known_->version;
    if (head.status != 206) {
      throw refused(name, "the server answers " + std::to_string(head.status) +
                              " to a request for a range of bytes: it ignores ranges");
    }
    require_plain(head, name);
    const auto range = parse_content_range(head.value("content-range"));
    if (range && range->size != version.size) {
      known_->fail_changed("has changed its size while it was in use");
    }
    if (!range || range->first != range_.offset() || range->last + 1 != range_.end()) {
      throw refused(name, "the server answers with another range of bytes than was asked for");
    }
    const auto length = head.number("content-length");
    if (length && *length != range_.length()) {
      throw refused(name, "the server answers with another length than its range has");
    }
    const std::string* etag = head.find("etag");
    const std::string* modified = head.find("last-modified");
    if ((version.is_certain() ? etag : modified) == nullptr) {
      throw refused(name, "the server does not state which version of the file it sends");
    }
    if ((etag != nullptr && *etag != version.etag) ||
        (!version.is_certain() && *modified != version.last_modified)) {
      known_->fail_changed("has been replaced while it was in use");
    }
  }

  void add(std::span<const std::byte> bytes) override {
    filled_.bytes += bytes.size();
    if (filled_.bytes > range_.length()) {
      throw refused(known_->address.name, "the server answers with more bytes than its range has");
    }
    while (!bytes.empty()) {
      const std::span<std::byte> room = out_[filled_.pieces].subspan(filled_.of_next);
      const std::size_t count = std::min(room.size(), bytes.size());
      std::memcpy(room.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
      filled_.of_next += count;
      if (count == room.size()) {
        ++filled_.pieces;
        filled_.of_next = 0;
      }
    }
  }

  void end() override {
    if (filled_.bytes != range_.length()) throw HttpRetry{"the answer is too short"};
    known_->opened = true;
    counters().source_read(known_->address.kind, filled_.bytes, Clock::now() - asked_);
  }

  [[noreturn]] void refuse(const HttpHead& head, const std::string& body) override {
    switch (head.status) {
      case 412:
        known_->fail_changed("has been replaced while it was in use");
      case 404:
      case 410:
        known_->fail_changed("has been removed while it was in use");
      case 416:
        known_->fail_changed("has become shorter while it was in use");
      default:
        throw_status(head, body, known_->address.name);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  const Clock::time_point asked_ = Clock::now();
  const std::shared_ptr<KnownVersion> known_;
  const ByteRange range_;
  const std::vector<std::span<std::byte>> out_;
  struct Filled {
    std::size_t pieces = 0;
    std::size_t of_next = 0;  ///< bytes of the next piece
    std::uint64_t bytes = 0;  ///< in all
  };
  Filled filled_;
};

/// Takes the answer that tells what an object is.
class ProbeReceiver final : public HttpReceiver {
 public:
  explicit ProbeReceiver(std::string name) : name_(std::move(name)) {}

  void begin(const HttpHead& head) override {
    require_plain(head, name_);
    if (head.status == 206) {
      const auto range = parse_content_range(head.value("content-range"));
      if (!range || range->first != 0) {
        throw refused(name_, "the server answers with another range of bytes than was asked for");
      }
      version = Version::of(head, range->size);
    } else if (head.number("content-length") == std::uint64_t{0}) {
      version = Version::of(head, 0);
    } else {
      throw Error(ErrorKind::kUnsupported, "the server does not serve ranges of bytes")
          .in_file(name_)
          .hint("copy the file, or put it on a server that does, such as nginx or an object store");
    }
  }
  void add(std::span<const std::byte> /*bytes*/) override {}
  void end() override {}
  [[noreturn]] void refuse(const HttpHead& head, const std::string& body) override {
    // An empty object has no first byte. Not all servers tell the size then.
    const std::string* range = head.find("content-range");
    if (head.status == 416 && (range == nullptr || *range == "bytes */0")) throw IsEmpty{};
    throw_status(head, body, name_);
  }

  struct IsEmpty {};
  Version version;

 private:
  std::string name_;
};

class RemoteObject final : public RangeFetcher {
 public:
  explicit RemoteObject(std::shared_ptr<KnownVersion> known) : known_(std::move(known)) {}

  const std::string& name() const noexcept override { return known_->address.name; }
  std::uint64_t size() const noexcept override { return known_->version.size; }
  std::int64_t mtime_ns() const noexcept override { return known_->version.mtime_ns; }
  FileStamp stamp() const noexcept override {
    const Version& found = known_->version;
    const std::string& version = found.is_certain() ? found.etag : found.last_modified;
    return {.device = XXH3_64bits(name().data(), name().size()),
            .inode = XXH3_64bits(version.data(), version.size())};
  }
  const std::string& identity() const noexcept override { return known_->identity; }
  bool is_opened() const noexcept override { return known_->opened; }
  void check_unchanged() const override { known_->require_unchanged(); }

  void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight when,
             Done done) const override {
    HttpRequest request = known_->address.request();
    request.headers.push_back("Range: bytes=" + std::to_string(range.offset()) + "-" +
                              std::to_string(range.end() - 1));
    request.headers.push_back(known_->version.condition());
    auto count_and_tell = [kind = known_->address.kind,
                           done = std::move(done)](const std::exception_ptr& failure) {
      if (failure != nullptr) counters().source_failed(kind);
      done(failure);
    };
    HttpEngine::process().submit(
        std::move(request), std::make_shared<RangeReceiver>(known_, range, std::move(out)),
        when == Foresight::kAhead ? HttpPriority::kAhead : HttpPriority::kNeeded,
        std::move(count_and_tell));
  }

 private:
  std::shared_ptr<KnownVersion> known_;
};

Version probe(const RemoteAddress& address) {
  HttpRequest request = address.request();
  request.headers.push_back("Range: bytes=0-" + std::to_string(kProbeBytes - 1));
  const auto receiver = std::make_shared<ProbeReceiver>(address.name);
  try {
    HttpEngine::process().perform(std::move(request), receiver);
  } catch (const ProbeReceiver::IsEmpty&) {
    // A refusal does not tell the version: what answers for the whole, which is nothing, does.
    HttpEngine::process().perform(address.request(), receiver);
  }
  return receiver->version;
}

/// @param version_id what else tells versions apart
std::string identity_of(const RemoteAddress& address, const Version& version,
                        const std::string& version_id) {
  return address.reader + "\n" + address.name + "\n" + version_id + "\n" + version.etag + "\n" +
         std::to_string(version.size);
}

}  // namespace

std::int64_t time_of_list(const std::string& text) {
  std::tm time{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return 0;
  return std::int64_t{::timegm(&time)} * 1'000'000'000;
}

RangeFetcherPtr open_remote_object(RemoteAddress address) {
  auto known = std::make_shared<KnownVersion>();
  known->version = probe(address);
  const Version& version = known->version;
  if (!version.is_certain() && version.last_modified.empty() && version.size > 0) {
    throw Error(ErrorKind::kUnsupported,
                "the server gives neither a strong ETag nor a modification time, so that a change "
                "of the file while it is read would go unnoticed")
        .in_file(address.name);
  }
  if (version.is_certain()) {
    known->identity = identity_of(address, version, version.version_id);
  }
  known->address = std::move(address);
  return std::make_shared<RemoteObject>(std::move(known));
}

RangeFetcherPtr open_listed_object(RemoteAddress address, const ListedObject& listed) {
  auto known = std::make_shared<KnownVersion>();
  known->version.size = listed.size;
  known->version.etag = "\"" + listed.etag + "\"";
  known->version.mtime_ns = time_of_list(listed.modified);
  known->opened = false;
  // A list does not tell the version's ID: its time stands for it.
  known->identity = identity_of(address, known->version, listed.modified);
  known->address = std::move(address);
  return std::make_shared<RemoteObject>(std::move(known));
}

ByteSourcePtr open_remote_source(RemoteAddress address) {
  return std::make_shared<PooledSource>(open_remote_object(std::move(address)));
}

ByteSourcePtr open_listed_source(RemoteAddress address, const ListedObject& listed) {
  return std::make_shared<PooledSource>(open_listed_object(std::move(address), listed));
}

ByteSourcePtr open_web_source(const std::string& name, const std::string& url,
                              const std::string& reader) {
  const auto ask = [name, url] {
    HttpRequest request;
    request.url = url;
    request.name = name;
    return request;
  };
  return open_remote_source({.name = name, .request = ask, .reader = reader});
}

}  // namespace reshardfs
