// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/deepspeed/zero_states.h"
#include "checkpoint/megatron/rank_file.h"
#include "checkpoint/torch/torch_file.h"
#include "format/torch/torch_archive.h"
#include "format/torch/torch_crc.h"
#include "format/torch/torch_save.h"
#include "format/torch/torch_stream.h"
#include "fuzz/fuzzing.h"
#include "support/sources.h"
#include "unit/format/torch_zip_samples.h"

using namespace reshardfs;

namespace {

/// Of each tensor: views may have any number of elements.
constexpr std::uint64_t kMostBytes = 4096;
/// Of all tensors of an input.
constexpr std::uint64_t kMostReads = 256;

/// A tensor's elements are in its storage, and this in the file.
void check_tensor(const TorchTensor& tensor, const ByteSource& source) {
  fuzz::require(ByteRange::whole(source.size()).contains(tensor.storage),
                "a storage leaves the file");
  fuzz::require(tensor.shape.size() == tensor.strides.size(), "strides do not fit the shape");
  const auto width = static_cast<std::uint64_t>(element_size(tensor.dtype));
  auto last = static_cast<std::uint64_t>(tensor.first);
  bool empty = false;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    fuzz::require(tensor.shape[d] >= 0 && tensor.strides[d] >= 0, "a negative size");
    if (tensor.shape[d] == 0) empty = true;
    if (tensor.shape[d] < 1) continue;
    last += static_cast<std::uint64_t>((tensor.shape[d] - 1) * tensor.strides[d]);
  }
  fuzz::require(empty || (last + 1) * width <= tensor.storage.length(),
                "an element leaves its storage");
}

void check_places(const TorchSave& saved) {
  for (const auto& [number, place] : saved.places) {
    fuzz::require(number < saved.tensors.size(), "the place of no tensor");
    const std::size_t dimensions = place.full_shape.size();
    fuzz::require(place.offsets.size() == dimensions && place.sizes.size() == dimensions,
                  "a part has other dimensions than its tensor");
    fuzz::require(saved.tensors[number].shape == place.sizes, "a part has another shape");
    for (std::size_t d = 0; d < dimensions; ++d) {
      fuzz::require(
          place.offsets[d] >= 0 && place.offsets[d] <= place.full_shape[d] - place.sizes[d],
          "a part leaves its tensor");
    }
  }
}

/// The index of the file, and through its source the bytes of all tensors.
void read_tensors(const ByteSourcePtr& file) {
  const TorchFile opened = open_torch_file(file, "");
  std::uint64_t reads = 0;
  for (const TensorEntry& entry : opened.index->entries()) {
    if (++reads > kMostReads) return;
    std::uint64_t stored = 0;
    for (const ByteRange& extent : entry.extents) {
      fuzz::require(ByteRange::whole(opened.source->size()).contains(extent),
                    "an extent leaves the source");
      stored += extent.length();
      for (const std::uint64_t skipped : {std::uint64_t{0}, extent.length() / 2}) {
        const ByteRange part = extent.behind_first(skipped).first(kMostBytes);
        std::vector<std::byte> bytes(static_cast<std::size_t>(part.length()));
        opened.source->read_at(part.offset(), bytes);
      }
    }
    fuzz::require(stored == entry.content_bytes, "extents of another length than the content");
  }
}

void check_optimizer(const ZeroOptimizerStates& states, const ByteSource& source) {
  for (const TorchTensor& tensor : states.weights) check_tensor(tensor, source);
  for (const auto& [name, groups] : states.moments) {
    for (const auto& [group, tensor] : groups) {
      fuzz::require(group < states.weights.size(), "a state of a group that is not there");
      check_tensor(tensor, source);
      fuzz::require(tensor.shape == states.weights[group].shape, "a state of another length");
    }
  }
}

/// Changes of a pickle's length would break the archive that it is in.
std::string archive_of(const std::string& pickle) {
  const std::string storage(24, 's');
  return test::zip_file({{"a/data.pkl", pickle},
                         {"a/byteorder", "little"},
                         {"a/data/0", storage},
                         {"a/data/1", storage},
                         {"a/data/2", storage},
                         {"a/version", "3\n"}});
}

}  // namespace

/// The input is a file of torch.save, or the pickle of one: what is read of it keeps what it
/// promises.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with('\x80') && !is_torch_stream(bytes)) bytes = archive_of(bytes);
  const auto file = std::make_shared<const test::MemorySource>(std::move(bytes), "memory.pt");
  fuzz::may_refuse([&] { check_torch_crc(*file); });
  std::unique_ptr<const TorchArchive> archive;
  fuzz::may_refuse([&] { archive = std::make_unique<const TorchArchive>(*file); });
  if (!archive) return 0;
  for (const DTensors dtensors : {DTensors::kRefused, DTensors::kPlaced}) {
    fuzz::may_refuse([&] {
      const TorchSave saved = read_torch_save(*archive, dtensors);
      for (const TorchTensor& tensor : saved.tensors) check_tensor(tensor, *file);
      fuzz::require(dtensors == DTensors::kPlaced || saved.places.empty(), "a refused part");
      check_places(saved);
    });
  }
  fuzz::may_refuse([&] { read_tensors(file); });
  fuzz::may_refuse([&] {
    const ZeroModelStates states = read_zero_model(*archive);
    for (const TorchTensor& tensor : states.frozen_fragments) check_tensor(tensor, *file);
    for (const TorchTensor& tensor : states.buffers) check_tensor(tensor, *file);
  });
  fuzz::may_refuse([&] { check_optimizer(read_zero_optimizer(*archive), *file); });
  fuzz::may_refuse([&] {
    const MegatronRankFile rank = read_megatron_rank(*archive);
    for (const MegatronChunk& chunk : rank.chunks) {
      for (const TorchTensor& tensor : chunk.tensors) check_tensor(tensor, *file);
    }
  });
  return 0;
}
