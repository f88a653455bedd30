// SPDX-License-Identifier: Apache-2.0
/// verify_reads --pairs FILE --tally FILE [--seconds N] [--reads N] [--seed N] [--own N]
///              [--smallest BYTES] [--largest BYTES] [--only-pread 1]
///
/// Reads files of a mount in many ways at random places, and compares each byte with a file on disk
/// that holds what must be there. --pairs names a file with a line for each: the mounted file, a
/// tab, the file to compare with. Of three reads two are of the first --own files. Lengths are
/// log-uniform between --smallest and --largest. It ends after --seconds or --reads, whichever is
/// first. What it did is added to --tally (see read_tally.h); what was wrong is on standard error,
/// and then the exit code is 1.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "read_tally.h"

namespace load {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::span<const std::byte>;

/// For comparing: quicker than byte by byte.
std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr std::size_t kWholeFileBlock = 1U << 20U;
/// What is said of what is wrong; all of it is counted.
constexpr int kMostComplaints = 20;

struct Arguments {
  std::filesystem::path pairs;
  std::filesystem::path tally;
  double seconds = 1e9;
  std::uint64_t reads = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t seed = 1;
  std::size_t own = 0;
  std::size_t smallest = 1;
  std::size_t largest = 256U << 10U;
  bool only_pread = false;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

class File {
 public:
  explicit File(std::filesystem::path path) : path_(std::move(path)) { open(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() { close(); }

  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }
  std::size_t size() const {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) fail(path_);
    return static_cast<std::size_t>(status.st_size);
  }
  void open_again() {
    close();
    open();
  }

 private:
  void open() {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) fail(path_);
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  std::filesystem::path path_;
  int fd_ = -1;
};

/// A range of a file in memory, unmapped at the end.
class Map {
 public:
  Map(const File& file, std::size_t offset, std::size_t length, int kind)
      : skip_(offset % page()), length_(length) {
    map_ = ::mmap(nullptr, skip_ + length_, PROT_READ, kind, file.fd(),
                  static_cast<off_t>(offset - skip_));
    if (map_ == MAP_FAILED) fail(file.path());
  }
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;
  Map(Map&& other) noexcept
      : skip_(other.skip_), length_(other.length_), map_(std::exchange(other.map_, MAP_FAILED)) {}
  Map& operator=(Map&&) = delete;
  ~Map() {
    if (map_ != MAP_FAILED) ::munmap(map_, skip_ + length_);
  }

  Bytes bytes() const { return {static_cast<const std::byte*>(map_) + skip_, length_}; }

 private:
  static std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

  std::size_t skip_;
  std::size_t length_;
  void* map_ = MAP_FAILED;
};

struct Pair {
  explicit Pair(const std::filesystem::path& mounted, const std::filesystem::path& reference)
      : file(mounted),
        whole(File(reference), 0, std::filesystem::file_size(reference), MAP_SHARED) {
    if (file.size() != whole.bytes().size()) {
      throw std::runtime_error(file.path().string() + ": " + std::to_string(file.size()) +
                               " bytes, not " + std::to_string(whole.bytes().size()));
    }
  }

  File file;
  Map whole;
};

std::vector<Pair> open_pairs(const std::filesystem::path& list) {
  std::vector<Pair> out;
  std::ifstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) throw std::runtime_error("no tab in '" + line + "'");
    out.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  if (out.empty()) throw std::runtime_error(list.string() + " names no files");
  return out;
}

class Reader {
 public:
  Reader(const Arguments& arguments, std::vector<Pair> pairs, Tally& tally)
      : arguments_(arguments),
        pairs_(std::move(pairs)),
        tally_(tally),
        random_(arguments.seed),
        buffer_(std::max(arguments.largest, kWholeFileBlock)) {}

  /// @return whether all bytes were right, and no call failed.
  bool run() {
    const auto end = Clock::now() + std::chrono::duration<double>(arguments_.seconds);
    while (done_ < arguments_.reads && Clock::now() < end) {
      Pair& pair = choose();
      if (arguments_.only_pread) {
        read_at(pair, place(pair), length());
      } else {
        read_somehow(pair);
      }
      if (number(0, 199) == 0) open_again(pair);
    }
    return good_;
  }

 private:
  std::uint64_t number(std::uint64_t first, std::uint64_t last) {
    return std::uniform_int_distribution(first, last)(random_);
  }
  Pair& choose() {
    const std::size_t own = std::min(arguments_.own, pairs_.size());
    return pairs_[number(0, (own > 0 && number(0, 2) > 0 ? own : pairs_.size()) - 1)];
  }
  std::size_t place(const Pair& pair) { return number(0, pair.whole.bytes().size() - 1); }
  std::size_t length() {
    const double shortest = std::log(static_cast<double>(arguments_.smallest));
    const double longest = std::log(static_cast<double>(arguments_.largest) + 1);
    const double chosen = std::exp(std::uniform_real_distribution(shortest, longest)(random_));
    return std::clamp(static_cast<std::size_t>(chosen), arguments_.smallest, arguments_.largest);
  }

  void read_somehow(Pair& pair) {
    const std::uint64_t kind = number(0, 999);
    const std::size_t size = pair.whole.bytes().size();
    if (kind < 850) {
      read_at(pair, place(pair), length());
    } else if (kind < 900) {
      read_at(pair, size - std::min<std::size_t>(size, number(0, 5000)), length());
    } else if (kind < 950) {
      read_two(pair, place(pair), length());
    } else if (kind < 998) {
      read_map(pair, place(pair), length());
    } else {
      read_whole(pair);
    }
  }

