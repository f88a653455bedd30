// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/errors.h"
#include "transport/s3_listing.h"
#include "transport/web_index.h"

namespace reshardfs {
namespace {

using test::expect_error;

std::string page(const std::string& inner) {
  return R"(<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">)" +
         inner + "</ListBucketResult>";
}

TEST(S3Listing, ReadsAPage) {
  const S3Page read = parse_s3_page(
      page("<Name>b</Name><IsTruncated>true</IsTruncated><EncodingType>url</EncodingType>"
           "<NextContinuationToken>a&amp;b</NextContinuationToken>"
           "<Contents><Key>d/a%20b</Key><Size>3</Size><Owner><Key>no</Key></Owner></Contents>"
           "<Contents><Key>d/%C3%A9</Key></Contents>"
           "<CommonPrefixes><Prefix>d/rank_0/</Prefix></CommonPrefixes>"),
      "s3://b/d");
  EXPECT_EQ(read.keys, (std::vector<std::string>{"d/a b", "d/é"}));
  EXPECT_EQ(read.prefixes, std::vector<std::string>{"d/rank_0/"});
  EXPECT_EQ(read.next, "a&b");
}

TEST(S3Listing, KeysAreTextWhereTheyAreNotEncoded) {
  const S3Page read = parse_s3_page(page("<Contents><Key>a%20&lt;b</Key></Contents>"), "s3://b");
  EXPECT_EQ(read.keys, std::vector<std::string>{"a%20<b"});
  EXPECT_EQ(read.next, "");
}

TEST(S3Listing, RefusesWhatIsNone) {
  for (const std::string& text :
       {std::string(), std::string("<html>"), std::string("<Error><Code>X</Code></Error>"),
        page("<Contents>"), page("") + "x", page(std::string(40, '<')),
        page("<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a/></a></a></a></a></a></a></a></a>"
             "</a></a></a></a></a></a></a></a>"),
        "<!DOCTYPE x [<!ENTITY a \"b\">]>" + page("<Contents><Key>&a;</Key></Contents>")}) {
    expect_error(ErrorKind::kBadInput, {"not a list"}, [&] { parse_s3_page(text, "s3://b"); });
  }
  expect_error(ErrorKind::kBadInput, {"no token"},
               [] { parse_s3_page(page("<IsTruncated>true</IsTruncated>"), "s3://b"); });
}

TEST(S3Listing, ReadsObjects) {
  const S3ObjectPage read = parse_s3_objects(
      page("<IsTruncated>true</IsTruncated><EncodingType>url</EncodingType>"
           "<NextContinuationToken>t</NextContinuationToken>"
           "<Contents><Key>d/a+b%2B</Key><ETag>&quot;12-3&quot;</ETag><Size>3</Size>"
           "<Owner><ID>no</ID></Owner></Contents>"
           "<Contents><Key>d/c</Key><Size>18446744073</Size><ETag>x</ETag></Contents>"),
      "s3://b/d");
  ASSERT_EQ(read.objects.size(), 2U);
  EXPECT_EQ(read.objects[0].key, "d/a b+");
  EXPECT_EQ(read.objects[0].etag, "12-3");
  EXPECT_EQ(read.objects[0].size, 3U);
  EXPECT_EQ(read.objects[1].key, "d/c");
  EXPECT_EQ(read.objects[1].etag, "x");
  EXPECT_EQ(read.objects[1].size, 18446744073U);
  EXPECT_EQ(read.next, "t");
  for (const std::string& text :
       {std::string("<html/>"), page("<Contents><Size>-1</Size></Contents>"), page("<Contents>")}) {
    expect_error(ErrorKind::kBadInput, {"not a list"}, [&] { parse_s3_objects(text, "s3://b"); });
  }
  expect_error(ErrorKind::kBadInput, {"no token"},
               [] { parse_s3_objects(page("<IsTruncated>true</IsTruncated>"), "s3://b"); });
}

TEST(S3Listing, ReadsUploads) {
  const auto uploads = [](const std::string& inner) {
    return parse_s3_uploads(
        "<ListMultipartUploadsResult>" + inner + "</ListMultipartUploadsResult>", "s3://b");
  };
  const S3UploadPage read = uploads(
      "<IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>"
      "<NextUploadIdMarker>7</NextUploadIdMarker>"
      "<Upload><Key>a%20b</Key><UploadId>1~x</UploadId><Initiator><ID>i</ID></Initiator></Upload>");
  ASSERT_EQ(read.uploads.size(), 1U);
  EXPECT_EQ(read.uploads[0].key, "a%20b");
  EXPECT_EQ(read.uploads[0].id, "1~x");
  EXPECT_EQ(read.next.key, "k");
  EXPECT_EQ(read.next.id, "7");
  EXPECT_EQ(uploads("<NextKeyMarker>k</NextKeyMarker>").next.key, "");
  EXPECT_TRUE(uploads("").uploads.empty());
  expect_error(ErrorKind::kBadInput, {"not a list of uploads"},
               [] { parse_s3_uploads(page(""), "s3://b"); });
  expect_error(ErrorKind::kBadInput, {"no token"},
               [&] { uploads("<IsTruncated>true</IsTruncated>"); });
}

S3PartPage parts(const std::string& inner) {
  return parse_s3_parts("<ListPartsResult>" + inner + "</ListPartsResult>", "s3://b/k");
}

TEST(S3Listing, ReadsParts) {
  const S3PartPage read = parts(
      "<Key>k</Key><UploadId>u</UploadId><PartNumberMarker>0</PartNumberMarker>"
      "<NextPartNumberMarker>7</NextPartNumberMarker><IsTruncated>true</IsTruncated>"
      "<Owner><ID>9</ID></Owner>"
      "<Part><PartNumber>2</PartNumber><ETag>&quot;a-b&quot;</ETag><Size>5</Size></Part>"
      "<Part><Size>8388608</Size><PartNumber>7</PartNumber></Part>");
  ASSERT_EQ(read.parts.size(), 2U);
  EXPECT_EQ(read.parts[0].number, 2U);
  EXPECT_EQ(read.parts[0].size, 5U);
  EXPECT_EQ(read.parts[0].etag, "a-b");
  EXPECT_EQ(read.parts[1].number, 7U);
  EXPECT_EQ(read.parts[1].size, 8388608U);
  EXPECT_EQ(read.parts[1].etag, "");
  EXPECT_EQ(read.next, 7U);
  EXPECT_FALSE(read.needs_checksums);
  EXPECT_TRUE(parts("").parts.empty());
}

TEST(S3Listing, TheLastPageOfPartsHasNoNext) {
  for (const char* marker : {"7", "0", ""}) {
    EXPECT_EQ(parts("<IsTruncated>false</IsTruncated><NextPartNumberMarker>" + std::string(marker) +
                    "</NextPartNumberMarker>")
                  .next,
              0U);
  }
  for (const char* marker : {"", "<NextPartNumberMarker>0</NextPartNumberMarker>"}) {
    expect_error(ErrorKind::kBadInput, {"s3://b/k", "no token"},
                 [&] { parts("<IsTruncated>true</IsTruncated>" + std::string(marker)); });
  }
}

TEST(S3Listing, RefusesPartsThatAreNone) {
  for (const char* inner :
       {"<Part>", "<Part/>", "<Part><Size>5</Size></Part>",
        "<Part><PartNumber>0</PartNumber></Part>", "<Part><PartNumber>-1</PartNumber></Part>",
        "<Part><PartNumber>x</PartNumber></Part>",
        "<Part><PartNumber>99999999999999999999</PartNumber></Part>",
        "<Part><PartNumber>1</PartNumber><Size>1.5</Size></Part>",
        "<NextPartNumberMarker>x</NextPartNumberMarker>"}) {
    expect_error(ErrorKind::kBadInput, {"s3://b/k", "not a list of parts"}, [&] { parts(inner); });
  }
  for (const std::string& text : {std::string(), page(""), std::string("<Error/>")}) {
    expect_error(ErrorKind::kBadInput, {"not a list of parts"},
                 [&] { parse_s3_parts(text, "s3://b"); });
  }
}

TEST(S3Listing, KnowsUploadsThatNeedChecksums) {
  for (const auto& [inner, needs] : std::vector<std::pair<std::string, bool>>{
           {"<ChecksumAlgorithm>SHA256</ChecksumAlgorithm>", true},
           {"<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>COMPOSITE</ChecksumType>",
            true},
           {"<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</"
            "ChecksumType>",
            false}}) {
    EXPECT_EQ(parts(inner).needs_checksums, needs) << inner;
  }
}

TEST(S3Listing, FindsATextAnywhere) {
  EXPECT_EQ(xml_text("<Error><Code>NoSuchKey</Code></Error>", "Code"), "NoSuchKey");
  EXPECT_EQ(xml_text("<a><b><c>1</c></b><c>2</c></a>", "c"), "1");
  EXPECT_EQ(xml_text("no xml", "Code"), "");
  EXPECT_EQ(xml_text("", "Code"), "");
}

using Entries = std::vector<WebEntry>;

TEST(WebIndex, ReadsTheListsOfNginx) {
  EXPECT_EQ(parse_web_index("application/json",
                            R"([{"name":"rank_0","type":"directory","mtime":"x"},
                                {"name":"a b.ckpt","type":"file","size":3}])",
                            "http://h/d/"),
            (Entries{{"rank_0", true}, {"a b.ckpt", false}}));
  for (const char* text : {"", "{}", "[1]", R"([{"name":1,"type":"file"}])", R"([{"name":"a"}])"}) {
    expect_error(ErrorKind::kBadInput, {"http://h/d/"},
                 [&] { parse_web_index("application/json", text, "http://h/d/"); });
  }
  EXPECT_EQ(parse_web_index("application/json; charset=utf-8",
                            R"([{"name":"../x","type":"file"},{"name":"..","type":"directory"},
                                {"name":"","type":"file"},{"name":"a/b","type":"file"}])",
                            "http://h/d/"),
            Entries{});
}

