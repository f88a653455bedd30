// SPDX-License-Identifier: Apache-2.0
#include "transport/aws_credentials.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::TempDir;

class AwsCredentialsTest : public ::testing::Test {
 protected:
  AwsConfiguration configuration(const S3Settings& settings = {}) {
    variables.try_emplace("HOME", dir.path().string());
    return aws_configuration(settings, [this](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    });
  }

  TempDir dir;
  std::map<std::string, std::string> variables;
};

TEST(AwsIni, ReadsSectionsOfBothFiles) {
  const IniSections sections = parse_ini(
      "# comment\n[default]\naws_access_key_id = A\naws_secret_access_key=S=S\n; other\n"
      "s3 =\n  endpoint_url = http://nested\n[profile  work]\nregion= eu\nno key\n");
  EXPECT_EQ(sections.at("default").at("aws_access_key_id"), "A");
  EXPECT_EQ(sections.at("default").at("aws_secret_access_key"), "S=S");
  EXPECT_EQ(sections.at("work").at("region"), "eu");
  EXPECT_FALSE(sections.at("default").contains("endpoint_url"));
  EXPECT_EQ(parse_ini("[default]\r\na = b\r\n").at("default").at("a"), "b");
}

TEST(AwsEnvironment, TheHomeOfAServiceIsThatOfItsUser) {
  const char* const set = std::getenv("HOME");
  const std::string before = set == nullptr ? "" : set;
  ::setenv("HOME", "/given", 1);
  EXPECT_EQ(process_environment()("HOME"), "/given");
  ::unsetenv("HOME");
  const passwd* const user = ::getpwuid(::geteuid());
  ASSERT_NE(user, nullptr);
  EXPECT_EQ(process_environment()("HOME"), user->pw_dir);
  EXPECT_EQ(process_environment()("RESHARDFS_NOT_SET"), std::nullopt);
  if (set != nullptr) ::setenv("HOME", before.c_str(), 1);
}

TEST_F(AwsCredentialsTest, WithoutAnythingRequestsAreNotSigned) {
  const AwsConfiguration found = configuration();
  EXPECT_FALSE(found.keys);
  EXPECT_EQ(found.region, "us-east-1");
  EXPECT_EQ(found.endpoint, "");
  EXPECT_EQ(AwsCredentials(found).get(), std::nullopt);
}

TEST_F(AwsCredentialsTest, TheEnvironmentWinsOverFiles) {
  dir.write(".aws/credentials", "[default]\naws_access_key_id=F\naws_secret_access_key=f\n");
  dir.write(".aws/config", "[default]\nregion=eu-west-1\nendpoint_url=https://store/\n");
  AwsConfiguration found = configuration();
  EXPECT_EQ(found.keys->id, "F");
  EXPECT_EQ(found.region, "eu-west-1");
  EXPECT_EQ(found.endpoint, "https://store");
  variables["AWS_ACCESS_KEY_ID"] = "E";
  variables["AWS_SECRET_ACCESS_KEY"] = "e";
  variables["AWS_SESSION_TOKEN"] = "t";
  variables["AWS_DEFAULT_REGION"] = "ap-1";
  variables["AWS_ENDPOINT_URL"] = "http://other";
  found = configuration();
  EXPECT_EQ(found.keys->id, "E");
  EXPECT_EQ(found.keys->token, "t");
  EXPECT_EQ(found.region, "ap-1");
  EXPECT_EQ(found.endpoint, "http://other");
  variables["AWS_REGION"] = "ap-2";
  variables["AWS_ENDPOINT_URL_S3"] = "http://s3";
  found = configuration({.endpoint = "http://given/"});
  EXPECT_EQ(found.region, "ap-2");
  EXPECT_EQ(found.endpoint, "http://given");
}

TEST_F(AwsCredentialsTest, AProfileThatIsNamedWinsOverTheEnvironment) {
  dir.write(".aws/credentials", "[work]\naws_access_key_id=W\naws_secret_access_key=w\n");
  dir.write(".aws/config", "[profile work]\nregion=eu\naws_access_key_id=X\n");
  variables["AWS_ACCESS_KEY_ID"] = "E";
  variables["AWS_SECRET_ACCESS_KEY"] = "e";
  const AwsConfiguration found = configuration({.profile = "work"});
  EXPECT_EQ(found.keys->id, "W");
  EXPECT_EQ(found.region, "eu");
  expect_error(ErrorKind::kMissing, {"no profile 'rest'"},
               [&] { configuration({.profile = "rest"}); });
}

