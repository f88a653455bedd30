// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/asker.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using namespace std::chrono_literals;

TEST(ProcessOfStatus, IsTheThreadGroup) {
  EXPECT_EQ(process_of_status("Name:\tx\nState:\tR\nTgid:\t123\nNgid:\t0\nPid:\t456\n"), 123);
  EXPECT_EQ(process_of_status("Name:\tTgid:\t9\nPid:\t456\n"), 0);
  EXPECT_EQ(process_of_status(""), 0);
  EXPECT_EQ(process_of_status("Name:\tx\nTgid:\t"), 0);
}

TEST(CgroupPath, IsThatOfVersion2) {
  EXPECT_EQ(cgroup_path("0::/kubepods.slice/pod1/a\n"), "/kubepods.slice/pod1/a");
  EXPECT_EQ(cgroup_path("4:memory:/m\n1:name=systemd:/s\n0::/own\n"), "/own");
  EXPECT_EQ(cgroup_path("0::/\n"), "/");
}

TEST(CgroupPath, IsOfAHierarchyOfVersion1WhereThereIsNoOther) {
  EXPECT_EQ(cgroup_path("4:devices:/\n3:memory:/job_7/step:0\n1:cpu:/other\n"), "/job_7/step:0");
  EXPECT_EQ(cgroup_path("4:devices:/\n"), "");
  EXPECT_EQ(cgroup_path("no lines of it"), "");
  EXPECT_EQ(cgroup_path(""), "");
}

TEST(Asker, IsDescribedByItsProcess) {
  LogFields fields;
  std::thread([&] {
    const Asker asker{.thread = ::gettid(), .since = Asker::Clock::now() - 2s};
    asker.describe(fields);
  }).join();
  EXPECT_EQ(fields.client_pid, ::getpid());
  std::ostringstream own;
  own << std::ifstream("/proc/self/cgroup").rdbuf();
  EXPECT_EQ(fields.client_cgroup, cgroup_path(own.str()));
  ASSERT_TRUE(fields.duration);
  EXPECT_GE(*fields.duration, 2s);
  EXPECT_LT(*fields.duration, 60s);
}

TEST(Asker, IsUnknownWhereItsThreadIs) {
  for (const pid_t thread : {0, -1, 0x7fffffff}) {
    LogFields fields;
    Asker{.thread = thread}.describe(fields);
    EXPECT_EQ(fields.client_pid, 0);
    EXPECT_EQ(fields.client_cgroup, "");
    EXPECT_TRUE(fields.duration);
  }
}

}  // namespace
}  // namespace reshardfs
