// SPDX-License-Identifier: Apache-2.0
#include "transport/aws_credentials.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "transport/http_engine.h"
#include "transport/http_message.h"
#include "transport/s3_listing.h"
#include "transport/text_receiver.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMaxCredentials = 1 << 20;
/// Keys are made anew before they end, so that no request meets the end.
constexpr std::chrono::minutes kMargin{5};
constexpr std::chrono::minutes kShortest{1};
constexpr std::int64_t kTick = 2;  // seconds

/// @return nothing if there is no such file.
std::optional<std::string> text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string without_slash(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

using Section = std::map<std::string, std::string>;

std::string value_of(const Section& section, const std::string& key) {
  const auto found = section.find(key);
  return found == section.end() ? "" : found->second;
}

/// Services of systemd and helpers of mount(8) have no $HOME.
std::optional<std::string> home_of_user() {
  constexpr std::size_t kEntryBytes = 1 << 14;
  std::vector<char> buffer(kEntryBytes);
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr || found->pw_dir == nullptr) return std::nullopt;
  return found->pw_dir;
}

AwsFiles files_of(const Environment& environment) {
  const std::filesystem::path home = environment("HOME").value_or("");
  const auto path = [&](const char* variable, const char* name) -> std::filesystem::path {
    const auto given = environment(variable);
    const auto file = given ? std::filesystem::path(*given) : home / ".aws" / name;
    return file.is_absolute() ? file : "";
  };
  return {path("AWS_SHARED_CREDENTIALS_FILE", "credentials"), path("AWS_CONFIG_FILE", "config")};
}

/// The profile's values of both files; those of the credentials file win.
/// @return nothing if neither has it.
std::optional<Section> section_of(const std::string& profile, const AwsFiles& files) {
  std::optional<Section> section;
  for (const auto& file : files) {
    const auto text = file.empty() ? std::nullopt : text_of(file);
    if (!text) continue;
    IniSections sections = parse_ini(*text);
    const auto own = sections.find(profile);
    if (own == sections.end()) continue;
    if (!section) section.emplace();
    section->merge(own->second);
  }
  return section;
}

Section profile_of(const std::string& profile, bool asked_for, const AwsFiles& files) {
  auto section = section_of(profile, files);
  if (!section && asked_for) {
    throw Error(ErrorKind::kMissing,
                "AWS's configuration has no profile '" + printable(profile) + "'")
        .hint("see ~/.aws/credentials and ~/.aws/config");
  }
  return std::move(section).value_or(Section{});
}

AwsKeys keys_of(const Section& section) {
  return {value_of(section, "aws_access_key_id"), value_of(section, "aws_secret_access_key"),
          value_of(section, "aws_session_token")};
}

}  // namespace

IniSections parse_ini(const std::string& text) {
  constexpr std::string_view kProfile = "profile ";
  IniSections out;
  std::string section;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // What is indented belongs to the key before it ("s3 =").
    const bool nested = line.starts_with(' ') || line.starts_with('\t');
    line = std::string(trimmed(line));
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      section = std::string(trimmed(std::string_view(line).substr(1, line.size() - 2)));
      if (section.starts_with(kProfile)) {
        section = std::string(trimmed(std::string_view(section).substr(kProfile.size())));
      }
      out[section];
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || nested) continue;
    const std::string key(trimmed(std::string_view(line).substr(0, equals)));
    out[section][key] = trimmed(std::string_view(line).substr(equals + 1));
  }
  return out;
}

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
    return std::string_view(name) == "HOME" ? home_of_user() : std::nullopt;
  };
}