TEST(WebIndex, ReadsTheLinksOfAPage) {
  const std::string html =
      R"html(<html><h1>Index of /d/</h1><a href="?C=M;O=A">by date</a><a href="/">up</a>
         <a href="../">Parent</a><a href="rank_0/">rank_0/</a><a href='a%20b.ckpt'>a b.ckpt</a>
         <a href="./c.ckpt#x">c</a><a href="/d/e.ckpt">e</a><a href="http://h/d/f.ckpt">f</a>
         <a href="http://other/d/g.ckpt">g</a><a href="//other/x">x</a><a href="deep/er/y">y</a>
         <a href="javascript:x()">js</a><a name="z">z</a><a href="rank_0/">again</a>
         <a href="%2e%2e">no</a><a href="a%2Fb">no</a></html>)html";
  EXPECT_EQ(parse_web_index("text/html", html, "http://h/d/"), (Entries{{"rank_0", true},
                                                                        {"a b.ckpt", false},
                                                                        {"c.ckpt", false},
                                                                        {"e.ckpt", false},
                                                                        {"f.ckpt", false}}));
}

TEST(WebIndex, SurvivesPagesThatAreNone) {
  EXPECT_EQ(parse_web_index("text/html", "", "http://h/"), Entries{});
  EXPECT_EQ(parse_web_index("text/html", std::string(1000, '\0'), "http://h/"), Entries{});
  std::string nested;
  for (int i = 0; i < 500'000; ++i) nested += "<b><a ";
  EXPECT_EQ(parse_web_index("text/html", nested, "http://h/"), Entries{});
  for (const char* text : {"<a", "<a ", "<a href", "<a href=", "<a href='", "<a href=\"x",
                           "<a href=x", "<a =x>", "<a href = >", "<A HREF=y", "<abbr href=z>"}) {
    EXPECT_LE(parse_web_index("text/html", text, "http://h/").size(), 1U) << text;
  }
}

TEST(WebIndex, DecodesEntities) {
  EXPECT_EQ(parse_web_index("text/html", "<a class=l href=\"a&amp;b&#39;c&x;&\">", "http://h/"),
            (Entries{{"a&b'c&x;&", false}}));
}

}  // namespace
}  // namespace reshardfs
