// SPDX-License-Identifier: Apache-2.0
#include "transport/s3_checksum.h"

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "transport/s3_upload.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

Md5 md5_of(std::string_view text) {
  return reshardfs::md5_of(std::as_bytes(std::span(text)));
}

TEST(S3Checksum, IsMd5) {
  EXPECT_EQ(etag_of(md5_of("")), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(etag_of(md5_of("abc")), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(base64(md5_of("abc")), "kAFQmDzST7DWlj99KOF/cg==");
}

TEST(S3Checksum, OfPartsIsThatOfTheirSums) {
  // printf abc | md5sum | xxd -r -p | md5sum, and with the sum of "" behind it.
  EXPECT_EQ(etag_of_parts(std::vector{md5_of("abc")}), "af5da9f45af7a300e3aded972f8ff687-1");
  EXPECT_EQ(etag_of_parts(std::vector{md5_of("abc"), md5_of("")}),
            "fdf1fdf1567f6942ffe1743f1e72301e-2");
}

TEST(S3Checksum, IsToldFromOtherEtags) {
  const std::string sum = etag_of(md5_of("abc"));
  EXPECT_TRUE(is_checksum_etag(sum));
  EXPECT_TRUE(is_checksum_etag(sum + "-10000"));
  for (const std::string& other : {std::string(), sum + "-", sum + "1", sum + "-x", sum + "_1",
                                   sum.substr(1), "Z" + sum.substr(1), "\"" + sum + "\""}) {
    EXPECT_FALSE(is_checksum_etag(other)) << other;
  }
}

TEST(S3Checksum, PartsAreOf8MiBAndAtMost10000) {
  EXPECT_EQ(s3_part_bytes(0), 8 * kMiB);
  EXPECT_EQ(s3_part_bytes(80'000 * kMiB), 8 * kMiB);
  EXPECT_EQ(s3_part_bytes(80'000 * kMiB + 1), 9 * kMiB);
  EXPECT_EQ(s3_part_bytes(5 * kMiB * kMiB), 525 * kMiB);
  for (const std::uint64_t size :
       {80'000 * kMiB, 80'000 * kMiB + 1, 90'000 * kMiB, 90'000 * kMiB + 1, 5 * kMiB * kMiB,
        std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_LE((size - 1) / s3_part_bytes(size) + 1, 10'000U) << size;
  }
}

TEST(S3Upload, NamesItsPartsInOrder) {
  EXPECT_EQ(completion_xml(std::vector<std::string>{"a1", "<&"}),
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
            "<Part><PartNumber>1</PartNumber><ETag>&quot;a1&quot;</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>&quot;&lt;&amp;&quot;</ETag></Part>"
            "</CompleteMultipartUpload>");
}

}  // namespace
}  // namespace reshardfs
