// SPDX-License-Identifier: Apache-2.0
#include "transport/s3_store.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "transport/settings.h"

namespace reshardfs {
namespace {

S3Settings settings_of(const std::string& endpoint, const std::string& region = "r1") {
  S3Settings settings;
  settings.endpoint = endpoint;
  settings.region = region;
  settings.anonymous = true;
  return settings;
}

std::string refusal(const S3Settings& settings) {
  try {
    S3Store::require_same(settings);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.message();
  }
}

TEST(S3Store, IsOneForAProcess) {
  EXPECT_EQ(refusal(settings_of("http://b:1")), "") << "none is there yet";
  s3_settings() = settings_of("http://a:1");
  static_cast<void>(S3Store::process());
  EXPECT_EQ(refusal(settings_of("http://a:1")), "");
  EXPECT_EQ(refusal(settings_of("http://b:1")),
            "this process reads from the store http://a:1 already, and cannot read from http://b:1 "
            "too");
  constexpr const char* kAnotherWay =
      "this process reads from the store http://a:1 already, with another region, profile, "
      "addressing or way of signing";
  EXPECT_EQ(refusal(settings_of("http://a:1", "r2")), kAnotherWay);
  S3Settings by_host = settings_of("http://a:1");
  by_host.addressing = S3Addressing::kHost;
  EXPECT_EQ(refusal(by_host), kAnotherWay);
  ::setenv("AWS_ACCESS_KEY_ID", "key", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  EXPECT_EQ(refusal(settings_of("http://a:1")), "");
  S3Settings with_keys = settings_of("http://a:1");
  with_keys.anonymous = false;
  EXPECT_EQ(refusal(with_keys), kAnotherWay);
  ::unsetenv("AWS_ACCESS_KEY_ID");
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
}

}  // namespace
}  // namespace reshardfs
