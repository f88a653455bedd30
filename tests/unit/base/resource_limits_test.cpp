// SPDX-License-Identifier: Apache-2.0
#include "base/process/resource_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <new>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A soft limit, until the end of the scope.
class Limited {
 public:
  Limited(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource_, &old_);
    const rlimit low{value, old_.rlim_max};
    ::setrlimit(resource_, &low);
  }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;
  ~Limited() { ::setrlimit(resource_, &old_); }

 private:
  __rlimit_resource resource_;
  rlimit old_{};
};

constexpr rlim_t kLarge = rlim_t{1} << 46U;

TEST(LimitHint, NamesTheLimitsOfMemory) {
  const Limited data(RLIMIT_DATA, kLarge);
  const Limited addresses(RLIMIT_AS, 2 * kLarge);
  for (const Resource resource : {Resource::kMemory, Resource::kThreads}) {
    EXPECT_THAT(limit_hint(resource), AllOf(HasSubstr("ulimit -d (now 68719476736 KiB)"),
                                            HasSubstr("ulimit -v (now 137438953472 KiB)")));
  }
}

TEST(LimitHint, LeavesOutWhatIsNotLimited) {
  const Limited data(RLIMIT_DATA, RLIM_INFINITY);
  const Limited addresses(RLIMIT_AS, RLIM_INFINITY);
  EXPECT_THAT(limit_hint(Resource::kMemory), Not(HasSubstr("ulimit")));
  EXPECT_FALSE(limit_hint(Resource::kMemory).empty());
}

TEST(LimitHint, IsPartOfAnErrorThatALimitMayHaveCaused) {
  const Limited files(RLIMIT_NOFILE, 333);
  const Limited size(RLIMIT_FSIZE, 4444444);
  EXPECT_THAT(io_error("open", "f", EMFILE).what(), HasSubstr("ulimit -n (now 333)"));
  EXPECT_THAT(io_error("write", "f", EFBIG).what(), HasSubstr("ulimit -f (now 4444444 bytes)"));
  EXPECT_THAT(io_error("open", "f", ENFILE).what(), HasSubstr("fs.file-max"));
  EXPECT_EQ(std::string(io_error("open", "f", EACCES).what()), "f: cannot open: Permission denied");
}

TEST(LimitHint, TellsWhyThereIsNoThread) {
  const Limited data(RLIMIT_DATA, kLarge);
  const std::system_error lack(EAGAIN, std::generic_category());
  EXPECT_THAT(why_no_thread(lack),
              AllOf(HasSubstr("Resource temporarily unavailable"), HasSubstr("ulimit -d")));
  EXPECT_THAT(why_no_thread(std::bad_alloc()),
              AllOf(HasSubstr("Cannot allocate memory"), HasSubstr("ulimit -d")));
}

TEST(MemorySize, IsAtMostTheMachines) {
  const auto machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_LE(memory_size(), machine);
  EXPECT_GT(memory_size(), 0);
}

TEST(AddressSpace, IsLimitedOrNot) {
  {
    const Limited addresses(RLIMIT_AS, 2 * kLarge);
    EXPECT_TRUE(is_address_space_limited());
  }
  const Limited addresses(RLIMIT_AS, RLIM_INFINITY);
  EXPECT_FALSE(is_address_space_limited());
}

}  // namespace
}  // namespace reshardfs
