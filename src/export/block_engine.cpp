// SPDX-License-Identifier: Apache-2.0
#include "export/block_engine.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

#include "base/posix/page_size.h"
#include "base/process/parallel.h"
#include "base/process/retry_once.h"

namespace reshardfs {
namespace {

// Blocks are what workers share a file by, and what is kept of a run that was interrupted.
constexpr std::size_t kLargestBlock = std::size_t{4} << 20U;
constexpr std::size_t kSmallestBlock = std::size_t{64} << 10U;
// What is larger leaves the processor's caches between reading, hashing and writing; what is
// smaller takes more calls.
constexpr std::size_t kPiece = std::size_t{256} << 10U;
/// Files that wait for the thread that finishes them; further ones a worker finishes itself. Small
/// files are sooner synchronized by all at once, so few may wait.
constexpr std::size_t kMostUnfinished = 2;

/// A job under way. `next` and `hashed` count blocks.
struct Running {
  BlockJob* job = nullptr;
  std::uint64_t size = 0;
  std::size_t block_bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t next = 0;    // guarded by the engine's mutex, as is
  std::uint64_t hashed = 0;  // this one
  bool seen = true;          ///< all bytes; used by the thread that has block number `hashed`
  std::optional<ContentHash> hash{};  // used by the thread that has block number `hashed`
  RetryOnce begun{};
};

struct Block {
  Running* running = nullptr;
  std::uint64_t number = 0;
};

/// A job of which everything is written.
struct Written {
  BlockJob* job = nullptr;
  ContentSums sums{};
};

class Engine {
 public:
  Engine(const std::vector<std::unique_ptr<BlockJob>>& jobs, const BlockEngineOptions& options)
      : jobs_(jobs), options_(options) {}

  void work() {
    std::vector<std::byte> buffer;
    try {
      Running* mine = nullptr;
      while (const auto block = take(mine)) {
        mine = block->running;
        handle(*block, buffer);
      }
    } catch (...) {
      fail();
    }
  }

