// SPDX-License-Identifier: Apache-2.0
// The stand-ins for an older glibc, against this one's own.
#include <pthread.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <dlfcn.h>
#include <gtest/gtest.h>

#define __libc_single_threaded own_libc_single_threaded
#define arc4random own_arc4random
#define arc4random_buf own_arc4random_buf
#define _dl_find_object own_dl_find_object
#define pthread_cond_clockwait own_pthread_cond_clockwait
#define strerrorname_np own_strerrorname_np
#include "portable/old_glibc.cpp"
#undef _dl_find_object
#undef pthread_cond_clockwait
#undef strerrorname_np

namespace {

TEST(OldGlibc, NamesErrorsAsGlibcDoes) {
  int named = 0;
  for (int error = 0; error < 200; ++error) {
    const char* const name = own_strerrorname_np(error);
    if (name == nullptr) continue;
    ++named;
    ASSERT_NE(strerrorname_np(error), nullptr) << name;
    EXPECT_STREQ(name, strerrorname_np(error));
  }
  EXPECT_GT(named, 50);
}

void expect_same_object(const void* address) {
  void* const place = const_cast<void*>(address);
  dl_find_object own{};
  dl_find_object real{};
  ASSERT_EQ(own_dl_find_object(place, &own), 0);
  ASSERT_EQ(_dl_find_object(place, &real), 0);
  EXPECT_EQ(own.dlfo_eh_frame, real.dlfo_eh_frame);
  EXPECT_LE(own.dlfo_map_start, place);
  EXPECT_GT(own.dlfo_map_end, place);
}

TEST(OldGlibc, FindsTheTablesOfTheUnwinder) {
  expect_same_object(reinterpret_cast<const void*>(&expect_same_object));  // of the program
  expect_same_object(dlsym(RTLD_DEFAULT, "malloc"));                       // of a library
  dl_find_object none{};
  EXPECT_EQ(own_dl_find_object(nullptr, &none), -1);
}

TEST(OldGlibc, WaitsUntilATimeOfAnotherClock) {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += 20'000'000;
  if (until.tv_nsec >= 1'000'000'000) until.tv_nsec -= 1'000'000'000, ++until.tv_sec;
  for (auto* const wait : {&wait_by_day, &own_pthread_cond_clockwait}) {
    pthread_mutex_lock(&mutex);
    EXPECT_EQ(wait(&condition, &mutex, CLOCK_MONOTONIC, &until), ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
  }
  EXPECT_EQ(wait_by_day(&condition, &mutex, clockid_t{4711}, &until), EINVAL);
}

TEST(OldGlibc, GivesRandomNumbers) {
  EXPECT_FALSE(own_arc4random() == own_arc4random() && own_arc4random() == own_arc4random());
}

}  // namespace
