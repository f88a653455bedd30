// SPDX-License-Identifier: Apache-2.0
/// The switch of each mutant: all of them are in one build, and RESHARDFS_MUTANT turns one on.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace mutants {

/// Number of the mutant that this process runs with; 0: none.
inline int active = 0;
/// A byte for each mutant, set once its code has run: in the file $RESHARDFS_MUTANTS_REACHED, which
/// children share. Null without such a file.
inline unsigned char* reached = nullptr;

struct Start {
  Start() {
    if (const char* number = std::getenv("RESHARDFS_MUTANT")) active = std::atoi(number);
    const char* path = std::getenv("RESHARDFS_MUTANTS_REACHED");
    if (path == nullptr) return;
    const int file = ::open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void* bytes = ::mmap(nullptr, static_cast<size_t>(::lseek(file, 0, SEEK_END)),
                         PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes != MAP_FAILED) reached = static_cast<unsigned char*>(bytes);
    ::close(file);
  }
};
inline const Start start;

constexpr bool on(int number) {
  if (__builtin_is_constant_evaluated()) return false;
  if (reached != nullptr) reached[number] = 1;
  return number == active;
}

/// For constants that are dropped: compilers would make others of them again.
inline bool live(int number) {
  return on(number);
}

/// Stands in a cast in place of a `!`.
template <int kNumber>
struct Not {
  template <typename T>
  constexpr explicit Not(const T& value) : result(static_cast<bool>(value) == on(kNumber)) {}
  constexpr operator bool() const { return result; }
  bool result;
};

// `a < b` is written as `a < LessN() < b`, so that what binds tighter and what does not stays as it
// was.
#define RESHARDFS_SWITCHED(name, sign, other)                                     \
  template <typename A, int kNumber>                                              \
  struct name##Left {                                                             \
    template <typename B>                                                         \
    constexpr auto operator sign(const B& b) const {                              \
      return on(kNumber) ? static_cast<decltype(a sign b)>(a other b) : a sign b; \
    }                                                                             \
    const A& a;                                                                   \
  };                                                                              \
  template <int kNumber>                                                          \
  struct name {};                                                                 \
  template <typename A, int kNumber>                                              \
  constexpr auto operator sign(const A& a, name<kNumber>) {                       \
    return name##Left<A, kNumber>{a};                                             \
  }
RESHARDFS_SWITCHED(Less, <, <=)
RESHARDFS_SWITCHED(LessEqual, <=, <)
RESHARDFS_SWITCHED(Greater, >, >=)
RESHARDFS_SWITCHED(GreaterEqual, >=, >)
RESHARDFS_SWITCHED(Equal, ==, !=)
RESHARDFS_SWITCHED(Unequal, !=, ==)
RESHARDFS_SWITCHED(Plus, +, -)
RESHARDFS_SWITCHED(Minus, -, +)
RESHARDFS_SWITCHED(Times, *, /)
RESHARDFS_SWITCHED(Over, /, *)
RESHARDFS_SWITCHED(Modulo, %, *)
#undef RESHARDFS_SWITCHED

// `a += b` is written as `a += AddN() += b`.
#define RESHARDFS_SWITCHED(name, sign, other)                              \
  template <typename B, int kNumber>                                       \
  struct name##Right {                                                     \
    const B& b;                                                            \
  };                                                                       \
  template <int kNumber>                                                   \
  struct name {                                                            \
    template <typename B>                                                  \
    constexpr auto operator sign(const B& b) const {                       \
      return name##Right<B, kNumber>{b};                                   \
    }                                                                      \
  };                                                                       \
  template <typename A, typename B, int kNumber>                           \
  constexpr A& operator sign(A& a, const name##Right<B, kNumber>& right) { \
    if (on(kNumber)) {                                                     \
      a other right.b;                                                     \
    } else {                                                               \
      a sign right.b;                                                      \
    }                                                                      \
    return a;                                                              \
  }
RESHARDFS_SWITCHED(Add, +=, -=)
RESHARDFS_SWITCHED(Subtract, -=, +=)
RESHARDFS_SWITCHED(Multiply, *=, /=)
RESHARDFS_SWITCHED(Divide, /=, *=)
#undef RESHARDFS_SWITCHED

}  // namespace mutants
