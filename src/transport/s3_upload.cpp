// SPDX-License-Identifier: Apache-2.0
#include "transport/s3_upload.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "transport/http_engine.h"
#include "transport/s3_objects.h"
#include "transport/settings.h"
#include "transport/text_receiver.h"

namespace reshardfs {
namespace {

Error leads_to_itself(const std::string& shown) {
  return Error(ErrorKind::kBadInput, "the store's list has a page that leads to itself")
      .in_file(shown);
}

S3PartPage part_page(const S3Name& name, const std::string& id, std::uint64_t after) {
  S3Store::Query query{{"max-parts", "1000"}, {"uploadId", id}};
  if (after > 0) query.emplace_back("part-number-marker", std::to_string(after));
  const std::string shown = shown_s3(name);
  const auto receiver = s3_receiver(name, kMaxS3Page);
  HttpEngine::process().perform(S3Store::process().request("GET", name, shown, query), receiver);
  return parse_s3_parts(receiver->text(), shown);
}

}  // namespace

void list_s3_uploads(const S3Name& prefix, const std::function<void(S3OpenUpload& upload)>& visit) {
  const std::string shown = shown_s3(prefix);
  S3OpenUpload next;
  do {
    S3Store::Query query{
        {"uploads", ""}, {"encoding-type", "url"}, {"max-uploads", "1000"}, {"prefix", prefix.key}};
    if (!next.key.empty()) {
      query.emplace_back("key-marker", next.key);
      query.emplace_back("upload-id-marker", next.id);
    }
    const auto receiver = s3_receiver(prefix, kMaxS3Page);
    HttpEngine::process().perform(
        S3Store::process().request("GET", {prefix.bucket, ""}, shown, query), receiver);
    S3UploadPage page = parse_s3_uploads(receiver->text(), shown);
    for (S3OpenUpload& upload : page.uploads) visit(upload);
    if (!page.next.key.empty() && page.next.key == next.key && page.next.id == next.id) {
      throw leads_to_itself(shown);
    }
    next = std::move(page.next);
  } while (!next.key.empty());
}

void abort_s3_upload(const S3Name& name, const std::string& id) {
  try {
    HttpEngine::process().perform(
        S3Store::process().request("DELETE", name, shown_s3(name), {{"uploadId", id}}),
        s3_receiver(name, kMaxS3Answer));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMissing) throw;
  }
}

S3BegunUpload look_at_s3_upload(const S3Name& name, const std::string& id) {
  S3BegunUpload upload{id};
  std::uint64_t after = 0;
  do {
    S3PartPage page = part_page(name, id, after);
    upload.needs_checksums = upload.needs_checksums || page.needs_checksums;
    for (S3Part& part : page.parts) {
      upload.parts.insert_or_assign(static_cast<std::size_t>(part.number - 1), std::move(part));
    }
    // Numbers ascend, so that every list has an end.
    if (page.next != 0 && page.next <= after) throw leads_to_itself(shown_s3(name));
    after = page.next;
  } while (after != 0);
  return upload;
}

