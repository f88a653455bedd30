// SPDX-License-Identifier: Apache-2.0
#include "transport/text_receiver.h"

#include <cerrno>
#include <utility>

#include "reshardfs/error.h"

#include "transport/s3_listing.h"

namespace reshardfs {

TextReceiver::TextReceiver(std::string name, std::size_t most, Refusal refusal)
    : name_(std::move(name)), most_(most), refusal_(std::move(refusal)) {}

void TextReceiver::begin(const HttpHead& head) {
  head_ = head;
  text_.clear();
  const std::string encoding = head.value("content-encoding");
  if (!encoding.empty() && encoding != "identity" && encoding != "aws-chunked") {
    throw Error(ErrorKind::kIo, "the server answers in the encoding '" + printable(encoding) +
                                    "', which was not asked for")
        .in_file(name_)
        .os_error(EIO);
  }
}

void TextReceiver::add(std::span<const std::byte> bytes) {
  if (bytes.size() > most_ - text_.size()) {
    throw Error(ErrorKind::kBadInput,
                "the server's answer has more than " + std::to_string(most_) + " bytes")
        .in_file(name_);
  }
  text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void TextReceiver::refuse(const HttpHead& head, const std::string& body) {
  refusal_(head, body);
  throw_status(head, body, name_);
}

void throw_status(const HttpHead& head, const std::string& body, const std::string& name) {
  const std::string code = xml_text(body, "Code");
  const std::string answer = "the server answers " + std::to_string(head.status) +
                             (code.empty() ? "" : " (" + printable(code) + ")");
  switch (head.status) {
    case 401:
    case 403: {
      const Error denied =
          Error(ErrorKind::kIo, "access is denied: " + answer).in_file(name).os_error(EACCES);
      if (code == "SignatureDoesNotMatch" || code == "InvalidAccessKeyId") {
        throw Error(denied).hint("check the access key, its secret and the region");
      }
      if (code == "RequestTimeTooSkewed") throw Error(denied).hint("set this machine's clock");
      throw denied;
    }
    case 404:
    case 410:
      throw Error(ErrorKind::kMissing, "no such file").in_file(name);
    default:
      throw Error(ErrorKind::kIo, answer).in_file(name).os_error(EIO);
  }
}

}  // namespace reshardfs
