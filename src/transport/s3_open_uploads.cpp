// SPDX-License-Identifier: Apache-2.0
#include "transport/s3_open_uploads.h"

#include <cstdint>
#include <utility>

#include "reshardfs/error.h"

#include "transport/http_engine.h"
#include "transport/s3_objects.h"

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

}  // namespace reshardfs
