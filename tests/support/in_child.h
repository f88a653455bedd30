// SPDX-License-Identifier: Apache-2.0
/// For tests of what a process cannot undo: of its namespaces, its rights, and its system calls.
#pragma once

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs::test {

inline constexpr int kSkippedInChild = 77;

/// Runs `work` in a child process, with the failures of assertions. It is skipped if it ends with
/// kSkippedInChild.
inline void in_child(const std::function<void()>& work) {
  std::fflush(nullptr);  // so that nothing is written twice
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkippedInChild) {
    GTEST_SKIP() << "this system does not let the test's process do it";
  }
  EXPECT_EQ(status, 0) << "how the child process has ended";
}

/// A value of one of a system call's arguments.
struct CallWith {
  unsigned argument = 0;
  unsigned value = 0;
};

/// In a child: from now on a system call fails with an error, or only that with one of the values.
inline void refuse_call(long number, int error, const std::vector<CallWith>& with = {}) {
  const auto load = [](std::size_t from) {
    return sock_filter(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(from)));
  };
  const auto skip_unless = [](unsigned value, std::size_t steps) {
    return sock_filter(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, static_cast<unsigned char>(steps)));
  };
  const sock_filter refuse =
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error));
  const std::size_t steps = with.empty() ? 1 : 3 * with.size();
  std::vector<sock_filter> program{load(offsetof(seccomp_data, nr)),
                                   skip_unless(static_cast<unsigned>(number), steps)};
  if (with.empty()) program.push_back(refuse);
  for (const CallWith& each : with) {
    program.push_back(load(offsetof(seccomp_data, args) + 8 * each.argument));
    program.push_back(skip_unless(each.value, 1));
    program.push_back(refuse);
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  const bool good = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                    ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
  if (!good) ::_exit(kSkippedInChild);
}

/// In a child: so many more files can be opened.
inline void limit_descriptors(int free) {
  int end = 0;
  while (free >= 0) {
    if (::fcntl(end, F_GETFD) < 0) --free;
    if (free >= 0) ++end;
  }
  const rlimit limit{static_cast<rlim_t>(end), static_cast<rlim_t>(end)};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/// In a child: gives up all capabilities.
inline void drop_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> none{};
  ASSERT_EQ(::syscall(SYS_capset, &header, none.data()), 0);
}

}  // namespace reshardfs::test
