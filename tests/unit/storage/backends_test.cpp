// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "storage/backend.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

TEST(Backends, AreChosenByTheScheme) {
  EXPECT_EQ(&backend_of("/a/b"), &file_backend());
  EXPECT_EQ(&backend_of("a"), &file_backend());
  EXPECT_EQ(&backend_of("s3://bucket/key"), &s3_backend());
  EXPECT_EQ(&backend_of("http://host/a"), &web_backend());
  EXPECT_EQ(&backend_of("HTTPS://host/a"), &web_backend());
  EXPECT_EQ(&backend_of("a:/b"), &file_backend());
  EXPECT_EQ(&backend_of("urls:///l.json/a"), &url_list_backend());
  const std::vector<std::string_view> schemes = url_schemes();
  ASSERT_GE(schemes.size(), 3U);
  EXPECT_EQ(schemes[0], "http");
  EXPECT_EQ(schemes[1], "https");
  EXPECT_EQ(schemes[2], "s3");
  for (const std::string_view scheme : schemes) {
    EXPECT_NE(scheme, "");
    EXPECT_NE(&backend_of(std::string(scheme) + "://x"), &file_backend()) << scheme;
  }
}

TEST(Backends, ForOtherSchemesTheWayIsTold) {
  const auto refuses = [](const char* url, const char* way) {
    test::expect_error(ErrorKind::kUnsupported, {"available: http, https, s3", url, way},
                       [&] { backend_of(url); });
  };
  for (const char* url : {"gs://b/k", "oss://b/k", "obs://b/k", "cos://b/k", "r2://b/k"}) {
    refuses(url, "--s3-endpoint");
  }
  refuses("hf://org/name", "hf download");
  try {
    backend_of("ftp://host/a");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    const std::string_view text = error.what();
    EXPECT_EQ(text.find("hf download"), std::string_view::npos) << text;
    EXPECT_EQ(text.find("--s3-endpoint"), std::string_view::npos) << text;
  }
}

}  // namespace
}  // namespace reshardfs
