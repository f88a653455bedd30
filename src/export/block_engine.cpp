// SPDX-License-Identifier: Apache-2.0
#include "export/block_engine.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>

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
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      turn_.notify_all();
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
      running.job->finish(running.seen ? running.hash->finish() : ContentSums());
      if (options_.progress != nullptr) options_.progress->add_file();
    }
    pass_turn(running);
  }

  /// Reads and writes a block.
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
    }
    turn_.notify_all();
  }

  const std::vector<std::unique_ptr<BlockJob>>& jobs_;
  const BlockEngineOptions& options_;
  std::mutex mutex_;  // guards all below, and the numbers of each Running
  std::condition_variable turn_;
  std::size_t started_ = 0;
  std::vector<std::unique_ptr<Running>> running_;
  std::exception_ptr failure_;
};

}  // namespace

void run_blocks(const std::vector<std::unique_ptr<BlockJob>>& jobs,
                const BlockEngineOptions& options) {
  Engine engine(jobs, options);
  parallel_for(
      options.workers, [&](std::size_t) { engine.work(); }, options.workers);
  engine.rethrow();
}

BlockEngineOptions block_engine_options(std::size_t workers, std::uint64_t memory) {
  BlockEngineOptions options;
  const std::uint64_t most = std::max<std::uint64_t>(1, memory / kSmallestBlock);
  options.workers = static_cast<std::size_t>(std::min<std::uint64_t>(workers, most));
  // Whole pages, so that no page of the destination is written twice.
  const std::uint64_t share = memory / options.workers & ~std::uint64_t{4095};
  options.block_bytes =
      static_cast<std::size_t>(std::clamp<std::uint64_t>(share, kSmallestBlock, kLargestBlock));
  return options;
}

}  // namespace reshardfs
