// SPDX-License-Identifier: Apache-2.0
#include "core/boxes.h"

#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "core/borrowed.h"
#include "core/reading.h"
#include "core/workers.h"
#include "plan/reading/content.h"
#include "plan/reading/source_sinks.h"
#include "view/tensor_set.h"

namespace py = pybind11;

namespace reshardfs::python {
namespace {

/// Where the first byte of a tensor is.
class FirstPlace final : public SourceSink {
 public:
  void take(const Holding& holding, const StridedRanges& ranges) override {
    std::vector<ByteRange> stored;
    add_stored_ranges(*holding.entry, ByteRange(ranges.offset(), ranges.length()), stored);
    if (!stored.empty()) take(*holding.file->source, stored.front());
  }
  void take(const ByteSource& source, const ByteRange& range) override {
    if (!place_) place_ = {source.name(), range.offset()};
  }

  /// Of a tensor without a source: before all others.
  std::pair<std::string, std::uint64_t> place() const {
    return place_.value_or(std::pair<std::string, std::uint64_t>());
  }

 private:
  std::optional<std::pair<std::string, std::uint64_t>> place_;
};

class ShortRuns final : public SourceSink {
 public:
  explicit ShortRuns(std::uint64_t least) : least_(least) {}

  void take(const Holding& /*holding*/, const StridedRanges& ranges) override {
    const bool dense = ranges.count() > 1 && ranges.stride() == ranges.length();
    if (!dense && ranges.length() < least_ && ranges.count() > 1) {
      bytes_ += ranges.count() * ranges.length();
    }
  }
  void take(const ByteSource& /*source*/, const ByteRange& /*range*/) override {}

  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::uint64_t least_;
  std::uint64_t bytes_ = 0;
};

/// Tells the system of ranges of files, and far sources of theirs.
class Announced final : public SourceSink {
 public:
  void take(const Holding& holding, const StridedRanges& ranges) override {
    const ByteSource& source = *holding.file->source;
    if (source.is_far()) return far_.take(holding, ranges);
    // The system has pages: what is closer together than a few of them is one range.
    constexpr std::uint64_t kFewPages = 16 << 10;
    const bool joined = ranges.stride() - ranges.length() <= kFewPages;
    std::vector<ByteRange> stored;
    for (std::uint64_t i = 0; i < (joined ? 1 : ranges.count()); ++i) {
      add_stored_ranges(*holding.entry,
                        joined ? ranges.span() : ByteRange(ranges.offset_of(i), ranges.length()),
                        stored);
    }
    for (const ByteRange& range : stored) take(source, range);
  }
  void take(const ByteSource& source, const ByteRange& range) override {
    if (source.is_far()) return far_.take(source, range);
    if (const auto descriptor = source.descriptor()) {
      ::posix_fadvise(descriptor->get(), static_cast<off_t>(range.offset()),
                      static_cast<off_t>(range.length()), POSIX_FADV_WILLNEED);
    }
  }
  void tell_far() const { far_.foresee(Foresight::kNow); }

 private:
  FarRanges far_;
};

/// Through memory of its own, for a buffer whose elements lie apart.
std::function<void(std::uint64_t, std::uint64_t)> read_and_put(
    std::function<void(std::uint64_t, std::span<std::byte>)> reader,
    std::shared_ptr<const Borrowed> target) {
  return [reader = std::move(reader), target = std::move(target)](std::uint64_t offset,
                                                                  std::uint64_t bytes) {
    const auto size = static_cast<std::size_t>(bytes);
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(size);  // NOLINT(*-c-arrays)
    const std::span<std::byte> piece(memory.get(), size);
    reader(offset, piece);
    target->put(offset, piece);
  };
}

void require_size(const Tensor& tensor, const Borrowed& target) {
  if (target.size() == tensor.bytes()) return;
  throw Error(ErrorKind::kUsage, "the buffer has " + std::to_string(target.size()) +
                                     " bytes, and the elements have " +
                                     std::to_string(tensor.bytes()))
      .for_parameter(tensor.name());
}

}  // namespace

std::vector<std::size_t> in_order_of_sources(const std::vector<TensorHandle>& tensors) {
  std::vector<std::pair<std::string, std::uint64_t>> places;
  for (const TensorHandle& tensor : tensors) {
    FirstPlace first;
    if (tensor.get().bytes() > 0) {
      TensorAccess::for_each_use(tensor.get(), ByteRange(0, 1), first);
    }
    places.push_back(first.place());
  }
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return places[a] < places[b]; });
  return order;
}

void read_into_all(const std::vector<std::pair<TensorHandle, py::object>>& parts,
                   std::size_t threads) {
  std::vector<std::shared_ptr<Borrowed>> targets;
  std::vector<TensorHandle> tensors;
  for (const auto& [tensor, buffer] : parts) {
    tensors.push_back(tensor);
    targets.push_back(std::make_shared<Borrowed>(buffer));
    require_size(tensor.get(), *targets.back());
  }
  std::vector<ReadRequest> requests;
  for (const std::size_t number : in_order_of_sources(tensors)) {
    const std::shared_ptr<Borrowed>& target = targets[number];
    auto reader = parts[number].first.reader();
    requests.push_back(target->is_contiguous()
                           ? ReadRequest::into(target->bytes(), std::move(reader), target)
                           : ReadRequest{read_and_put(std::move(reader), target), target->size()});
  }
  read_parts(std::move(requests), threads);
  for (const auto& target : targets) target->release();
}

void prefetch(const std::vector<TensorHandle>& tensors) {
  std::vector<Tensor> kept;
  for (const TensorHandle& tensor : tensors) kept.push_back(tensor.get());
  Workers::process().submit([kept = std::move(kept)] {
    try {
      for (const Tensor& tensor : kept) {
        if (tensor.bytes() == 0) continue;
        Announced announced;
        TensorAccess::for_each_use(tensor, ByteRange(0, tensor.bytes()), announced);
        announced.tell_far();
      }
    } catch (const std::exception&) {
      // Who reads them gets the error.
    }
  });
}

std::uint64_t bytes_in_short_runs(const TensorHandle& tensor, std::uint64_t least) {
  if (tensor.get().bytes() == 0) return 0;
  ShortRuns runs(least);
  TensorAccess::for_each_use(tensor.get(), ByteRange(0, tensor.get().bytes()), runs);
  return runs.bytes();
}

}  // namespace reshardfs::python
