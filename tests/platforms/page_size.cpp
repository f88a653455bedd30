// SPDX-License-Identifier: Apache-2.0
// Preloaded, it tells a program that pages have RESHARDFS_TEST_PAGE_BYTES bytes, as on kernels that
// a machine cannot run.
#include <unistd.h>

#include <cstdlib>

#include <dlfcn.h>

namespace {

long told() {
  const char* const value = std::getenv("RESHARDFS_TEST_PAGE_BYTES");
  return value == nullptr ? 0 : std::atol(value);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) long sysconf(int name) {
  using Sysconf = long(int);
  static auto* const real = reinterpret_cast<Sysconf*>(::dlsym(RTLD_NEXT, "sysconf"));
  const long bytes = name == _SC_PAGESIZE ? told() : 0;
  return bytes > 0 ? bytes : real(name);
}

__attribute__((visibility("default"))) int getpagesize() noexcept {
  return static_cast<int>(sysconf(_SC_PAGESIZE));
}
}
