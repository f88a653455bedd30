// SPDX-License-Identifier: Apache-2.0
/// Reads and other calls that wait, made so that Ctrl-C ends them: they are done by other threads,
/// while this one looks for signals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace reshardfs::python {

/// Something to be read from its first byte to its last.
struct ReadRequest {
  /// Reads a piece, and puts it in its place. May be called from many threads at once, and outlive
  /// the call where that is interrupted. Is let go without the GIL.
  std::function<void(std::uint64_t offset, std::uint64_t bytes)> read;
  std::uint64_t bytes = 0;

  /// @param keep keeps `out`.
  static ReadRequest into(std::span<std::byte> out,
                          std::function<void(std::uint64_t offset, std::span<std::byte> out)> read,
                          std::shared_ptr<void> keep);
};

/// Reads all parts, with some threads at once.
/// @param threads 0: as many as there are processors, but two at least.
/// @throws what the reads throw; pybind11::error_already_set if a handler of a signal has raised:
///         then reads that do not come back are left to themselves.
/// @pre the GIL is held; it is released meanwhile.
void read_parts(std::vector<ReadRequest> parts, std::size_t threads = 0);

/// Runs `work` in the same way.
void run_interruptibly(std::function<void()> work);

/// What is done with the GIL while work runs.
struct Company {
  std::function<void()> look{};  ///< several times a second; what it raises ends the work
  std::function<void()> stop{};  ///< makes the work end soon
};

/// The same for work that can be stopped. If a handler of a signal or `look` raises, waits a few
/// seconds for the work to end, or until the next Ctrl-C; then leaves it to itself.
void run_in_company(std::function<void()> work, const Company& company);

/// The same, with a result.
template <typename Result>
Result call_interruptibly(std::function<Result()> work) {
  auto result = std::make_shared<std::unique_ptr<Result>>();
  run_interruptibly(
      [result, work = std::move(work)] { *result = std::make_unique<Result>(work()); });
  return std::move(**result);
}

}  // namespace reshardfs::python