  /// Finishes jobs while work() goes on: a disk that synchronizes a file can take the next one's
  /// bytes meanwhile. To be called once; returns when all are finished.
  void finish_jobs() {
    try {
      while (auto job = take_written()) finish(*job);
    } catch (...) {
      fail();
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::optional<Block> take(Running* mine) {
    const std::lock_guard lock(mutex_);
    if (failure_) return std::nullopt;
    if (options_.stop != nullptr && *options_.stop) throw_interrupted();
    // A worker stays with its file: hashing is in order, so that sharing makes others wait.
    if (mine == nullptr || !is_running(mine) || mine->next == mine->blocks) mine = choose();
    if (mine == nullptr) return std::nullopt;
    return Block{mine, mine->next++};
  }

  [[noreturn]] static void throw_interrupted() { throw Interrupted(); }

  bool is_running(const Running* running) const {
    return std::any_of(running_.begin(), running_.end(),
                       [&](const auto& other) { return other.get() == running; });
  }

  Running* choose() {
    if (started_ < jobs_.size()) {
      auto running = std::make_unique<Running>();
      running->job = jobs_[started_++].get();
      running->hash.emplace(running->job->sums());
      running->size = running->job->file().size();
      const std::size_t own = running->job->block_bytes();
      running->block_bytes = own != 0 ? own : options_.block_bytes;
      // An empty file has one empty block.
      running->blocks = std::max<std::uint64_t>(
          1, running->size / running->block_bytes + (running->size % running->block_bytes != 0));
      running_.push_back(std::move(running));
      return running_.back().get();
    }
    const auto left = [](const auto& running) { return running->blocks - running->next; };
    const auto most =
        std::max_element(running_.begin(), running_.end(),
                         [&](const auto& a, const auto& b) { return left(a) < left(b); });
    if (most == running_.end() || left(*most) == 0) return nullptr;
    return most->get();
  }

  void handle(const Block& block, std::vector<std::byte>& buffer) {
    Running& running = *block.running;
    running.begun.call([&] {
      if (options_.progress != nullptr) options_.progress->set_current(running.job->name());
      running.job->begin();
    });
    const std::uint64_t offset = block.number * running.block_bytes;
    const auto bytes = static_cast<std::size_t>(
        std::min<std::uint64_t>(running.block_bytes, running.size - offset));
    if (buffer.size() < bytes) buffer.resize(bytes);
    const auto span = std::span(buffer).first(bytes);
    std::size_t hashed = 0;
    const std::vector<ByteRange> lacking = running.job->lacking({offset, bytes});
    const bool seen = bytes == 0 || (lacking.size() == 1 && lacking.front().length() == bytes);
    if (!seen) {
      fill(*running.job, lacking, offset, span);
    } else if (bytes > 0 && !running.job->restore(offset, span)) {
      hashed = transfer(block, offset, span);
      running.job->written(offset, span);
    }
    if (!wait_for_turn(block)) return;
    running.seen = running.seen && seen;
    if (running.seen) running.hash->update(span.subspan(hashed));
    if (options_.progress != nullptr) options_.progress->add_bytes(bytes);
    // The last one's predecessors have all been written: each was hashed after that.
    if (block.number + 1 == running.blocks) {
      const Written job{running.job, running.seen ? running.hash->finish() : ContentSums()};
      if (!leave(job)) finish(job);
    }
    pass_turn(running);
  }

  void finish(const Written& job) {
    job.job->finish(job.sums);
    if (options_.progress != nullptr) options_.progress->add_file();
  }

  /// Leaves the job to finish_jobs(), if that has no more than it can do.
  bool leave(const Written& job) {
    const std::lock_guard lock(mutex_);
    if (!finishes_ || !job.job->finishes_beside() || written_.size() >= kMostUnfinished)
      return false;
    written_.push_back(job);
    written_changed_.notify_all();
    return true;
  }

  std::optional<Written> take_written() {
    std::unique_lock lock(mutex_);
    finishes_ = true;
    written_changed_.wait(lock, [&] {
      return failure_ || !written_.empty() || (started_ == jobs_.size() && running_.empty());
    });
    if (failure_ || written_.empty()) return std::nullopt;
    const Written job = written_.front();
    written_.pop_front();
    return job;
  }

  void fail() {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    turn_.notify_all();
    written_changed_.notify_all();
  }

  /// Reads a block of the source, and writes it to the target.
  /// @return the bytes of it that are hashed, because those before it are.
  std::size_t transfer(const Block& block, std::uint64_t offset, std::span<std::byte> span) {
    BlockJob& job = *block.running->job;
    const bool in_turn = is_in_turn(block);
    const std::size_t most = job.takes_pieces() ? kPiece : span.size();
    for (std::size_t at = 0; at < span.size(); at += most) {
      const auto piece = span.subspan(at, std::min(most, span.size() - at));
      job.file().read_at(offset + at, piece);
      if (in_turn) block.running->hash->update(piece);
      job.write(offset + at, piece);
    }
    return in_turn ? span.size() : 0;
  }

  /// Reads and writes parts of a block.
  static void fill(BlockJob& job, const std::vector<ByteRange>& lacking, std::uint64_t offset,
                   std::span<std::byte> span) {
    for (const ByteRange& part : lacking) {
      const auto place = span.subspan(static_cast<std::size_t>(part.offset() - offset),
                                      static_cast<std::size_t>(part.length()));
      job.file().read_at(part.offset(), place);
      job.write(part.offset(), place);
    }
  }

  bool is_in_turn(const Block& block) {
    const std::lock_guard lock(mutex_);
    return block.running->hashed == block.number;
  }

  /// Every block before it is in the hands of a worker that is at work, so this ends.
  bool wait_for_turn(const Block& block) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return block.running->hashed == block.number || failure_; });
    return !failure_;
  }

  void pass_turn(Running& running) {
    const std::lock_guard lock(mutex_);
    if (++running.hashed == running.blocks) {
      std::erase_if(running_, [&](const auto& other) { return other.get() == &running; });
      if (running_.empty()) written_changed_.notify_all();
    }
    turn_.notify_all();
  }

  const std::vector<std::unique_ptr<BlockJob>>& jobs_;
  const BlockEngineOptions& options_;
  std::mutex mutex_;  // guards all below, and the numbers of each Running
  std::condition_variable turn_;
  std::condition_variable written_changed_;
  std::deque<Written> written_;  ///< see leave()
  bool finishes_ = false;        ///< whether finish_jobs() has begun
  std::size_t started_ = 0;
  std::vector<std::unique_ptr<Running>> running_;
  std::exception_ptr failure_;
};

}  // namespace

void run_blocks(const std::vector<std::unique_ptr<BlockJob>>& jobs,
                const BlockEngineOptions& options) {
  Engine engine(jobs, options);
  // The last one may be called by a thread that has done its work, where no more can be started.
  parallel_for(
      options.workers + 1,
      [&](std::size_t i) { i < options.workers ? engine.work() : engine.finish_jobs(); },
      options.workers + 1);
  engine.rethrow();
}

BlockEngineOptions block_engine_options(std::size_t workers, std::uint64_t memory) {
  BlockEngineOptions options;
  const std::uint64_t most = std::max<std::uint64_t>(1, memory / kSmallestBlock);
  options.workers = static_cast<std::size_t>(std::min<std::uint64_t>(workers, most));
  // Whole pages, so that no page of the destination is written twice.
  const std::uint64_t share = memory / options.workers / page_bytes() * page_bytes();
  options.block_bytes =
      static_cast<std::size_t>(std::clamp<std::uint64_t>(share, kSmallestBlock, kLargestBlock));
  return options;
}

}  // namespace reshardfs
