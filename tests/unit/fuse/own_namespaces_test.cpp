// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/own_namespaces.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/read_write.h"
#include "support/errors.h"
#include "unit/fuse/own_mounts.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::in_child;
using test::refuse_call;

class OwnNamespaces : public test::OwnMounts {
 protected:
  /// A program that does nothing.
  static fs::path program(const fs::path& path, mode_t mode) {
    std::ofstream(path) << "#!/bin/sh\n";
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  static std::string text_of(const std::string& path) { return text_of_file(path); }
  static std::ptrdiff_t descriptors() {
    return std::distance(fs::directory_iterator("/proc/self/fd"), {});
  }
};

TEST(MountRights, AreThoseOfTheProcessAndNotOfItsUser) {
  const struct {
    const char* status;
    bool has_capability;
    bool ignores_set_user_id;
  } cases[] = {
      {"", false, false},
      {"CapEff:\t0000000000200000\nNoNewPrivs:\t0\n", true, false},
      {"Uid:\t0\nCapEff:\tffffffffffdfffff\nNoNewPrivs:\t1\n", false, true},
      {"CapPrm:\t0000000000200000\nCapEff:\t0000000000000000\n", false, false},
      {"NoNewPrivs:\t0\nCapEff:\t000001ffffffffff\nCapBnd:\t0000000000000000\n", true, false},
      {"NoNewPrivs:\t1\nSeccomp:\t0\n", false, true},
      {"CapEff:\nNoNewPrivs:\n", false, false},
  };
  for (const auto& each : cases) {
    const MountRights rights = mount_rights(each.status);
    EXPECT_EQ(rights.has_capability, each.has_capability) << each.status;
    EXPECT_EQ(rights.ignores_set_user_id, each.ignores_set_user_id) << each.status;
  }
}

TEST_F(OwnNamespaces, FindsAProgramInTheFirstDirectoryThatHasIt) {
  const fs::path first = directory("first");
  const fs::path second = directory("second");
  const std::string path = (root_ / "none").string() + ":" + first.string() + ":" + second.string();
  EXPECT_EQ(find_program("tool", path), "");
  EXPECT_EQ(find_program("tool", ""), "");
  fs::create_directory(first / "tool");
  program(second / "tool", 0755);
  EXPECT_EQ(find_program("tool", path), second / "tool");
  program(first / "other", 0644);
  EXPECT_EQ(find_program("other", path), "");
  program(second / "other", 0755);
  EXPECT_EQ(find_program("other", path), second / "other");
  program(first / "other", 0755);
  EXPECT_EQ(find_program("other", path), first / "other");
  in_child([&] {
    fs::current_path(first);  // which an empty name means
    EXPECT_EQ(find_program("other", ":/nowhere"), "./other");
  });
}

TEST_F(OwnNamespaces, AProgramAlwaysRunsAsRootByItsModeItsOwnerAndItsPlace) {
  const fs::path place = directory("place");
  inside([&] {
    EXPECT_FALSE(is_set_user_id_root(place / "none"));
    mount_memory(place);
    const fs::path tool = program(place / "tool", 04755);
    EXPECT_TRUE(is_set_user_id_root(tool));
    EXPECT_FALSE(is_set_user_id_root(program(place / "plain", 0755)));
    in_child([&] {
      ASSERT_EQ(map_back(1234, 1234), 0);
      EXPECT_FALSE(is_set_user_id_root(tool)) << "of another user";
    });
    mount_memory(place, MS_NOSUID);
    EXPECT_FALSE(is_set_user_id_root(program(place / "tool", 04755)));
  });
}

TEST_F(OwnNamespaces, MountsPlainlyWithACapabilityOrWithAProgramThatHasIt) {
  if (mount_rights().ignores_set_user_id) GTEST_SKIP() << "no program can have it here";
  const fs::path place = directory("place");
  inside([&] {
    mount_memory(place);
    ::setenv("PATH", place.c_str(), 1);
    in_child([] {
      ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
      EXPECT_TRUE(may_mount_plainly());
    });
    test::drop_capabilities();
    EXPECT_FALSE(may_mount_plainly());
    program(place / "fusermount3", 0755);
    EXPECT_FALSE(may_mount_plainly());
    program(place / "fusermount3", 04755);
    EXPECT_TRUE(may_mount_plainly());
    in_child([] {
      ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
      EXPECT_FALSE(may_mount_plainly()) << "the program would run without its rights";
    });
    ::unsetenv("PATH");
    EXPECT_FALSE(may_mount_plainly());
  });
}

TEST_F(OwnNamespaces, AreThoseOfARoot) {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  const auto words_of = [](const std::string& path) {
    std::ifstream file(path);
    return std::vector<std::string>(std::istream_iterator<std::string>(file), {});
  };
  in_child([&] {
    const auto before = descriptors();
    enter_own_namespaces();
    EXPECT_EQ(descriptors(), before);
    EXPECT_EQ(words_of("/proc/self/uid_map"), (std::vector<std::string>{"0", user, "1"}));
    EXPECT_EQ(words_of("/proc/self/gid_map"), (std::vector<std::string>{"0", group, "1"}));
    EXPECT_EQ(text_of("/proc/self/setgroups"), "deny\n");
    in_child([&] {
      EXPECT_EQ(map_back(1234, 2345), 0);
      EXPECT_EQ(::geteuid(), 1234U);
      EXPECT_EQ(::getegid(), 2345U);
    });
    in_child([&] {
      refuse_call(SYS_unshare, ENOSPC);
      EXPECT_EQ(map_back(1234, 2345), ENOSPC);
      EXPECT_EQ(::geteuid(), 0U);
    });
  });
}

TEST_F(OwnNamespaces, ShareNoMountsWithThoseThatTheyWereCopiedFrom) {
  inside([&] {
    ASSERT_EQ(::mount("none", "/", nullptr, MS_REC | MS_SHARED, nullptr), 0);
    ASSERT_NE(text_of("/proc/self/mountinfo").find(" shared:"), std::string::npos);
    in_child([] {
      enter_own_namespaces();
      const std::string mounts = text_of("/proc/self/mountinfo");
      EXPECT_EQ(mounts.find(" shared:"), std::string::npos);
      EXPECT_EQ(mounts.find(" master:"), std::string::npos);
    });
  });
}

TEST_F(OwnNamespaces, SayWhyTheSystemHasNoneAndTheWayOn) {
  const std::string no_kernel = "this kernel has no user namespaces";
  const std::string forbidden = "seccomp, AppArmor or kernel.unprivileged_userns_clone forbids it";
  const struct {
    long call;
    int error;
    std::vector<test::CallWith> with;
    std::string step;
    std::string reason;
  } cases[] = {
      {SYS_unshare, ENOSPC, {}, "make a user namespace", "user.max_user_namespaces allows no more"},
      {SYS_unshare, ENOSYS, {}, "make a user namespace", no_kernel},
      {SYS_unshare, EINVAL, {}, "make a user namespace", no_kernel},
      {SYS_unshare, EPERM, {}, "make a user namespace", forbidden},
      {SYS_write, EPERM, {{2, 4}}, "map this user in it", forbidden},  // "deny"
      {SYS_mount, EACCES, {}, "make its mounts private", forbidden},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.step + ": " + each.reason);
    in_child([&] {
      refuse_call(each.call, each.error, each.with);
      expect_error(ErrorKind::kIo,
                   {"cannot mount for a command alone: " + each.step + ": " +
                        std::strerror(each.error) + ": " + each.reason,
                    "reshardfs export"},
                   enter_own_namespaces);
    });
  }
}

}  // namespace
}  // namespace reshardfs
