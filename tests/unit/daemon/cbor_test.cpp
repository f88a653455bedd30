// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/cbor.h"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace reshardfs {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

std::string by_library(const Json& json) {
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

Json as_bytes_value(const std::string& bytes) {
  return Json::binary({bytes.begin(), bytes.end()});
}

std::vector<std::uint64_t> edges() {
  std::vector<std::uint64_t> numbers{0, 1, 23, 24};
  for (unsigned bits = 8; bits < 64; bits *= 2) {
    numbers.push_back((std::uint64_t{1} << bits) - 1);
    numbers.push_back(std::uint64_t{1} << bits);
  }
  return numbers;
}

// Other versions of the program have it written by nlohmann's library.
TEST(Cbor, HasTheBytesThatALibraryWrites) {
  for (const std::uint64_t number : edges()) {
    EXPECT_EQ(cbor_unsigned(number), by_library(number));
    EXPECT_EQ(cbor_signed(static_cast<std::int64_t>(number)), by_library(number));
    EXPECT_EQ(cbor_signed(-1 - static_cast<std::int64_t>(number)),
              by_library(-1 - static_cast<std::int64_t>(number)));
  }
  EXPECT_EQ(cbor_unsigned(kMost), by_library(kMost));
  EXPECT_EQ(cbor_signed(kLeast), by_library(kLeast));
  EXPECT_EQ(cbor_boolean(true), by_library(true));
  EXPECT_EQ(cbor_boolean(false), by_library(false));
  for (const std::size_t size :
       std::initializer_list<std::size_t>{0, 23, 24, 255, 256, 65535, 65536}) {
    const std::string text(size, 'x');
    EXPECT_EQ(cbor_text(text), by_library(text)) << size;
    EXPECT_EQ(cbor_bytes(text), by_library(as_bytes_value(text))) << size;
  }
  EXPECT_EQ(cbor_list(2) + cbor_number(1) + cbor_text("a"), by_library({1, "a"}));
  EXPECT_EQ(cbor_map({{"b", cbor_number(-1)}, {"a-", cbor_list(0)}, {"a", cbor_map({})}}),
            by_library({{"b", -1}, {"a-", Json::array()}, {"a", Json::object()}}));
}

TEST(Cbor, IsReadAsItWasWritten) {
  for (const std::uint64_t number : edges()) {
    const std::string bytes = cbor_unsigned(number);
    EXPECT_EQ(CborValue::parse(bytes)->unsigned_number(), number);
    EXPECT_EQ(CborValue::parse(bytes)->signed_number(), static_cast<std::int64_t>(number));
    const std::string negative = cbor_signed(-1 - static_cast<std::int64_t>(number));
    EXPECT_EQ(CborValue::parse(negative)->signed_number(), -1 - static_cast<std::int64_t>(number));
    EXPECT_FALSE(CborValue::parse(negative)->unsigned_number());
  }
  const std::string most = cbor_unsigned(kMost);
  EXPECT_EQ(CborValue::parse(most)->unsigned_number(), kMost);
  EXPECT_FALSE(CborValue::parse(most)->signed_number());
  const std::string least = cbor_signed(kLeast);
  EXPECT_EQ(CborValue::parse(least)->signed_number(), kLeast);

  const std::string bytes = cbor_map({{"list", cbor_list(2) + cbor_boolean(true) + cbor_text("t")},
                                      {"map", cbor_map({{"bytes", cbor_bytes({"\0x", 2})}})}});
  const auto map = CborValue::parse(bytes);
  ASSERT_TRUE(map && map->is_map() && map->find("list") && map->find("map"));
  EXPECT_FALSE(map->find("bytes"));
  EXPECT_FALSE(map->list());
  const auto list = map->find("list")->list();
  ASSERT_TRUE(list);
  ASSERT_EQ(list->size(), 2U);
  EXPECT_EQ(list->at(0).boolean(), true);
  EXPECT_EQ(list->at(1).text(), "t");
  EXPECT_FALSE(list->at(0).text());
  EXPECT_FALSE(list->at(1).bytes());
  EXPECT_FALSE(list->at(1).find("t"));
  EXPECT_EQ(map->find("map")->find("bytes")->bytes(), std::string_view("\0x", 2));
}

// A later version may add what this one does not know.
TEST(Cbor, PassesOverWhatItHasNoUseFor) {
  const std::string bytes =
      by_library({{"a", 1.5}, {"b", nullptr}, {"c", {1, {{"d", -0.1F}}}}, {"z", 7}});
  const auto map = CborValue::parse(bytes);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->find("z")->unsigned_number(), 7U);
  EXPECT_FALSE(map->find("a")->unsigned_number());
  EXPECT_FALSE(map->find("b")->boolean());
}

TEST(Cbor, IsRefusedWhereItIsNotWhole) {
  const std::string whole = by_library({{"a", {1, 300, "text"}},
                                        {"b", as_bytes_value("bytes")},
                                        {"c", true},
                                        {"d", {{"e", 70000}}}});
  ASSERT_TRUE(CborValue::parse(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(CborValue::parse(whole.substr(0, length))) << length;
  }
  EXPECT_FALSE(CborValue::parse(whole + '\0'));
  const std::vector<std::string> damaged{
      "\x9f\xff",                              // a list without a size
      "\x1c",                                  // no such size
      "\xc0\x61t",                             // a tag
      "\x5b\xff\xff\xff\xff\xff\xff\xff\xff",  // more bytes than there are
      "\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
      "\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
      std::string(100'000, '\x81') + '\0',  // too deep
  };
  for (const std::string& bytes : damaged) EXPECT_FALSE(CborValue::parse(bytes));
}

}  // namespace
}  // namespace reshardfs
