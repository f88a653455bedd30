// SPDX-License-Identifier: Apache-2.0
/// cache_rounds KILLS PROCESSES [--self-test | --flip-bits]
///
/// So many processes at once fill one cache, read from it and evict; each is killed when it has got
/// as far as chance wants, and another one takes its place. A third of the kills hit a process at a
/// system call with which it is writing a block, and a third one that is evicting. All that is read
/// is compared. With --flip-bits, wrong bits come into the files all the time.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cache_user.h"
#include "kill_points.h"
#include "support/temp_dir.h"

namespace reshardfs::test {
namespace {

namespace fs = std::filesystem;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    from = ends[0];
    to = ends[1];
  }
  int from = -1;
  int to = -1;
};

struct Process {
  pid_t pid = 0;
  int events = -1;
  KillPoint point;
};

class Rounds {
 public:
  Rounds(fs::path directory, std::size_t processes, std::uint64_t seed, bool flip_bits)
      : directory_(std::move(directory)),
        random_(seed),
        flip_bits_(flip_bits),
        processes_(processes) {}

  /// @return whether all was right.
  bool run(std::uint64_t kills);
  bool check_files();
  fs::path own() const { return directory_ / ("reshardfs-" + std::to_string(::geteuid())); }

 private:
  void start(Process& process);
  void wait_until_stopped(const Process& process);
  bool take_event(Process& process);
  void kill(Process& process);
  void flip_a_bit();
  bool end_all();
  fs::path directory_;
  std::mt19937_64 random_;
  const bool flip_bits_;
  std::vector<Process> processes_;
  Pipe stop_;
  Pipe reports_;
  std::array<std::uint64_t, 3> kills_{};  ///< by moment
  std::uint64_t blocks_ = 0;
  std::uint64_t flipped_ = 0;
  std::uint64_t late_ = 0;  ///< stopped, but not at the moment that was meant
  bool right_ = true;
};

void Rounds::start(Process& process) {
  constexpr std::uint64_t kMostBlocks = 50;
  constexpr std::uint64_t kMostCallsWriting = 6;
  constexpr std::uint64_t kMostCallsEvicting = 100;
  const Pipe events;
  const std::uint64_t seed = random_();
  process.point.moment = static_cast<Moment>(random_() % kills_.size());
  process.point.blocks = 1 + random_() % kMostBlocks;
  process.point.calls = random_() % (process.point.moment == Moment::kEvicting ? kMostCallsEvicting
                                                                               : kMostCallsWriting);
  process.pid = ::fork();
  if (process.pid == 0) {
    // Where this program gives up, nobody lets go on, or ends, what has stopped.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(stop_.to);
    ::close(events.from);
    for (const Process& other : processes_) {
      if (other.events >= 0) ::close(other.events);
    }
    ::_exit(use_cache(directory_, seed, process.point, stop_.from, events.to, reports_.to));
  }
  ::close(events.to);
  process.events = events.from;
}

void Rounds::wait_until_stopped(const Process& process) {
  int status = 0;
  ::waitpid(process.pid, &status, WUNTRACED);
  if (WIFSTOPPED(status)) return;
  std::fprintf(stderr, "a process ended with status %d\n", status);
  std::exit(1);
}

void Rounds::kill(Process& process) {
  ++kills_[static_cast<std::size_t>(process.point.moment)];
  ::kill(process.pid, SIGKILL);
  int status = 0;
  ::waitpid(process.pid, &status, 0);
  if (!WIFSIGNALED(status)) right_ = false;  // it has ended itself
  ::close(process.events);
  process.events = -1;
}

/// In a file of a folder that chance chooses, if one is there.
void Rounds::flip_a_bit() {
  constexpr std::uint64_t kFolders = 16;
  constexpr const char* kDigits = "0123456789abcdef";
  std::error_code gone;
  for (const auto& entry :
       fs::directory_iterator(own() / std::string(1, kDigits[random_() % kFolders]), gone)) {
    const int file = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    struct stat status {};
    if (file < 0) continue;  // somebody has just evicted it
    if (::fstat(file, &status) == 0 && status.st_size > 0) {
      const auto at = static_cast<off_t>(random_() % static_cast<std::uint64_t>(status.st_size));
      char byte = 0;
      if (::pread(file, &byte, 1, at) == 1) {
        byte = static_cast<char>(byte ^ (1 << (random_() % 8)));
        if (::pwrite(file, &byte, 1, at) == 1) ++flipped_;
      }
    }
    ::close(file);
    return;
  }
}

