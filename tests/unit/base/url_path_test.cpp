// SPDX-License-Identifier: Apache-2.0
#include "base/text/url_path.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(UrlPath, ASchemeIsALetterAndMore) {
  EXPECT_EQ(scheme_length("s3://bucket"), 2U);
  EXPECT_EQ(scheme_length("a+b-c.9:///"), 7U);
  for (const char* text : {"", "s3:/bucket", "3s://bucket", "://x", "./s3://bucket", "s 3://x"}) {
    EXPECT_EQ(scheme_length(text), 0U) << text;
  }
}

TEST(UrlPath, AUrlMayHaveLostASlash) {
  EXPECT_EQ(meant_url("s3:/bucket/out"), "s3://bucket/out");
  EXPECT_EQ(meant_url("https:/host"), "https://host");
  for (const char* text :
       {"", "s3://bucket", "s3:bucket", "./s3:/bucket", "/s3:/bucket", "a/s3:/bucket", ":/x"}) {
    EXPECT_EQ(meant_url(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace reshardfs