TEST_F(AwsCredentialsTest, FilesMayBeElsewhere) {
  variables["AWS_SHARED_CREDENTIALS_FILE"] =
      dir.write("keys", "[p]\naws_access_key_id=K\naws_secret_access_key=k\n").string();
  variables["AWS_PROFILE"] = "p";
  EXPECT_EQ(configuration().keys->id, "K");
}

TEST_F(AwsCredentialsTest, KeysOfAFileAreReadAgainWhenItChanges) {
  const auto file =
      dir.write(".aws/credentials", "[default]\naws_access_key_id=A\naws_secret_access_key=a\n");
  AwsCredentials credentials(configuration());
  EXPECT_EQ(credentials.get()->id, "A");
  // Replaced, as tools do, and Kubernetes for secrets.
  const auto next = dir.write(
      "next", "[default]\naws_access_key_id=B\naws_secret_access_key=b\naws_session_token=t\n");
  std::filesystem::rename(next, file);
  EXPECT_EQ(credentials.get()->id, "B");
  EXPECT_EQ(credentials.get()->secret, "b");
  EXPECT_EQ(credentials.get()->token, "t");
  // Written in place, and of the same size.
  dir.write(".aws/credentials", "[default]\naws_access_key_id=C\naws_secret_access_key=c\n");
  EXPECT_EQ(credentials.get()->id, "C");
  EXPECT_EQ(credentials.get()->token, "");
  EXPECT_EQ(credentials.configuration().keys->id, "A");  // what the process began with
}

TEST_F(AwsCredentialsTest, WhatIsNoKeyDoesNotReplaceOne) {
  const auto file = dir.write("keys", "[default]\naws_access_key_id=A\naws_secret_access_key=a\n");
  variables["AWS_SHARED_CREDENTIALS_FILE"] = file.string();
  AwsCredentials credentials(configuration());
  for (const char* text :
       {"", "[default]\naws_access_key_id=B\n", "[other]\naws_access_key_id=B\n"}) {
    dir.write("keys", text);
    EXPECT_EQ(credentials.get()->id, "A") << text;
  }
  std::filesystem::remove(file);
  EXPECT_EQ(credentials.get()->id, "A");
  dir.write("keys", "[default]\naws_access_key_id=B\naws_secret_access_key=b\n");
  EXPECT_EQ(credentials.get()->id, "B");
}

TEST_F(AwsCredentialsTest, KeysOfTheEnvironmentStay) {
  variables["AWS_ACCESS_KEY_ID"] = "E";
  variables["AWS_SECRET_ACCESS_KEY"] = "e";
  AwsCredentials credentials(configuration());
  dir.write(".aws/credentials", "[default]\naws_access_key_id=F\naws_secret_access_key=f\n");
  EXPECT_EQ(credentials.get()->id, "E");
}

TEST_F(AwsCredentialsTest, HalfAKeyIsRefused) {
  variables["AWS_ACCESS_KEY_ID"] = "E";
  expect_error(ErrorKind::kUsage, {"without its secret"}, [&] { configuration(); });
  variables.erase("AWS_ACCESS_KEY_ID");
  variables["AWS_SECRET_ACCESS_KEY"] = "e";
  expect_error(ErrorKind::kUsage, {"without its ID"}, [&] { configuration(); });
}

TEST_F(AwsCredentialsTest, ATokenIsExchangedWhereThereAreNoKeys) {
  variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = (dir.path() / "absent").string();
  variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/x";
  variables["AWS_REGION"] = "eu-1";
  AwsConfiguration found = configuration();
  EXPECT_EQ(found.sts_endpoint, "https://sts.eu-1.amazonaws.com");
  EXPECT_EQ(found.session, "reshardfs");
  expect_error(ErrorKind::kIo, {"absent", "AWS_WEB_IDENTITY_TOKEN_FILE"},
               [&] { AwsCredentials(found).get(); });
  variables["AWS_ACCESS_KEY_ID"] = "E";
  variables["AWS_SECRET_ACCESS_KEY"] = "e";
  EXPECT_EQ(AwsCredentials(configuration()).get()->id, "E");
  found = configuration({.anonymous = true});
  EXPECT_EQ(AwsCredentials(found).get(), std::nullopt);
}

}  // namespace
}  // namespace reshardfs
