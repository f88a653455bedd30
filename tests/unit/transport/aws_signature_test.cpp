// SPDX-License-Identifier: Apache-2.0
/// The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
#include "transport/aws_signature.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

const AwsKeys kKeys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
using S = std::vector<std::pair<std::string, std::string>>;
constexpr std::int64_t kTime = 1369353600;  // 2013-05-24T00:00:00Z

std::string signature(const AwsRequest& request, const AwsKeys& keys = kKeys) {
  const std::vector<std::string> headers = aws_sign(request, keys, "us-east-1", "s3", kTime);
  const std::string& last = headers.back();
  return last.substr(last.find("Signature=") + 10);
}

TEST(AwsSignature, SignsAGetOfARange) {
  const AwsRequest request{.method = "GET",
                           .host = "examplebucket.s3.amazonaws.com",
                           .path = "/test.txt",
                           .payload_sha256 = std::string(kEmptySha256),
                           .headers = {{"range", "bytes=0-9"}}};
  EXPECT_EQ(signature(request), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(AwsSignature, SignsAQueryWithoutValue) {
  const AwsRequest request{.method = "GET",
                           .host = "examplebucket.s3.amazonaws.com",
                           .path = "/",
                           .query = {{"lifecycle", ""}},
                           .payload_sha256 = std::string(kEmptySha256)};
  EXPECT_EQ(signature(request), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST(AwsSignature, SignsAListWhateverTheOrderOfItsParameters) {
  for (const auto& query :
       {S{{"max-keys", "2"}, {"prefix", "J"}}, S{{"prefix", "J"}, {"max-keys", "2"}}}) {
    const AwsRequest request{.method = "GET",
                             .host = "examplebucket.s3.amazonaws.com",
                             .path = "/",
                             .query = query,
                             .payload_sha256 = std::string(kEmptySha256)};
    EXPECT_EQ(signature(request),
              "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  }
}

TEST(AwsSignature, SignsAPut) {
  const AwsRequest request{
      .method = "PUT",
      .host = "examplebucket.s3.amazonaws.com",
      .path = "/test%24file.text",
      .payload_sha256 = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
      .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                  {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}};
  EXPECT_EQ(signature(request), "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(AwsSignature, SendsTheTokenOfASession) {
  const AwsRequest request{
      .method = "GET", .host = "h", .path = "/", .payload_sha256 = std::string(kEmptySha256)};
  const AwsKeys keys{"id", "secret", "token"};
  const auto headers = aws_sign(request, keys, "r", "s3", kTime);
  EXPECT_NE(std::find(headers.begin(), headers.end(), "x-amz-security-token: token"),
            headers.end());
  EXPECT_NE(headers.back().find("x-amz-security-token"), std::string::npos);
  for (const std::string& header : headers) EXPECT_EQ(header.find("secret"), std::string::npos);
}

TEST(AwsSignature, EncodesQueriesAsTheyAreSigned) {
  EXPECT_EQ(aws_query({}), "");
  EXPECT_EQ(aws_query({{"b", "a/b c"}, {"a", ""}}), "?a=&b=a%2Fb%20c");
}

}  // namespace
}  // namespace reshardfs
