// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/server_checks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "reshardfs/error.h"

#include "cli/words/shared_words.h"
#include "storage/location.h"
#include "transport/s3_objects.h"
#include "transport/s3_store.h"
#include "transport/settings.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

constexpr const char* kServerCheck = "server";
constexpr const char* kCertificateCheck = "server-certificate";
constexpr const char* kClockCheck = "server-clock";
constexpr const char* kListCheck = "s3-list";
constexpr const char* kReadCheck = "s3-read";
constexpr std::int64_t kDay = 86400;
/// After that a certificate should have been renewed.
constexpr std::int64_t kSoon = 14 * kDay;
/// A store refuses a signature that is 15 minutes old, or of a time to come.
constexpr std::int64_t kRefusedSkew = 15 * 60;
constexpr std::int64_t kLargeSkew = 5 * 60;

std::string date_of(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

/// Short enough to report a failure before the time of the check is over.
void set_up(const Given& given, std::chrono::seconds limit) {
  apply_storage(given);
  auto& patience = transport_settings().patience;
  patience = std::min<std::chrono::milliseconds>(patience, limit * 2 / 3);
}

std::string probed_url(const std::string& source) {
  if (!source.starts_with("s3://")) return web_url(absolute_location(source));
  const S3Name name = S3Name::of(source);
  return S3Store::process().request("HEAD", {name.bucket, ""}, source).url;
}

Findings probe(const Given& given, const std::string& source, std::chrono::seconds limit) {
  set_up(given, limit);
  const std::string url = probed_url(source);
  const ServerProbe found = probe_server(url, limit * 2 / 3);
  Findings findings{server_answer(found, url), server_certificate(found, url, ::time(nullptr))};
  if (source.starts_with("s3://")) findings.push_back(server_clock(found));
  return findings;
}

Finding can_read(const S3Name& name, std::uint64_t size) {
  const std::string shown = shown_s3(name);
  if (size == 0) return skipped(kReadCheck, shown + " is empty");
  const auto receiver = s3_receiver(name, kMaxS3Answer);
  HttpEngine::process().perform(
      S3Store::process().request("GET", name, shown, {}, {{"range", "bytes=0-0"}}), receiver);
  return {.name = kReadCheck, .message = shown + " can be read"};
}

Error right_needed(Error error, const std::string& right, const S3Name& name) {
  if (error.os_error() != EACCES) return error;
  if (!S3Store::process().has_keys()) {
    return error.hint(
        "no keys were found, so that requests are not signed: put them into ~/.aws/credentials of "
        "the "
        "user who mounts, or set AWS_SHARED_CREDENTIALS_FILE");
  }
  return error.hint("give the key the right " + right + " on arn:aws:s3:::" + name.bucket);
}

/// The bucket is listed, and one byte of one object is read.
Findings list_and_read(const Given& given, const std::string& source, std::chrono::seconds limit) {
  set_up(given, limit);
  const S3Name prefix = S3Name::of(source);
  std::optional<S3Object> first;
  Findings findings;
  try {
    list_s3_objects(prefix, [&](S3Object& object) {
      first = object;
      return false;
    });
    findings.push_back({.name = kListCheck, .message = shown_s3(prefix) + " can be listed"});
  } catch (const Error& error) {
    return {failed(kListCheck, right_needed(error, "s3:ListBucket", prefix)),
            skipped(kReadCheck, "nothing is listed to be read")};
  }
  if (!first) {
    findings.back().health = Health::kFailed;
    findings.back().message += ", but there is no object with this prefix";
    findings.back().remedy = "check the URL";
    findings.push_back(skipped(kReadCheck, "there is nothing to read"));
    return findings;
  }
  try {
    findings.push_back(can_read({prefix.bucket, first->key}, first->size));
  } catch (const Error& error) {
    findings.push_back(failed(kReadCheck, right_needed(error, "s3:GetObject", prefix)));
  }
  return findings;
}

}  // namespace

Finding server_answer(const ServerProbe& probe, const std::string& url) {
  Finding finding{.name = kServerCheck, .message = origin_of(url) + " answers"};
  if (probe.failure.empty() || probe.is_untrusted) return finding;
  finding.health = Health::kFailed;
  finding.message = origin_of(url) + " does not answer: " + printable(probe.failure);
  finding.remedy = "curl -sSI " + origin_of(url);
  return finding;
}

Finding server_certificate(const ServerProbe& probe, const std::string& url, std::int64_t now) {
  if (!url.starts_with("https://")) return skipped(kCertificateCheck, "the URL is not https");
  if (!probe.failure.empty() && !probe.is_untrusted) {
    return skipped(kCertificateCheck, "the server does not answer");
  }
  Finding finding{.name = kCertificateCheck};
  const auto& certificate = probe.certificate;
  const auto after = certificate ? certificate->not_after : std::nullopt;
  const auto before = certificate ? certificate->not_before : std::nullopt;
  if (after && *after < now) {
    finding.health = Health::kFailed;
    finding.message = "has expired on " + date_of(*after);
    finding.remedy = "renew the certificate of the server";
  } else if (before && *before > now) {
    finding.health = Health::kFailed;
    finding.message = "is not valid before " + date_of(*before);
    finding.remedy = "timedatectl set-ntp true";
  } else if (probe.is_untrusted) {
    finding.health = Health::kFailed;
    finding.message = "is not trusted: " + printable(probe.failure);
    if (certificate && !certificate->issuer.empty()) {
      finding.message += "; issued by " + printable(certificate->issuer);
    }
    finding.remedy = "name the authority's certificates with --ca-file";
  } else if (after) {
    finding.message = "is trusted, and valid until " + date_of(*after);
    if (*after - now < kSoon) {
      finding.health = Health::kWarning;
      finding.remedy = "renew the certificate of the server";
    }
  } else {
    finding.message = "is trusted";
  }
  finding.message = origin_of(url) + ": the certificate " + finding.message;
  return finding;
}

Finding server_clock(const ServerProbe& probe) {
  if (!probe.failure.empty()) return skipped(kClockCheck, "the server does not answer");
  if (!probe.clock_difference) return skipped(kClockCheck, "the server does not state its time");
  const std::int64_t ahead = *probe.clock_difference;
  const std::int64_t seconds = ahead < 0 ? -ahead : ahead;
  Finding finding{.name = kClockCheck,
                  .message = seconds < 2
                                 ? "this machine and the server have the same time"
                                 : fmt::format("this machine's clock is {} s {} the server's",
                                               seconds, ahead > 0 ? "behind" : "ahead of")};
  if (seconds < kLargeSkew) return finding;
  finding.health = seconds < kRefusedSkew ? Health::kWarning : Health::kFailed;
  finding.message += "; S3 refuses signatures that are off by 15 minutes";
  finding.remedy = "timedatectl set-ntp true";
  return finding;
}

Findings check_server(const Given& given, const std::string& source, const BoundedChecks& bounded) {
  const std::string shown = shown_location(source);
  Findings findings =
      bounded.run(kServerCheck, shown, [&] { return probe(given, source, bounded.limit()); });
  if (!source.starts_with("s3://")) return findings;
  const bool answers = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.health == Health::kFailed && finding.name != kClockCheck;
  });
  if (!answers) {
    findings.push_back(skipped(kListCheck, "the server cannot be asked"));
    findings.push_back(skipped(kReadCheck, "the server cannot be asked"));
    return findings;
  }
  const Findings rights =
      bounded.run(kListCheck, shown, [&] { return list_and_read(given, source, bounded.limit()); });
  findings.insert(findings.end(), rights.begin(), rights.end());
  return findings;
}

}  // namespace reshardfs