bool Rounds::end_all() {
  ::close(stop_.to);
  UserReport sum;
  for (Process& process : processes_) {
    // It must not wait for somebody to read its events, nor stay where it was to be killed.
    for (char event = 0; ::read(process.events, &event, 1) == 1;) {
      if (event != kStopped) continue;
      wait_until_stopped(process);
      ::kill(process.pid, SIGCONT);
    }
    ::close(process.events);
    int status = 0;
    ::waitpid(process.pid, &status, 0);
    UserReport report;
    const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
                       ::read(reports_.from, &report, sizeof(report)) == sizeof(report);
    if (!ended) {
      std::fprintf(stderr, "a process ended with status %d\n", status);
      right_ = false;
      continue;
    }
    sum.hits += report.hits;
    sum.misses += report.misses;
    sum.evicted += report.evicted;
    sum.bad += report.bad;
    sum.failures += report.failures;
  }
  std::printf("the last %zu processes: %lu hits, %lu misses, %lu evicted, %lu bad, %lu failures\n",
              processes_.size(), sum.hits, sum.misses, sum.evicted, sum.bad, sum.failures);
  return right_ && (sum.bad == 0 || flipped_ > 0) && sum.failures == 0;
}

/// What is left is right, within the bound, and without files of those who were killed.
bool Rounds::check_files() {
  const std::uint64_t wrong = wrong_in(directory_);
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  for (const auto& entry : fs::recursive_directory_iterator(own())) {
    struct stat status {};
    if (::lstat(entry.path().c_str(), &status) != 0) continue;
    bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    if (entry.is_regular_file()) ++records;
  }
  const bool is_clear = fs::is_empty(own() / "filling");
  std::printf("left: %lu files, %lu bytes of %lu, %lu wrong, %s\n", records, bytes, kMaxBytes,
              wrong, is_clear ? "nothing half written" : "files half written");
  return wrong == 0 && bytes <= kMaxBytes && is_clear;
}

/// @return whether the process is to be killed now.
bool Rounds::take_event(Process& process) {
  char event = 0;
  if (::read(process.events, &event, 1) != 1) return true;  // it has ended itself
  if (event == kStopped) {
    wait_until_stopped(process);
    // Another thread may have ended meanwhile what one has stopped at: then it is any moment.
    if (!is_doing(process.pid, process.point.moment)) {
      ++late_;
      process.point.moment = Moment::kAny;
    }
    return true;
  }
  ++blocks_;
  if (flip_bits_) flip_a_bit();
  return process.point.moment == Moment::kAny && --process.point.blocks == 0;
}

bool Rounds::run(std::uint64_t kills) {
  for (Process& process : processes_) start(process);
  for (std::uint64_t done = 0; done < kills;) {
    std::vector<pollfd> waiting;
    for (const Process& process : processes_) waiting.push_back({process.events, POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), -1);
    for (std::size_t i = 0; i < processes_.size() && done < kills; ++i) {
      if (waiting[i].revents == 0 || !take_event(processes_[i])) continue;
      kill(processes_[i]);
      ++done;
      start(processes_[i]);
    }
  }
  std::printf("%lu kills after %lu blocks: %lu at any moment, %lu writing, %lu evicting\n", kills,
              blocks_, kills_[0], kills_[1], kills_[2]);
  if (late_ > 0) std::printf("%lu stopped too late for their moment\n", late_);
  if (late_ > kills / 4) {
    std::fprintf(stderr, "too many processes have stopped at the wrong moment\n");
    right_ = false;
  }
  if (flip_bits_) std::printf("%lu wrong bits\n", flipped_);
  const bool ended = end_all();
  return check_files() && ended;
}

int main_of(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: cache_rounds KILLS PROCESSES [--self-test | --flip-bits]\n");
    return 2;
  }
  const std::string_view option = argc > 3 ? argv[3] : "";
  const bool self_test = option == "--self-test";
  const std::uint64_t seed = std::random_device()();
  std::printf("seed %lu\n", seed);
  std::fflush(stdout);
  const TempDir dir;
  Rounds rounds(dir.path(), std::strtoul(argv[2], nullptr, 10), seed, option == "--flip-bits");
  if (!rounds.run(std::strtoul(argv[1], nullptr, 10))) return 1;
  if (!self_test) return 0;
  fs::remove_all(rounds.own());
  put_wrong_block(dir.path());
  return rounds.check_files() ? 1 : 0;
}

}  // namespace
}  // namespace reshardfs::test

int main(int argc, char** argv) {
  return reshardfs::test::main_of(argc, argv);
}