AwsConfiguration aws_configuration(const S3Settings& settings, const Environment& environment) {
  AwsConfiguration out;
  const auto first = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names) {
      if (auto value = environment(name)) return *value;
    }
    return "";
  };
  out.profile =
      settings.profile.empty() ? first({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}) : settings.profile;
  const bool asked_for = !out.profile.empty();
  if (!asked_for) out.profile = "default";
  const AwsFiles files = files_of(environment);
  const Section section = profile_of(out.profile, asked_for, files);
  const auto choose = [&](const std::string& setting, std::initializer_list<const char*> names,
                          const char* key) {
    if (!setting.empty()) return setting;
    std::string value = first(names);
    return value.empty() ? value_of(section, key) : value;
  };
  out.region = choose(settings.region, {"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
  if (out.region.empty()) out.region = "us-east-1";
  out.endpoint = without_slash(
      choose(settings.endpoint, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url"));
  out.ca_file = choose("", {"AWS_CA_BUNDLE"}, "ca_bundle");
  if (settings.anonymous) return out;

  // A profile that was named on the command line is not overruled by what a shell happens to have.
  AwsKeys keys;
  if (settings.profile.empty()) {
    keys = {first({"AWS_ACCESS_KEY_ID"}), first({"AWS_SECRET_ACCESS_KEY"}),
            first({"AWS_SESSION_TOKEN"})};
  }
  if (keys.id.empty() && keys.secret.empty()) {
    keys = keys_of(section);
    if (!keys.id.empty()) out.key_files = files;
  }
  if (keys.id.empty() != keys.secret.empty()) {
    throw Error(ErrorKind::kUsage, keys.id.empty() ? "there is a secret access key without its ID"
                                                   : "there is an access key ID without its secret")
        .hint("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or correct ~/.aws/credentials");
  }
  if (!keys.id.empty()) {
    out.keys = std::move(keys);
    return out;
  }
  out.token_file = choose("", {"AWS_WEB_IDENTITY_TOKEN_FILE"}, "web_identity_token_file");
  out.role = choose("", {"AWS_ROLE_ARN"}, "role_arn");
  out.session = choose("", {"AWS_ROLE_SESSION_NAME"}, "role_session_name");
  if (out.session.empty()) out.session = "reshardfs";
  out.sts_endpoint = without_slash(first({"AWS_ENDPOINT_URL_STS"}));
  if (out.sts_endpoint.empty()) out.sts_endpoint = "https://sts." + out.region + ".amazonaws.com";
  return out;
}

// Without stamps: the files are read again, in case they have changed meanwhile.
AwsCredentials::AwsCredentials(AwsConfiguration configuration)
    : configuration_(std::move(configuration)), keys_(configuration_.keys), stamps_{} {}

AwsCredentials::Stamps AwsCredentials::stamps_of(const AwsFiles& files) noexcept {
  Stamps out{};
  for (std::size_t i = 0; i < files.size(); ++i) {
    struct stat status {};
    if (files[i].empty() || ::stat(files[i].c_str(), &status) != 0) continue;
    out[i] = {.device = status.st_dev,
              .inode = status.st_ino,
              .seconds = status.st_mtim.tv_sec,
              .nanoseconds = status.st_mtim.tv_nsec,
              .size = status.st_size};
  }
  return out;
}

void AwsCredentials::read_again() {
  const Stamps now = stamps_of(configuration_.key_files);
  if (now == stamps_) return;
  const auto section = section_of(configuration_.profile, configuration_.key_files);
  AwsKeys keys = section ? keys_of(*section) : AwsKeys{};
  // A file that is being written, or has gone, is looked at again for the next request.
  if (keys.id.empty() || keys.secret.empty()) return;
  keys_ = std::move(keys);
  // Within a tick of its clock, a file system gives two versions of a file the same time.
  const std::int64_t latest = std::max(now[0].seconds, now[1].seconds);
  stamps_ = latest + kTick < ::time(nullptr) ? now : Stamps{};
}

std::optional<AwsKeys> AwsCredentials::get() {
  if (configuration_.keys) {
    const std::scoped_lock lock(mutex_);
    if (configuration_.key_files != AwsFiles{}) read_again();
    return keys_;
  }
  if (configuration_.token_file.empty() || configuration_.role.empty()) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  if (std::chrono::system_clock::now() + kMargin >= expires_) exchange_token();
  return exchanged_;
}

void AwsCredentials::exchange_token() {
  const auto token = text_of(configuration_.token_file);
  if (!token) {
    throw Error(ErrorKind::kIo, "cannot be read")
        .in_file(configuration_.token_file.string())
        .hint("AWS_WEB_IDENTITY_TOKEN_FILE names it");
  }
  HttpRequest request;
  request.name = configuration_.sts_endpoint;
  request.url = configuration_.sts_endpoint + "/" +
                aws_query({{"Action", "AssumeRoleWithWebIdentity"},
                           {"Version", "2011-06-15"},
                           {"RoleArn", configuration_.role},
                           {"RoleSessionName", configuration_.session},
                           {"WebIdentityToken", std::string(trimmed(*token))}});
  const auto receiver = std::make_shared<TextReceiver>(
      request.name, kMaxCredentials, [&](const HttpHead& head, const std::string& body) {
        const std::string code = xml_text(body, "Code");
        throw Error(ErrorKind::kIo,
                    "the token for workload identity is refused: " + std::to_string(head.status) +
                        (code.empty() ? "" : " (" + printable(code) + ")"))
            .in_file(configuration_.sts_endpoint)
            .os_error(EACCES);
      });
  HttpEngine::process().perform(std::move(request), receiver);
  const std::string& xml = receiver->text();
  AwsKeys keys{xml_text(xml, "AccessKeyId"), xml_text(xml, "SecretAccessKey"),
               xml_text(xml, "SessionToken")};
  if (keys.id.empty() || keys.secret.empty()) {
    throw Error(ErrorKind::kBadInput, "the answer to a token for workload identity has no keys")
        .in_file(configuration_.sts_endpoint);
  }
  const auto now = std::chrono::system_clock::now();
  std::tm time{};
  const bool told =
      ::strptime(xml_text(xml, "Expiration").c_str(), "%Y-%m-%dT%H:%M:%S", &time) != nullptr;
  const auto end = told ? std::chrono::system_clock::from_time_t(::timegm(&time)) : now;
  exchanged_ = std::move(keys);
  expires_ = std::max(end, now + kMargin + kShortest);
}

}  // namespace reshardfs
