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

#include "base/process/no_signals.h"
#include "base/process/process_state.h"

namespace reshardfs {
namespace {

/// How often one of the threads looks whether what keeps others from starting is stuck.
constexpr std::chrono::milliseconds kReaderLookInterval{20};
/// For so long a thread waits for work.
constexpr std::chrono::seconds kIdle{10};
/// A read that takes so many times as long as usual is stuck.
constexpr int kManyTimes = 8;

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
  explicit File(std::shared_ptr<const FileSystemSpeed> its_file_system) noexcept
      : file_system(std::move(its_file_system)) {}

  /// Reads that were under way in the process that this one was forked from never end here.
  void belong_to(const State* state) noexcept {
    if (owner == state) return;
    owner = state;
    needed.clear();
    ahead.clear();
    active = stuck = 0;
    last = nullptr;
  }
  bool waits() const noexcept { return !needed.empty() || !ahead.empty(); }

  const std::shared_ptr<const FileSystemSpeed> file_system;
  const State* owner = nullptr;
  Tasks needed;
  Tasks ahead;
  unsigned active = 0;  ///< reads that are not stuck
  unsigned stuck = 0;
  Clock::time_point last_start{};
  const Task* last = nullptr;  ///< the one that began last, until it ends
};

/// What a thread does needs no memory: there would be nobody to tell that there is none.
struct LocalReaders::State {
  explicit State(const Limits& its_limits) : limits(its_limits) {}

  void work(const std::shared_ptr<State>& self) noexcept;
  // These need the mutex.
  void add(const FilePtr& file, Foresight when, Tasks task);
  bool start_thread(const std::shared_ptr<State>& self) noexcept;
  void call_another(const std::shared_ptr<State>& self) noexcept;
  void look(Clock::time_point now) noexcept;
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
  unsigned active = 0;  ///< of the running: not stuck
  unsigned stuck = 0;
  std::unordered_map<const FileSystemSpeed*, unsigned> stuck_of;
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
  for (Task& task : running) {
    File& file = *task.file;
    const Clock::duration patience =
        std::max<Clock::duration>(limits.patience, kManyTimes * file.file_system->usual());
    if (task.stuck || now - task.started < patience) continue;
    task.stuck = true;
    --active;
    --file.active;
    ++stuck;
    ++file.stuck;
    ++stuck_of.find(file.file_system.get())->second;
  }
}

bool LocalReaders::State::may_start(const File& file, Clock::time_point now) const noexcept {
  if (active >= limits.at_once) return false;
  if (stuck == 0) return file.active < limits.of_file;
  if (stuck_of.find(file.file_system.get())->second >= limits.stuck_of_file_system) return false;
  if (file.stuck == 0) return file.active < limits.of_file_beside_stuck;
  // It may be stuck at one place only: each read that comes back is followed by another one.
  return file.active == 0 && file.stuck < limits.stuck_of_file &&
         (file.last == nullptr || now - file.last_start >= limits.probe_interval);
}

/// @return whether there is one that may start; it is among the running then.
bool LocalReaders::State::take(Tasks::iterator& task) noexcept {
  const Clock::time_point now = Clock::now();
  look(now);
  for (const auto queue : {&File::needed, &File::ahead}) {
    for (auto next = ready.begin(); next != ready.end(); ++next) {
      File& file = **next;
      if ((file.*queue).empty() || !may_start(file, now)) continue;
      task = (file.*queue).begin();
      running.splice(running.end(), file.*queue, task);
      task->started = file.last_start = now;
      file.last = &*task;
      ++file.active;
      ++active;
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
    --stuck;
    --file.stuck;
    --stuck_of.find(file.file_system.get())->second;
  } else {
    --active;
    --file.active;
  }
  if (file.last == &*task) file.last = nullptr;
}

/// @return false if none came for so long that the thread is not needed.
bool LocalReaders::State::wait_for_work(std::unique_lock<std::mutex>& lock) noexcept {
  const bool looks = waiting > 0 && !one_looks;
  const Clock::duration longest =
      looks ? Clock::duration(kReaderLookInterval) : Clock::duration(kIdle);
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
      ended.splice(ended.end(), running, task);
      lock.unlock();
      ended.clear();  // without the mutex: it may be the last to hold a file
      lock.lock();
    }
  } while (wait_for_work(lock));
  --threads;
}

LocalReaders::FilePtr LocalReaders::file_of(std::shared_ptr<const FileSystemSpeed> file_system) {
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
    file->belong_to(state_.get());
    if (state_->threads > 0 || state_->start_thread(state_)) {
      state_->add(file, when, std::move(task));
      state_->call_another(state_);
      return;
    }
  }
  task.front().read();
}

bool LocalReaders::is_stuck(const FilePtr& file) const {
  const std::scoped_lock lock(state_->mutex);
  state_->look(Clock::now());
  return file->owner == state_.get() && file->stuck > 0;
}

LocalReaders::Figures LocalReaders::figures() const {
  const std::scoped_lock lock(state_->mutex);
  state_->look(Clock::now());
  return {.reads = state_->reads, .in_flight = state_->running.size(), .stuck = state_->stuck};
}

}  // namespace reshardfs
