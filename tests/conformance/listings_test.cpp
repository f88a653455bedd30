// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "conformance/place.h"

namespace reshardfs::conformance {
namespace {

using Names = std::vector<std::string>;

/// As the backend lists them, directories with a slash.
Names names(const std::string& directory) {
  const auto location = directory.empty() ? place().root : place().root / directory;
  Names out;
  for (const DirectoryEntry& entry : backend().list(location)) {
    EXPECT_NE(entry.is_directory, entry.is_regular) << entry.name;
    EXPECT_FALSE(entry.is_link) << entry.name;
    out.push_back(entry.name + (entry.is_directory ? "/" : ""));
  }
  return out;
}

std::string text_of(const std::string& name) {
  const ByteSourcePtr source = open(name);
  std::string out(source->size(), '\0');
  source->read_at(0, std::as_writable_bytes(std::span(out)));
  source->check_unchanged();
  return out;
}

/// The kind of the error that an action throws.
template <typename Action>
ErrorKind kind_of_error(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_FALSE(error.message().empty());
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::kInternal;
}

TEST(Conformance, ListsTheRoot) {
  EXPECT_EQ(names(""), (Names{"changing", "empty", "large", "many/", "names/", "nested/",
                              "nested-x", "nested.d/", "one", "removed"}));
}

TEST(Conformance, ListsManyEntries) {
  Names expected;
  for (unsigned i = 0; i < kMany; ++i) {
    std::array<char, 16> name{};
    static_cast<void>(std::snprintf(name.data(), name.size(), "n_%04u", i));
    expected.emplace_back(name.data());
  }
  expected.emplace_back("z/");
  EXPECT_EQ(names("many"), expected);
  EXPECT_EQ(text_of("many/n_0000"), "n_0000");
  EXPECT_EQ(text_of("many/n_2344"), "n_2344");
}

TEST(Conformance, NamesMayHaveAnyCharacter) {
  EXPECT_EQ(names("names"), odd_names());
  for (const std::string& name : odd_names()) {
    EXPECT_EQ(backend().kind(place().root / "names" / name), PathKind::kOther) << name;
    EXPECT_EQ(text_of("names/" + name), name);
  }
}

TEST(Conformance, DirectoriesNest) {
  EXPECT_EQ(names("nested"), (Names{"a b/", "file"}));
  EXPECT_EQ(names("nested/a b"), Names{"é+%/"});
  EXPECT_EQ(names("nested/a b/é+%"), Names{"deep"});
  EXPECT_EQ(names("nested/a b/é+%/"), Names{"deep"});
  EXPECT_EQ(text_of("nested/a b/é+%/deep"), "deep");
}

TEST(Conformance, TellsKinds) {
  const auto kind = [](const std::string& name) { return backend().kind(place().root / name); };
  EXPECT_EQ(backend().kind(place().root), PathKind::kDirectory);
  for (const char* name : {"nested", "nested/a b", "nested.d", "many", "nested/"}) {
    EXPECT_EQ(kind(name), PathKind::kDirectory) << name;
  }
  for (const char* name : {"empty", "one", "large", "nested-x", "nested/a b/é+%/deep"}) {
    EXPECT_EQ(kind(name), PathKind::kOther) << name;
  }
  for (const char* name : {"lost", "nest", "nested/lost", "lost/file", "one/file", "nested.d/a"}) {
    EXPECT_EQ(kind(name), PathKind::kMissing) << name;
  }
}

TEST(Conformance, WhatIsMissingIsMissing) {
  for (const char* name : {"lost", "nest", "nested/lost", "lost/file", "many/n_9999", "names/A"}) {
    EXPECT_EQ(kind_of_error([&] { open(name); }), ErrorKind::kMissing) << name;
    EXPECT_EQ(kind_of_error([&] { names(name); }), ErrorKind::kMissing) << name;
  }
}

// Servers know no difference between what is missing and what is of the other kind.
TEST(Conformance, FilesAndDirectoriesAreNotTheSame) {
  const std::vector<ErrorKind> kinds{ErrorKind::kBadInput, ErrorKind::kMissing,
                                     ErrorKind::kUnsupported};
  for (const char* name : {"nested", "many", "nested/a b"}) {
    const ErrorKind kind = kind_of_error([&] { open(name); });
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), kind), 1) << name;
  }
  for (const char* name : {"one", "nested/file"}) {
    const ErrorKind kind = kind_of_error([&] { names(name); });
    EXPECT_EQ(std::count(kinds.begin(), kinds.begin() + 2, kind), 1) << name;
  }
}

TEST(Conformance, TellsSizesAndTimes) {
  const ByteSourcePtr large = open("large");
  EXPECT_EQ(large->size(), kLargeBytes);
  EXPECT_EQ(open("one")->size(), 1U);
  EXPECT_EQ(open("empty")->size(), 0U);
  for (const char* name : {"large", "one", "empty"}) {
    const ByteSourcePtr source = open(name);
    EXPECT_NE(source->name().find(name), std::string::npos);
    constexpr std::int64_t kSecond = 1'000'000'000;
    EXPECT_GT(source->mtime_ns(), 1'000'000'000 * kSecond) << name;
    EXPECT_LT(source->mtime_ns(), (std::int64_t{::time(nullptr)} + 86'400) * kSecond) << name;
  }
  const ByteSourcePtr again = open("large");
  EXPECT_EQ(again->mtime_ns(), large->mtime_ns());
  EXPECT_EQ(again->stamp().inode, large->stamp().inode);
  EXPECT_EQ(again->stamp().device, large->stamp().device);
  const ByteSourcePtr other = open("one");
  EXPECT_FALSE(other->stamp().inode == large->stamp().inode &&
               other->stamp().device == large->stamp().device);
}

}  // namespace
}  // namespace reshardfs::conformance
