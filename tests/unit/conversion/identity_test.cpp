// SPDX-License-Identifier: Apache-2.0
#include "conversion/identity.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

const Input kConfig{"/s/config.json", "c0", ""};
const Input kTokenizer{"/s/tokenizer.json", "", "2 3 4 5"};

TEST(Identity, NamesAllThatWasOpened) {
  ConversionOptions options;
  options.source.path = "/s";
  options.source.strategy = "/elsewhere/src.ckpt";
  options.dst_sizes = parse_derivation("tp=2");
  options.source.join = {"a*", "b"};
  options.prefix = "net_";
  options.unmatched = Unmatched::kReplicate;
  options.source.replicas = Replicas::kOwn;
  options.exclude = {"\xc3\xa9\"\\"};
  options.formats = {OutputFormat::kSafetensors, OutputFormat::kCkpt};
  options.casts = {"fp32->bf16"};
  options.trainer.epoch = 2;
  options.weights_only = true;
  const Input strategy{"/elsewhere/src.ckpt", "5a", ""};
  const std::string inputs =
      R"("inputs":[{"name":"--src-strategy","content":"5a"},{"name":"config.json","content":"c0"}],)";
  const std::string rest =
      R"("src-strategy":"","dst-strategy":"tp=2","stage-layers":"","src-join":["a*","b"],)"
      R"("rename":[],"drop":[],)"
      R"("src-pattern":"","map":null,"state-prefix":[],"prefix":"net_","unmatched":2,)"
      R"("replicas":2,"include":[],)"
      "\"exclude\":[\"\xc3\xa9\\\"\\\\\"],"
      R"("format":["safetensors","ckpt"],"metadata":"ms","align":null,"shard-size":5000000000,)"
      R"("dcp-shards":0,"boxes of dcp":2,"dcp-release":0,"iteration-release":0,)"
      R"("trainer_step":null,"trainer_epoch":2,"trainer_param_groups":null,)"
      R"("cast":["fp32->bf16"],"crc":false,"weights-only":true,)"
      R"("partial":false,"state-key":"","dequantize":false,"as-in-source":false)";
  EXPECT_EQ(steps_identity(options, {kConfig, strategy}),
            R"({"steps":"all","source":"/s",)" + inputs + rest + "}");
  const ConversionSource source{.path = options.source.path / "rank_0" / "a",
                                .bytes = 10,
                                .mtime_ns = -1,
                                .ctime_ns = 2,
                                .device = 3,
                                .inode = ~std::uint64_t{0},
                                .index_sum = 0xab};
  const std::string file = R"({"path":"rank_0/a","bytes":10,"mtime_ns":-1,"ctime_ns":2,)"
                           R"("inode":18446744073709551615,"index":"00000000000000ab"})";
  const std::string mounted =
      mount_identity(options, {source, source}, {kConfig, strategy}, {kTokenizer});
  EXPECT_EQ(mounted, R"({"source files":[)" + file + "," + file + "]," + inputs + rest +
                         R"(,"companions":[{"name":"tokenizer.json","version":"2 3 4 5"}]})");
  EXPECT_EQ(Json::parse(mounted).dump(), mounted);
}

std::vector<std::string> names(const ConversionOptions& options, const std::vector<Input>& inputs) {
  const Json json = Json::parse(steps_identity(options, inputs));
  std::vector<std::string> all;
  for (const Json& input : json.at("inputs")) all.push_back(input.at("name"));
  return all;
}

/// On another machine, the same files may be elsewhere.
TEST(Identity, NamesFilesByTheirPart) {
  ConversionOptions options;
  options.source.path = "/s/";
  EXPECT_EQ(names(options, {{"/s/a/index.json", "1", ""}, {"/other/x.toml", "2", ""}}),
            (std::vector<std::string>{"a/index.json", "x.toml"}));
  options.source.strategy = "/both.toml";
  options.dst_strategy = "/both.toml";
  options.source.maps.model_config = "/model/";
  options.source.maps.maps = {"/b/m.toml", "/a/m.toml"};
  EXPECT_EQ(names(options, {{"/a/m.toml", "1", ""},
                            {"/b/m.toml", "2", ""},
                            {"/both.toml", "3", ""},
                            {"/model/config.json", "4", ""}}),
            (std::vector<std::string>{"--dst-strategy", "--map 1", "--map 2",
                                      "--model-config config.json", "--src-strategy"}));
}

TEST(Identity, TellsCompanionsFromTheRest) {
  const ConversionOptions options;
  const auto identity = [&](const Input& input, const Input& companion) {
    return JsonDocument::parse(mount_identity(options, {}, {input}, {companion})).value();
  };
  const auto before = identity(kConfig, kTokenizer);
  const auto alone = [&](const JsonDocument& now) {
    return differ_in_companions_alone(before.value(), now.value());
  };
  const Input config{kConfig.path, "c1", ""};
  const Input tokenizer{kTokenizer.path, "", "2 3 4 6"};
  EXPECT_FALSE(alone(identity(kConfig, kTokenizer)));
  EXPECT_TRUE(alone(identity(kConfig, tokenizer)));
  EXPECT_FALSE(alone(identity(config, kTokenizer)));
  EXPECT_FALSE(alone(identity(config, tokenizer)));
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
  EXPECT_EQ(difference(old, now), "it differs in an unknown way");
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
  EXPECT_EQ(difference(old, now), "it has no source file 'a'");
  old["source files"] = 5;
  EXPECT_EQ(difference(old, now), "it has no source file 'a'");
  old = now;
  old["source files"].push_back(file);
  EXPECT_EQ(difference(old, now), "it has more source files");
  EXPECT_EQ(difference({{"version", "0.1"}}, {{"version", "0.2"}}),
            "another version of reshardfs has written it");
}

TEST(Identity, SaysWhichInputIsDifferent) {
  const Json config{{"name", "config.json"}, {"content", "c0"}};
  const Json passed{{"name", "tokenizer.json"}, {"version", "1 2"}};
  const Json now{{"inputs", {config, passed}}};
  Json old = now;
  old["inputs"][0]["content"] = "c1";
  EXPECT_EQ(difference(old, now), "file 'config.json' has different contents");
  old = now;
  old["inputs"][1]["version"] = "1 3";
  EXPECT_EQ(difference(old, now), "file 'tokenizer.json' has been changed or replaced");
  old["inputs"].erase(1);
  EXPECT_EQ(difference(old, now), "it has no file 'tokenizer.json'");
  EXPECT_EQ(difference(now, old), "it was made with a file 'tokenizer.json'");
  EXPECT_EQ(difference(Json::object(), now), "different: inputs");
}

}  // namespace
}  // namespace reshardfs
