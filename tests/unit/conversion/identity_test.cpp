// SPDX-License-Identifier: Apache-2.0
#include "conversion/identity.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

// Exports of earlier versions are gone on with, and mounts of theirs taken over.
TEST(Identity, HasTheTextThatItAlwaysHad) {
  const test::TempDir directory;
  ConversionOptions options;
  options.source.path = "/s\xff";
  options.source.strategy = directory.write("empty", "");
  options.dst_sizes = parse_derivation("tp=2");
  options.source.join = {"a*", "b"};
  options.prefix = "net_";
  options.unmatched = Unmatched::kReplicate;
  options.source.replicas = Replicas::kOwn;
  options.exclude = {"\xc3\xa9\"\\"};
  options.formats = {OutputFormat::kSafetensors, OutputFormat::kCkpt};
  options.casts = {"fp32->bf16"};
  const std::string rest =
      R"("src-strategy":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",)"
      R"("dst-strategy":"tp=2","src-join":["a*","b"],"name-map":null,"map":null,)"
      R"("state-prefix":[],"prefix":"net_","unmatched":2,"replicas":2,"include":[],)"
      "\"exclude\":[\"\xc3\xa9\\\"\\\\\"],"
      R"("format":["safetensors","ckpt"],"metadata":"ms","align":null,"shard-size":5000000000,)"
      R"("dcp-shards":0,"dcp-release":0,"cast":["fp32->bf16"],"crc":false)";
  EXPECT_EQ(steps_identity(options),
            "{\"steps\":\"all\",\"source\":\"/s\xef\xbf\xbd\"," + rest + "}");
  ConversionOptions of_sizes = options;
  of_sizes.source.sizes = parse_derivation("tp=4");
  of_sizes.source.strategy.reset();
  EXPECT_EQ(Json::parse(steps_identity(of_sizes)).at("src-strategy"), "tp=4");
  of_sizes.stage_layers = {10, 9};
  EXPECT_EQ(Json::parse(steps_identity(of_sizes)).at("stage-layers"), "10,9");
  options.weights_only = true;
  const ConversionSource source{.path = options.source.path / "rank_0" / "a",
                                .bytes = 10,
                                .mtime_ns = -1,
                                .ctime_ns = 2,
                                .device = 3,
                                .inode = ~std::uint64_t{0},
                                .index_sum = 0xab};
  const std::string file = R"({"path":"rank_0/a","bytes":10,"mtime_ns":-1,"ctime_ns":2,)"
                           R"("inode":18446744073709551615,"index":"00000000000000ab"})";
  const std::string mounted = mount_identity(options, {source, source});
  EXPECT_EQ(mounted,
            "{\"source files\":[" + file + "," + file + "]," + rest + ",\"weights-only\":true}");
  EXPECT_EQ(Json::parse(mounted).dump(), mounted);
}

std::string difference(Json old, const Json& now) {
  const auto before = JsonDocument::parse(old.dump());
  const auto after = JsonDocument::parse(now.dump());
  const IdentityDifference found = identity_difference(before->value(), after->value());
  EXPECT_FALSE(found.hint.empty());
  return found.what;
}

TEST(Identity, SaysWhatIsDifferent) {
  const Json file{{"path", "a"}, {"bytes", 1}, {"mtime_ns", 2}, {"inode", ~std::uint64_t{0}}};
  const Json now{{"prefix", "x"}, {"source files", {file}}};
  Json old = now;
  EXPECT_EQ(difference(old, now), "different: more than is known");
  old["prefix"] = "y";
  EXPECT_EQ(difference(old, now), "different: prefix");
  EXPECT_EQ(difference(Json(), now), "different: prefix");
  old = now;
  old["source files"][0]["bytes"] = 2;
  EXPECT_EQ(difference(old, now), "source file 'a' has a different size");
  old = now;
  old["source files"][0]["inode"] = ~std::uint64_t{0} - 1;
  EXPECT_EQ(difference(old, now), "source file 'a' is a different file (by inode number)");
  old = now;
  old["source files"][0]["path"] = "b";
  EXPECT_EQ(difference(old, now), "it knows no source file 'a'");
  old["source files"] = 5;
  EXPECT_EQ(difference(old, now), "it knows no source file 'a'");
  old = now;
  old["source files"].push_back(file);
  EXPECT_EQ(difference(old, now), "it has more source files");
}

}  // namespace
}  // namespace reshardfs
