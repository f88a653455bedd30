// SPDX-License-Identifier: Apache-2.0
/// The daemon where operator new has nothing to give for the start of a thread.
#include <atomic>
#include <cstdlib>
#include <new>

#include "protocol/protocol_test.h"

namespace {

/// What std::thread allocates for a function object of two pointers: a table of virtual
/// functions, and these. To refuse all would be to refuse the fake kernel, too.
constexpr std::size_t kThreadState = 3 * sizeof(void*);

std::atomic<bool> memory_is_scarce{false};
std::atomic<int> refused{0};
thread_local bool is_spared = false;

void* allocate_or_null(std::size_t bytes) noexcept {
  if (memory_is_scarce && !is_spared && bytes == kThreadState) {
    ++refused;
    return nullptr;
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* allocate(std::size_t bytes) {
  if (void* memory = allocate_or_null(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// For the whole program. The sanitizers watch malloc() and free() themselves.
void* operator new(std::size_t bytes) {
  return allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
// Not inlined: a compiler that sees new without malloc() takes free() for a mistake.
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace reshardfs::testing_protocol {
namespace {

class ScarceMemory {
 public:
  ScarceMemory() {
    is_spared = true;
    memory_is_scarce = true;
  }
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;
  ~ScarceMemory() {
    memory_is_scarce = false;
    is_spared = false;
  }
};

TEST(ProtocolMemory, AThreadThatCannotBeStartedEndsNothing) {
  spdlog::set_level(spdlog::level::off);
  TestTree source;
  ProtocolSession session(source);
  {
    // The first thread takes the first request, and wants another one to take the second.
    const ScarceMemory scarce;
    EXPECT_EQ(session.kernel().call(FUSE_INIT, 0, FakeKernel::init_body()).error, 0);
  }
  EXPECT_GT(refused, 0) << "a thread's state is not as large as was thought";
  EXPECT_NE(session.kernel().lookup(kRootInode, "dir"), 0U);
  EXPECT_TRUE(session.stop());
  EXPECT_EQ(session.error(), 0);
}

}  // namespace
}  // namespace reshardfs::testing_protocol
