// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "fuse/mounting/mount_options.h"

namespace reshardfs {
namespace {

MountOptions with_words(std::vector<std::string> words) {
  MountOptions options;
  options.source_name = "/data";
  options.fuse_options = std::move(words);
  return options;
}

TEST(MountArguments, EscapeWhatMeansSomethingInAList) {
  EXPECT_EQ(escape_option_value(""), "");
  EXPECT_EQ(escape_option_value("/a b/c"), "/a b/c");
  EXPECT_EQ(escape_option_value("/a,b\\c"), "/a\\,b\\\\c");
}

TEST(MountArguments, AlwaysHoldTheSafeWords) {
  EXPECT_EQ(mount_words(with_words({})),
            "ro,nosuid,nodev,default_permissions,subtype=reshardfs,fsname=/data");
  // Later words win over earlier ones.
  EXPECT_EQ(mount_words(with_words({"allow_other", "noatime"})),
            "allow_other,noatime,ro,nosuid,nodev,default_permissions,subtype=reshardfs,"
            "fsname=/data");
}

TEST(MountArguments, EscapeTheSourcesName) {
  MountOptions options;
  options.source_name = "/a,rw,\\b";
  EXPECT_TRUE(mount_words(options).ends_with(",fsname=/a\\,rw\\,\\\\b"));
  options.source_name = "";
  EXPECT_TRUE(mount_words(options).ends_with(",fsname=reshardfs"));
}

TEST(MountArguments, RefuseWordsThatUndoAPromise) {
  for (const char* word : {"rw", "suid", "dev", "fsname=x", "subtype=y", ""}) {
    EXPECT_THROW(mount_words(with_words({word})), Error) << word;
  }
}

TEST(MountArguments, OneWordCannotSmuggleInAnother) {
  EXPECT_TRUE(mount_words(with_words({"allow_other,rw"})).starts_with("allow_other\\,rw,"));
}

}  // namespace
}  // namespace reshardfs
