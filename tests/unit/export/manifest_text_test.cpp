// SPDX-License-Identifier: Apache-2.0
#include "export/manifest_text.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

const Json kIdentity{{"version", "1"}};

bool is_any(const Json& /*header*/) {
  return true;
}

Manifest::Entry reread(const Manifest::Entry& entry) {
  Manifest::Entries entries;
  const std::string text =
      manifest_line(manifest_header(kIdentity, {})) + manifest_entry_line("a", entry);
  EXPECT_EQ(parse_manifest("", text, is_any, kIdentity, false, entries), text.size());
  return entries.at("a");
}

TEST(ManifestText, KeepsEtags) {
  const Manifest::Entry object = reread({7, "5a", "e-2"});
  EXPECT_EQ(object.size, 7U);
  EXPECT_EQ(object.sha256, "5a");
  EXPECT_EQ(object.etag, "e-2");
  EXPECT_EQ(reread({7, "5a", ""}).etag, "");
  // Files have none, and their lines none either.
  EXPECT_EQ(manifest_entry_line("a", {7, "5a", ""}),
            "{\"path\":\"a\",\"size\":7,\"sha256\":\"5a\"}\n");
}

TEST(ManifestText, AnEtagMustBeText) {
  Manifest::Entries entries;
  const std::string text = manifest_line(manifest_header(kIdentity, {})) +
                           "{\"path\":\"a\",\"size\":7,\"sha256\":\"5a\",\"etag\":[1]}\n";
  parse_manifest("", text, is_any, kIdentity, false, entries);
  EXPECT_EQ(entries.at("a").etag, "");
}

TEST(ManifestText, AcceptsSharesOfTheSameConversionAlone) {
  const Json header = manifest_header(kIdentity, SharePlan{{1, 2}, "x"});
  EXPECT_TRUE(same_conversion(kIdentity)(header));
  EXPECT_FALSE(same_conversion(Json{{"version", "2"}})(header));
}

}  // namespace
}  // namespace reshardfs
