// SPDX-License-Identifier: Apache-2.0
#include "storage/local/local_readers.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/process/process_state.h"
#include "base/process/signals.h"

namespace reshardfs {
namespace {

/// How often one of the threads looks whether what keeps others from starting is stuck.
constexpr std::chrono::milliseconds kReaderLookInterval{20};

}  // namespace

/// One read, from when it is asked for to its end.
struct LocalReaders::Task {
  FilePtr file;
  Read read;
  Clock::time_point started{};
  bool stuck = false;
};

/// Guarded by the mutex of the state that owns it.
class LocalReaders::File {
 public:
  explicit File(std::shared_ptr<FileSystemSpeed> its_file_system) noexcept
      : file_system(std::move(its_file_system)) {}

  /// Reads that were under way in the process that this one was forked from never end here.
  void belong_to(const State* state, unsigned first_window) noexcept {
    if (owner == state) return;
    owner = state;
    window = first_window;
    needed.clear();
    ahead.clear();
    active = stuck = 0;
    last = nullptr;
  }
  bool waits() const noexcept { return !needed.empty() || !ahead.empty(); }

  /// Whether nothing has come back since a read got stuck.
  bool hangs() const noexcept { return stuck > 0 && window == 1; }

  const std::shared_ptr<FileSystemSpeed> file_system;
  const State* owner = nullptr;
  Tasks needed;
  Tasks ahead;
  unsigned active = 0;  ///< reads that are not stuck
  unsigned stuck = 0;
  unsigned window = 0;  ///< how many may be active while any read of its file system is stuck
  Clock::time_point last_start{};
  const Task* last = nullptr;  ///< the one that began last, until it ends
};

/// A thread's work needs no memory, because nothing could handle its lack.
struct LocalReaders::State {
  explicit State(const Limits& its_limits) : limits(its_limits) {}

  void work(const std::shared_ptr<State>& self) noexcept;
  // These need the mutex.
  void add(const FilePtr& file, Foresight when, Tasks task);
  bool start_thread(const std::shared_ptr<State>& self) noexcept;
  void call_another(const std::shared_ptr<State>& self) noexcept;
  void look(Clock::time_point now) noexcept;
  Clock::duration patience(const File& file) const noexcept {
    return file.file_system->patience(limits.patience);
  }
  bool may_start(const File& file, Clock::time_point now) const noexcept;
  bool take(Tasks::iterator& task) noexcept;
  bool wait_for_work(std::unique_lock<std::mutex>& lock) noexcept;
  void end(Tasks::iterator task) noexcept;

