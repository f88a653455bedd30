// SPDX-License-Identifier: Apache-2.0
#include "export/manifest_text.h"

#include <gtest/gtest.h>

#include "reshardfs/strategy.h"

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

const std::string kIdentity = R"({"version":"1"})";

bool is_any(const JsonValue& /*header*/) {
  return true;
}

Manifest::Entry reread(const Manifest::Entry& entry) {
  Manifest::Entries entries;
  const std::string text = manifest_header(kIdentity, {}) + manifest_entry_line("a", entry);
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

TEST(ManifestText, HasOneSumOfEachFile) {
  const Manifest::Entry fast = reread({.size = 7, .xxh3 = "5a"});
  EXPECT_EQ(fast.sha256, "");
  EXPECT_EQ(fast.xxh3, "5a");
  EXPECT_EQ(manifest_entry_line("a", {.size = 7, .xxh3 = "5a"}),
            "{\"path\":\"a\",\"size\":7,\"xxh3\":\"5a\"}\n");
  // A line without any is damaged.
  Manifest::Entries entries;
  const std::string text =
      manifest_header(kIdentity, {}) + "{\"path\":\"a\",\"size\":7,\"etag\":\"e\"}\n";
  EXPECT_LT(parse_manifest("", text, is_any, kIdentity, false, entries), text.size());
  EXPECT_TRUE(entries.empty());
}

// Exports of earlier versions are gone on with.
TEST(ManifestText, HasTheLinesThatItAlwaysHad) {
  EXPECT_EQ(manifest_header(kIdentity, {}),
            "{\"reshardfs_export\":3,\"conversion\":{\"version\":\"1\"}}\n");
  EXPECT_EQ(manifest_header(kIdentity, SharePlan{{1, 2}, "x"}),
            "{\"reshardfs_export\":3,\"share\":{\"index\":1,\"count\":2,\"files\":\"x\"},"
            "\"conversion\":{\"version\":\"1\"}}\n");
  EXPECT_EQ(manifest_entry_line("a\n\xff", {~std::uint64_t{0}, "", "e\"2"}),
            "{\"path\":\"a\\n\xef\xbf\xbd\",\"size\":18446744073709551615,\"sha256\":\"\","
            "\"etag\":\"e\\\"2\"}\n");
  EXPECT_EQ(manifest_last_line(""),
            "{\"complete\":"
            "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}\n");
}

TEST(ManifestText, HasTheStrategyOfTheRanks) {
  const Layout layout{.device_matrix = {2}, .tensor_map = {{0}}};
  const Strategy strategy({StageLayouts{{"w", layout}}}, 0, false);
  const std::string text = manifest_header(kIdentity, {}) +
                           manifest_strategy_line(to_json(strategy)) +
                           manifest_entry_line("a", {7, "5a", ""});
  Manifest::Entries entries;
  EXPECT_EQ(parse_manifest("", text, is_any, kIdentity, false, entries), text.size());
  EXPECT_EQ(entries.size(), 1U);
  const test::TempDir dir;
  const auto path = dir.write(Manifest::kName, text);
  EXPECT_EQ(to_json(Strategy::load(path)), to_json(strategy));
  // Those of earlier versions have none.
  const auto old = dir.write(manifest_name(Share{0, 2}), manifest_header(kIdentity, {}));
  test::expect_error(ErrorKind::kBadInput, {old.string(), "records no strategy"},
                     [&] { Strategy::load(old); });
}

TEST(ManifestText, AnEtagMustBeText) {
  Manifest::Entries entries;
  const std::string text = manifest_header(kIdentity, {}) +
                           "{\"path\":\"a\",\"size\":7,\"sha256\":\"5a\",\"etag\":[1]}\n";
  parse_manifest("", text, is_any, kIdentity, false, entries);
  EXPECT_EQ(entries.at("a").etag, "");
}

TEST(ManifestText, AcceptsSharesOfTheSameConversionAlone) {
  const auto header = JsonDocument::parse(manifest_header(kIdentity, SharePlan{{1, 2}, "x"}));
  ASSERT_TRUE(header);
  EXPECT_TRUE(same_conversion(kIdentity)(header->value()));
  EXPECT_FALSE(same_conversion(R"({"version":"2"})")(header->value()));
}

}  // namespace
}  // namespace reshardfs
