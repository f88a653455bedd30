// SPDX-License-Identifier: Apache-2.0
#include "transport/s3_objects.h"

#include <cerrno>
#include <utility>

#include "reshardfs/error.h"

#include "transport/http_engine.h"
#include "transport/settings.h"

namespace reshardfs {
std::string shown_s3(const S3Name& name) {
  return "s3://" + name.bucket + (name.key.empty() ? "" : "/" + name.key);
}

std::chrono::milliseconds patience_to_send(std::size_t bytes) {
  constexpr std::size_t kBytesInAMillisecond = 256;
  return transport_settings().patience + std::chrono::milliseconds(bytes / kBytesInAMillisecond);
}

std::shared_ptr<TextReceiver> s3_receiver(const S3Name& name, std::size_t most) {
  return std::make_shared<TextReceiver>(
      shown_s3(name), most,
      [shown = shown_s3(name)](const HttpHead& head, const std::string& body) {
        throw_s3_refusal(head, body, shown);
      });
}

std::string checked_etag(const HttpHead& head, const Md5& sum, const S3Name& name) {
  std::string etag = bare_etag(head.value("etag"));
  // Of a store that encrypts it may look like a checksum, and be none.
  const bool is_encrypted = head.value("x-amz-server-side-encryption").starts_with("aws:kms") ||
                            head.find("x-amz-server-side-encryption-customer-algorithm") != nullptr;
  if (is_encrypted || !is_checksum_etag(etag) || etag == etag_of(sum)) return etag;
  throw Error(ErrorKind::kIo, "the store received other bytes than were sent: the checksums differ")
      .in_file(shown_s3(name))
      .os_error(EIO);
}

void list_s3_objects(const S3Name& prefix, const std::function<bool(S3Object& object)>& visit) {
  const std::string shown = shown_s3(prefix);
  std::string token;
  do {
    S3Store::Query query{
        {"list-type", "2"}, {"encoding-type", "url"}, {"max-keys", "1000"}, {"prefix", prefix.key}};
    if (!token.empty()) query.emplace_back("continuation-token", token);
    const auto receiver = s3_receiver(prefix, kMaxS3Page);
    HttpEngine::process().perform(
        S3Store::process().request("GET", {prefix.bucket, ""}, shown, query), receiver);
    S3ObjectPage page = parse_s3_objects(receiver->text(), shown);
    for (S3Object& object : page.objects) {
      if (object.key.starts_with(prefix.key) && !visit(object)) return;
    }
    if (!page.next.empty() && page.next == token) {
      throw Error(ErrorKind::kBadInput, "the store's list has a page that leads to itself")
          .in_file(shown);
    }
    token = std::move(page.next);
  } while (!token.empty());
}

std::optional<S3Object> look_at_s3_object(const S3Name& name) {
  const auto receiver = s3_receiver(name, 0);
  try {
    HttpEngine::process().perform(S3Store::process().request("HEAD", name, shown_s3(name)),
                                  receiver);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kMissing) return std::nullopt;
    throw;
  }
  return S3Object{name.key,
                  receiver->head().number("content-length").value_or(0),
                  bare_etag(receiver->head().value("etag")),
                  {}};
}

std::optional<std::string> read_s3_text(const S3Name& name, std::size_t most) {
  const auto receiver = s3_receiver(name, most);
  try {
    HttpEngine::process().perform(S3Store::process().request("GET", name, shown_s3(name)),
                                  receiver);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kMissing) return std::nullopt;
    throw;
  }
  return receiver->text();
}

std::string write_s3_object(const S3Name& name, std::span<const std::byte> bytes) {
  const Md5 sum = md5_of(bytes);
  const auto receiver = s3_receiver(name, kMaxS3Answer);
  HttpRequest request = S3Store::process().request("PUT", name, shown_s3(name), {},
                                                   {{"content-md5", base64(sum)}}, HttpBody{bytes});
  request.patience = patience_to_send(bytes.size());
  HttpEngine::process().perform(std::move(request), receiver);
  return checked_etag(receiver->head(), sum, name);
}

void remove_s3_object(const S3Name& name) {
  try {
    HttpEngine::process().perform(S3Store::process().request("DELETE", name, shown_s3(name)),
                                  s3_receiver(name, kMaxS3Answer));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMissing) throw;
  }
}

}  // namespace reshardfs