  const Limits limits;
  std::mutex mutex;  // guards all below
  std::condition_variable work_came;
  unsigned threads = 0;
  unsigned idle = 0;
  bool one_looks = false;    ///< an idle thread wakes by itself
  std::list<FilePtr> ready;  ///< those with tasks that wait, in turn
  std::uint64_t waiting = 0;
  Tasks running;
  Tasks stuck;                                                    ///< no longer among the running
  std::unordered_map<const FileSystemSpeed*, unsigned> stuck_of;  ///< of each file a few
  std::uint64_t reads = 0;
};

void LocalReaders::State::add(const FilePtr& file, Foresight when, Tasks task) {
  stuck_of.try_emplace(file->file_system.get(), 0);
  if (!file->waits()) ready.push_back(file);
  Tasks& queue = when == Foresight::kAhead ? file->ahead : file->needed;
  queue.splice(queue.end(), task);
  ++waiting;
}

bool LocalReaders::State::start_thread(const std::shared_ptr<State>& self) noexcept {
  if (threads >= limits.threads) return false;
  try {
    const NoSignals blocked;
    std::thread([self] { self->work(self); }).detach();
    ++threads;
    return true;
  } catch (const std::exception&) {
    return false;  // those that there are have more to do
  }
}

/// As long as tasks wait, there is a thread that does not read: it takes what may start.
void LocalReaders::State::call_another(const std::shared_ptr<State>& self) noexcept {
  if (waiting == 0) return;
  if (idle > 0) {
    work_came.notify_one();
  } else {
    start_thread(self);
  }
}

void LocalReaders::State::look(Clock::time_point now) noexcept {
  for (auto next = running.begin(); next != running.end();) {
    const auto task = next++;
    File& file = *task->file;
    if (now - task->started < patience(file)) continue;
    task->stuck = true;
    stuck.splice(stuck.end(), running, task);
    --file.active;
    ++file.stuck;
    file.window = 1;
    file.file_system->add_stuck(1);
    if (file.stuck <= limits.counted_of_file) ++stuck_of.find(file.file_system.get())->second;
  }
}

bool LocalReaders::State::may_start(const File& file, Clock::time_point now) const noexcept {
  const FileSystemSpeed& file_system = *file.file_system;
  const bool many = stuck_of.find(&file_system)->second >= limits.stuck_of_file_system;
  // Threads are left for what is known to answer.
  const bool full = stuck.size() + limits.at_once >= limits.threads;
  if (file.hangs()) {
    // It may be stuck at one place only.
    return !full && file.active == 0 && file.stuck < (many ? 2 : limits.stuck_of_file) &&
           (file.last == nullptr || now - file.last_start >= limits.probe_interval * file.stuck);
  }
  if (!file_system.is_stuck()) return file.active < limits.of_file;
  if (file.window > limits.of_new_file) return file.active < file.window;
  return !full && file.active < (many ? 1 : file.window);
}

/// @return whether there is one that may start; it is among the running then.
bool LocalReaders::State::take(Tasks::iterator& task) noexcept {
  const Clock::time_point now = Clock::now();
  look(now);
  for (const auto queue : {&File::needed, &File::ahead}) {
    if (running.size() >= (queue == &File::needed ? limits.at_once : limits.ahead_at_once))
      return false;
    for (auto next = ready.begin(); next != ready.end(); ++next) {
      File& file = **next;
      if ((file.*queue).empty() || !may_start(file, now)) continue;
      task = (file.*queue).begin();
      running.splice(running.end(), file.*queue, task);
      task->started = file.last_start = now;
      file.last = &*task;
      ++file.active;
      ++reads;
      --waiting;
      if (file.waits()) {
        ready.splice(ready.end(), ready, next);
      } else {
        ready.erase(next);
      }
      return true;
    }
  }
  return false;
}

void LocalReaders::State::end(Tasks::iterator task) noexcept {
  File& file = *task->file;
  if (task->stuck) {
    if (file.stuck-- <= limits.counted_of_file) --stuck_of.find(file.file_system.get())->second;
    file.file_system->add_stuck(-1);
  } else {
    --file.active;
    file.window = std::min(file.window + 1, limits.of_file);
  }
  if (file.last == &*task) file.last = nullptr;
}

/// @return false if none came for so long that the thread is not needed.
bool LocalReaders::State::wait_for_work(std::unique_lock<std::mutex>& lock) noexcept {
  const bool looks = waiting > 0 && !one_looks;
  const std::chrono::milliseconds longest = looks ? kReaderLookInterval : limits.idle;
  if (looks) one_looks = true;
  ++idle;
  const bool called = work_came.wait_for(lock, longest) == std::cv_status::no_timeout;
  --idle;
  if (looks) one_looks = false;
  return called || waiting > 0;
}

void LocalReaders::State::work(const std::shared_ptr<State>& self) noexcept {
  std::unique_lock lock(mutex);
  do {
    Tasks::iterator task;
    while (take(task)) {
      call_another(self);
      lock.unlock();
      task->read();
      lock.lock();
      end(task);
      Tasks ended;
      ended.splice(ended.end(), task->stuck ? stuck : running, task);
      lock.unlock();
      ended.clear();  // without the mutex: it may be the last to hold a file
      lock.lock();
    }
  } while (wait_for_work(lock));
  --threads;
}

LocalReaders::FilePtr LocalReaders::file_of(std::shared_ptr<FileSystemSpeed> file_system) {
  return std::make_shared<File>(std::move(file_system));
}

LocalReaders::LocalReaders(const Limits& limits) : state_(std::make_shared<State>(limits)) {}

LocalReaders::~LocalReaders() = default;

namespace {

ProcessState<LocalReaders> the_readers("readers of slow files", [](const LocalReaders* /*before*/) {
  return new LocalReaders(LocalReaders::Limits());
});

}  // namespace

LocalReaders& LocalReaders::process() {
  return the_readers.get();
}

bool LocalReaders::is_running() noexcept {
  return the_readers.made() != nullptr;
}

void LocalReaders::submit(const FilePtr& file, Foresight when, Read read) {
  Tasks task;
  task.push_back({file, std::move(read)});
  {
    const std::scoped_lock lock(state_->mutex);
    file->belong_to(state_.get(), state_->limits.of_new_file);
    if (state_->threads > 0 || state_->start_thread(state_)) {
      state_->add(file, when, std::move(task));
      state_->call_another(state_);
      return;
    }
  }
  task.front().read();
}

LocalReaders::Answering LocalReaders::answering(const FilePtr& file) const {
  const std::scoped_lock lock(state_->mutex);
  const Clock::time_point now = Clock::now();
  state_->look(now);
  file->belong_to(state_.get(), state_->limits.of_new_file);
  const bool is_kept_back = file->waits() && file->active == 0 && !state_->may_start(*file, now);
  if (file->hangs() || is_kept_back) return file->waits() ? Answering::kTried : Answering::kNo;
  if (file->stuck > 0) return Answering::kPartly;
  const bool is_proven = file->window > state_->limits.of_new_file;
  return is_proven || !file->file_system->is_stuck() ? Answering::kYes : Answering::kUnknown;
}

LocalReaders::Clock::duration LocalReaders::patience(const FilePtr& file) const noexcept {
  return state_->patience(*file);
}

LocalReaders::Figures LocalReaders::figures() const {
  const std::scoped_lock lock(state_->mutex);
  state_->look(Clock::now());
  return {.reads = state_->reads,
          .in_flight = state_->running.size() + state_->stuck.size(),
          .stuck = state_->stuck.size()};
}

}  // namespace reshardfs
