// SPDX-License-Identifier: Apache-2.0
#include "storage/local/local_fetcher.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>
#include <utility>

namespace reshardfs {

LocalFetcher::LocalFetcher(ByteSourcePtr file, std::string identity,
                           std::shared_ptr<FileSystemSpeed> file_system,
                           std::function<LocalReaders&()> readers)
    : file_(std::move(file)),
      identity_(std::move(identity)),
      file_system_(std::move(file_system)),
      readers_(std::move(readers)),
      reading_(LocalReaders::file_of(file_system_)) {}

void LocalFetcher::check(Done done) const {
  readers_().submit(reading_, Foresight::kNow, [file = file_, done = std::move(done)] {
    std::exception_ptr failure;
    try {
      file->check_unchanged();
    } catch (...) {
      failure = std::current_exception();
    }
    done(failure);
  });
}

void LocalFetcher::fetch(const ByteRange& range, std::vector<std::span<std::byte>> out,
                         Foresight when, Done done) const {
  // What was read may be kept as that of this version: so not without a look whether it still is.
  const auto parts = std::make_shared<FetchParts>(
      [file = file_, done = std::move(done)](std::exception_ptr failure) {
        try {
          if (failure == nullptr) file->check_unchanged();
        } catch (...) {
          failure = std::current_exception();
        }
        done(failure);
      });
  std::uint64_t offset = range.offset();
  for (std::span<std::byte> piece : out) {
    while (!piece.empty()) {
      const auto unit = piece.first(std::min<std::size_t>(piece.size(), kUnitBytes));
      submit(offset, unit, when, parts);
      piece = piece.subspan(unit.size());
      offset += unit.size();
    }
  }
  parts->end(nullptr);
}

void LocalFetcher::submit(std::uint64_t offset, std::span<std::byte> unit, Foresight when,
                          const std::shared_ptr<FetchParts>& parts) const {
  const auto read = [file = file_, file_system = file_system_, parts, offset, unit] {
    try {
      const auto began = std::chrono::steady_clock::now();
      file->read_at(offset, unit);
      file_system->note(unit.size(), std::chrono::steady_clock::now() - began);
      parts->end(nullptr);
    } catch (...) {
      parts->end(std::current_exception());
    }
  };
  parts->add();
  try {
    readers_().submit(reading_, when, read);
  } catch (...) {
    parts->end(std::current_exception());  // the others must end, too
  }
}

}  // namespace reshardfs