  /// Times a call that fills the buffer, and judges what it gave.
  template <typename Call>
  std::size_t timed(const Pair& pair, std::size_t offset, std::size_t length, Call&& call) {
    const auto begin = Clock::now();
    const ssize_t count = call();
    const int error = errno;
    note(Clock::now() - begin);
    if (count < 0) {
      complain(pair, length, offset, std::strerror(error));
      ++tally_.errors;
      return 0;
    }
    const auto got = static_cast<std::size_t>(count);
    const std::size_t all = std::min(length, pair.whole.bytes().size() - offset);
    if (got != all) {
      complain(pair, length, offset, "gave " + std::to_string(got));
      ++tally_.errors;
    }
    compare(pair, offset, std::as_bytes(std::span(buffer_)).first(got));
    return got;
  }

  void read_at(const Pair& pair, std::size_t offset, std::size_t length) {
    timed(pair, offset, length, [&] {
      return ::pread(pair.file.fd(), buffer_.data(), length, static_cast<off_t>(offset));
    });
  }

  void read_two(const Pair& pair, std::size_t offset, std::size_t length) {
    const std::size_t first = number(0, length);
    const std::array<iovec, 2> parts{
        {{buffer_.data(), first}, {buffer_.data() + first, length - first}}};
    timed(pair, offset, length,
          [&] { return ::preadv(pair.file.fd(), parts.data(), 2, static_cast<off_t>(offset)); });
  }

  /// A read that fails raises SIGBUS, which ends this program.
  void read_map(const Pair& pair, std::size_t offset, std::size_t length) {
    const std::size_t all = std::min(length, pair.whole.bytes().size() - offset);
    const auto begin = Clock::now();
    // Files that bypass the page cache cannot be mapped shared.
    const Map map(pair.file, offset, all, MAP_PRIVATE);
    std::memcpy(buffer_.data(), map.bytes().data(), all);
    note(Clock::now() - begin);
    ++tally_.maps;
    compare(pair, offset, std::as_bytes(std::span(buffer_)).first(all));
  }

  void read_whole(Pair& pair) {
    // From a descriptor of its own: its place in the file.
    File file(pair.file.path());
    std::size_t offset = 0;
    for (;;) {
      const std::size_t got = timed(pair, offset, kWholeFileBlock, [&] {
        return ::read(file.fd(), buffer_.data(), kWholeFileBlock);
      });
      if (got == 0) break;
      offset += got;
    }
    ++tally_.whole_files;
  }

  void open_again(Pair& pair) {
    // Without pages of it in the kernel reads reach the daemon again.
    ::posix_fadvise(pair.file.fd(), 0, 0, POSIX_FADV_DONTNEED);
    pair.file.open_again();
    ++tally_.openings;
  }

  void note(Clock::duration took) {
    ++done_;
    ++tally_.reads;
    tally_.note(took);
  }

  void compare(const Pair& pair, std::size_t offset, Bytes got) {
    tally_.bytes += got.size();
    const Bytes expected = pair.whole.bytes().subspan(offset, got.size());
    if (text_of(got) == text_of(expected)) return;
    std::uint64_t wrong = 0;
    std::size_t first = got.size();
    for (std::size_t i = got.size(); i-- > 0;) {
      if (got[i] == expected[i]) continue;
      ++wrong;
      first = i;
    }
    tally_.wrong_bytes += wrong;
    complain(
        pair, got.size(), offset,
        std::to_string(wrong) + " wrong bytes, the first at " + std::to_string(offset + first));
  }

  void complain(const Pair& pair, std::size_t length, std::size_t offset, const std::string& what) {
    good_ = false;
    if (complaints_++ >= kMostComplaints) return;
    std::fprintf(stderr, "%s: a read of %zu bytes at %zu: %s\n", pair.file.path().c_str(), length,
                 offset, what.c_str());
  }

  const Arguments& arguments_;
  std::vector<Pair> pairs_;
  Tally& tally_;
  std::mt19937_64 random_;
  std::vector<char> buffer_;
  std::uint64_t done_ = 0;
  bool good_ = true;
  int complaints_ = 0;
};

Arguments parse(std::span<char*> words) {
  Arguments out;
  for (std::size_t i = 1; i + 1 < words.size(); i += 2) {
    const std::string_view name = words[i];
    const std::string value = words[i + 1];
    if (name == "--pairs") {
      out.pairs = value;
    } else if (name == "--tally") {
      out.tally = value;
    } else if (name == "--seconds") {
      out.seconds = std::stod(value);
    } else if (name == "--reads") {
      out.reads = std::stoull(value);
    } else if (name == "--seed") {
      out.seed = std::stoull(value);
    } else if (name == "--own") {
      out.own = std::stoull(value);
    } else if (name == "--smallest") {
      out.smallest = std::max<std::size_t>(std::stoull(value), 1);
    } else if (name == "--largest") {
      out.largest = std::stoull(value);
    } else if (name == "--only-pread") {
      out.only_pread = value == "1";
    } else {
      throw std::runtime_error("unknown option " + std::string(name));
    }
  }
  return out;
}

}  // namespace
}  // namespace load

int main(int argc, char** argv) {
  try {
    const load::Arguments arguments = load::parse({argv, static_cast<std::size_t>(argc)});
    load::Tally& tally = load::map_tally(arguments.tally);
    return load::Reader(arguments, load::open_pairs(arguments.pairs), tally).run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