namespace {

// A store may say nothing while it puts thousands of parts together.
constexpr std::chrono::milliseconds kLongestCompletion{60'000};
constexpr std::chrono::milliseconds kPatienceToAbandon{3000};

/// Throws what it means that an upload is not known any more. Everything else is another's task.
void throw_lost_upload(const std::string& answer, const std::string& name) {
  if (xml_text(answer, "Code") != "NoSuchUpload") return;
  throw Error(ErrorKind::kIo,
              "another process has aborted the upload or completed it, or a rule of the bucket has "
              "removed it")
      .in_file(name)
      .os_error(ENOENT)
      .hint(
          "run the same command again, which begins this object anew; let only one process "
          "export it");
}

/// Whether a store that answers so would do it again: the upload was begun in another way than the
/// requests are made, or has parts that the store does not put together.
bool is_of_no_use(const std::string& answer) {
  static constexpr std::array<std::string_view, 4> kCodes{"InvalidRequest", "InvalidPart",
                                                          "InvalidPartOrder", "EntityTooSmall"};
  return std::find(kCodes.begin(), kCodes.end(), xml_text(answer, "Code")) != kCodes.end();
}

/// @param useless set if the answer says so. Must live until there is one.
std::shared_ptr<TextReceiver> receiver_for(const S3Name& name, std::size_t most,
                                           std::atomic<bool>& useless) {
  return std::make_shared<TextReceiver>(
      shown_s3(name), most,
      [shown = shown_s3(name), &useless](const HttpHead& head, const std::string& body) {
        throw_lost_upload(body, shown);
        if (is_of_no_use(body)) useless = true;
        throw_s3_refusal(head, body, shown);
      });
}

/// A store begins to answer before it knows whether it succeeds, so that a failure may come with
/// the status of success.
class CompletionReceiver final : public HttpReceiver {
 public:
  CompletionReceiver(const S3Name& name, std::atomic<bool>& useless)
      : shown_(shown_s3(name)), answer_(receiver_for(name, kMaxS3Answer, useless)) {}

  void begin(const HttpHead& head) override { answer_->begin(head); }
  void add(std::span<const std::byte> bytes) override { answer_->add(bytes); }
  void end() override {
    const std::string code = xml_text(answer_->text(), "Code");
    if (code.empty()) return;
    throw_lost_upload(answer_->text(), shown_);
    throw HttpRetry{"the server answers " + printable(code)};
  }
  [[noreturn]] void refuse(const HttpHead& head, const std::string& body) override {
    answer_->refuse(head, body);
  }

  const TextReceiver& answer() const noexcept { return *answer_; }

 private:
  std::string shown_;
  std::shared_ptr<TextReceiver> answer_;
};

}  // namespace

std::string completion_xml(std::span<const std::string> etags) {
  std::string xml = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (std::size_t i = 0; i < etags.size(); ++i) {
    xml += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>&quot;";
    for (const char c : etags[i]) {
      if (c == '&') {
        xml += "&amp;";
      } else if (c == '<') {
        xml += "&lt;";
      } else {
        xml += c;
      }
    }
    xml += "&quot;</ETag></Part>";
  }
  return xml + "</CompleteMultipartUpload>";
}

S3Upload::S3Upload(S3Name name, std::size_t parts)
    : name_(std::move(name)), sums_(parts), etags_(parts) {
  const auto receiver = s3_receiver(name_, kMaxS3Answer);
  HttpEngine::process().perform(
      S3Store::process().request("POST", name_, shown_s3(name_), {{"uploads", ""}}, {}, HttpBody{}),
      receiver);
  id_ = xml_text(receiver->text(), "UploadId");
  if (!id_.empty()) return;
  throw Error(ErrorKind::kBadInput, "the store's answer has no name of the upload")
      .in_file(shown_s3(name_));
}

S3Upload::S3Upload(S3Name name, std::size_t parts, S3BegunUpload begun)
    : name_(std::move(name)),
      id_(std::move(begun.id)),
      begun_(std::move(begun.parts)),
      sums_(parts),
      etags_(parts) {}

bool S3Upload::has(std::size_t part, std::size_t size, const Md5& sum) const {
  const auto found = begun_.find(part);
  // An ETag that is no checksum differs, too.
  return found != begun_.end() && found->second.size == size && found->second.etag == etag_of(sum);
}

bool S3Upload::send(std::size_t part, std::span<const std::byte> bytes) {
  const Md5 sum = md5_of(bytes);
  if (has(part, bytes.size(), sum)) {
    sums_[part] = sum;
    etags_[part] = etag_of(sum);
    return false;
  }
  const auto receiver = receiver_for(name_, kMaxS3Answer, useless_);
  HttpRequest request = S3Store::process().request(
      "PUT", name_, shown_s3(name_), {{"partNumber", std::to_string(part + 1)}, {"uploadId", id_}},
      {{"content-md5", base64(sum)}}, HttpBody{bytes});
  request.patience = patience_to_send(bytes.size());
  perform(std::move(request), receiver);
  sums_[part] = sum;
  etags_[part] = checked_etag(receiver->head(), sum, name_);
  if (etags_[part] != etag_of(sum)) comparable_ = false;
  return true;
}

void S3Upload::perform(HttpRequest request, const std::shared_ptr<HttpReceiver>& receiver) {
  try {
    HttpEngine::process().perform(std::move(request), receiver);
  } catch (const Error& error) {
    if (error.os_error() == ENOENT) lost_ = true;
    throw;
  }
}

bool S3Upload::has_parts() const {
  if (completed_ || lost_ || useless_) return false;
  return !begun_.empty() ||
         std::any_of(etags_.begin(), etags_.end(), [](const auto& etag) { return !etag.empty(); });
}

std::string S3Upload::complete() {
  const std::string expected = etag_of_parts(sums_);
  std::string etag;
  try {
    etag = complete_once();
  } catch (const Error&) {
    // An attempt whose answer was lost may have succeeded; the next one then finds no upload.
    const auto there = look_at_s3_object(name_);
    if (!comparable_ || !there || there->etag != expected) throw;
    etag = there->etag;
  }
  completed_ = true;
  if (etag.empty()) {
    const auto there = look_at_s3_object(name_);
    if (there) etag = there->etag;
  }
  if (comparable_ && is_checksum_etag(etag) && etag != expected) {
    throw Error(ErrorKind::kIo,
                "the store has put other bytes together than were sent: the checksums differ")
        .in_file(shown_s3(name_))
        .os_error(EIO);
  }
  return etag;
}

std::string S3Upload::complete_once() {
  const auto receiver = std::make_shared<CompletionReceiver>(name_, useless_);
  HttpRequest request =
      S3Store::process().request("POST", name_, shown_s3(name_), {{"uploadId", id_}}, {},
                                 HttpBody::of(completion_xml(etags_)));
  request.silence = kLongestCompletion;
  request.patience = transport_settings().patience + kLongestCompletion;
  perform(std::move(request), receiver);
  const std::string& answer = receiver->answer().text();
  std::string etag = bare_etag(xml_text(answer, "ETag"));
  // Ceph's gateway names the object alone.
  if (!etag.empty() || !xml_text(answer, "Key").empty()) return etag;
  throw Error(ErrorKind::kIo, "the store does not say that the upload is complete")
      .in_file(shown_s3(name_))
      .os_error(EIO);
}

void S3Upload::abandon() noexcept {
  if (completed_ || lost_) return;
  try {
    HttpRequest request =
        S3Store::process().request("DELETE", name_, shown_s3(name_), {{"uploadId", id_}});
    request.patience = kPatienceToAbandon;
    HttpEngine::process().perform(std::move(request), s3_receiver(name_, kMaxS3Answer));
  } catch (...) {
    // The parts are found and removed when this file is written again.
  }
}

}  // namespace reshardfs
