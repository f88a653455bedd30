// SPDX-License-Identifier: Apache-2.0
#include "core/boxes.h"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "reshardfs/error.h"

#include "core/borrowed.h"
#include "core/reading.h"
#include "core/workers.h"
#include "plan/reading/content.h"
#include "plan/reading/source_sinks.h"
#include "view/tensor_set.h"

namespace py = pybind11;

namespace reshardfs::python {
namespace {

/// Where the first byte of a tensor is; of one without a source, before all others.
struct Place {
  std::string file;
  std::uint64_t offset = 0;
  bool is_far = false;
};

class FirstPlace final : public SourceSink {
 public:
  void take(const Holding& holding, const StridedRanges& ranges) override {
    std::vector<ByteRange> stored;
    add_stored_ranges(*holding.entry, ByteRange(ranges.offset(), ranges.length()), stored);
    if (!stored.empty()) take(*holding.file->source, stored.front());
  }
  void take(const ByteSource& source, const ByteRange& range) override {
    if (!place_) place_ = Place{source.name(), range.offset(), source.is_far()};
  }

  Place place() const { return place_.value_or(Place()); }

 private:
  std::optional<Place> place_;
};

std::vector<Place> places_of(const std::vector<TensorHandle>& tensors) {
  std::vector<Place> places;
  for (const TensorHandle& tensor : tensors) {
    FirstPlace first;
    if (tensor.get().bytes() > 0) {
      TensorAccess::for_each_use(tensor.get(), ByteRange(0, 1), first);
    }
    places.push_back(first.place());
  }
  return places;
}

std::vector<std::size_t> in_order(const std::vector<Place>& places) {
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(places[a].file, places[a].offset) < std::tie(places[b].file, places[b].offset);
  });
  return order;
}

/// Fetches from far sources what the next boxes need, those that touch as one: a request for a
/// small box takes nearly as long as one for many.
class BoxesAhead {
 public:
  void add(Tensor tensor) {
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + tensor.bytes());
    tensors_.push_back(std::move(tensor));
  }

  /// Call this before the box is read, from any thread.
  void reach(std::size_t number) {
    const std::lock_guard lock(mutex_);
    // Not for each box anew: boxes are joined only with what is fetched together.
    if (next_ > number && ends_[next_ - 1] - ends_[number] > kBytes / 2) return;
    RangesAhead ranges;
    for (; next_ < tensors_.size() && (next_ <= number || ends_[next_] - ends_[number] <= kBytes);
         ++next_) {
      const Tensor& tensor = tensors_[next_];
      if (tensor.bytes() > 0) {
        TensorAccess::for_each_use(tensor, ByteRange(0, tensor.bytes()), ranges);
      }
    }
    ranges.foresee(Foresight::kAhead);
  }

 private:
  static constexpr std::uint64_t kBytes = std::uint64_t{64} << 20U;

  std::vector<Tensor> tensors_;
  std::vector<std::uint64_t> ends_;  ///< of each, in bytes of all before and of itself
  std::mutex mutex_;
  std::size_t next_ = 0;  ///< the first that was not asked for; guarded by mutex_
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
  return in_order(places_of(tensors));
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
  const std::vector<Place> places = places_of(tensors);
  const auto ahead = std::make_shared<BoxesAhead>();
  std::vector<ReadRequest> requests;
  for (const std::size_t number : in_order(places)) {
    const std::shared_ptr<Borrowed>& target = targets[number];
    auto reader = tensors[number].reader();
    if (places[number].is_far) {
      reader = [ahead, place = requests.size(), reader = std::move(reader)](
                   std::uint64_t offset, std::span<std::byte> out) {
        if (offset == 0) ahead->reach(place);
        reader(offset, out);
      };
    }
    ahead->add(tensors[number].get());
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
        RangesAhead ranges(RangesAhead::Of::kAll);
        TensorAccess::for_each_use(tensor, ByteRange(0, tensor.bytes()), ranges);
        ranges.foresee(Foresight::kNow);
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
