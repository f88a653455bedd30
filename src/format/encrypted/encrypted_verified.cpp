// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted/encrypted_verified.h"

#include <exception>

#include "reshardfs/error.h"

#include "storage/stuck_read.h"

namespace reshardfs {

/// One call of `verify`.
struct VerifiedBlocks::Verification {
  bool done = false;
  bool left = false;         ///< by its thread, which need not wait: others try it themselves
  std::exception_ptr error;  ///< if it failed
};

namespace {

/// Each thread throws its own copy of the error, because a handler may add context to it.
void throw_copy_of(const std::exception_ptr& error) {
  if (!error) return;
  try {
    std::rethrow_exception(error);
  } catch (const Error& original) {
    throw Error(original);
  }
}

}  // namespace

VerifiedBlocks::VerifiedBlocks(std::size_t count) : verified_(count) {}

void VerifiedBlocks::require(std::uint64_t block, const std::function<void()>& verify) {
  if (verified_[block].load(std::memory_order_acquire)) return;
  std::unique_lock lock(mutex_);
  if (verified_[block].load(std::memory_order_relaxed)) return;
  std::shared_ptr<Verification> verification;
  if (const auto found = running_.find(block); found != running_.end()) {
    verification = found->second;
    finished_.wait(lock, [&] { return verification->done; });
    lock.unlock();
    if (verification->left) return require(block, verify);
  } else {
    verification = std::make_shared<Verification>();
    running_.emplace(block, verification);
    lock.unlock();
    try {
      verify();
      verified_[block].store(true, std::memory_order_release);
    } catch (const StuckRead&) {
      verification->left = true;
      finish(block, *verification);
      throw;
    } catch (...) {
      verification->error = std::current_exception();
    }
    finish(block, *verification);
  }
  throw_copy_of(verification->error);
}

void VerifiedBlocks::finish(std::uint64_t block, Verification& verification) {
  {
    const std::lock_guard lock(mutex_);
    running_.erase(block);
    verification.done = true;
  }
  finished_.notify_all();
}

}  // namespace reshardfs
