// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_rest.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/deepspeed/zero_places.h"

namespace reshardfs {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kBadInput, what);
}

const TorchTensor* find(const std::vector<TorchTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TorchTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

/// Stages 1 and 2: whole, in `module`.
void take_whole(const ZeroModelFile& model, JoinedTensors& out) {
  const ZeroModelStates& states = model.states;
  if (!states.lost.empty()) {
    refuse("has no '" + printable(states.lost.front()) + "' in the module of '" +
           printable(model.name) + "', which lists it among those it trains");
  }
  std::set<std::string_view> names;
  for (const TorchTensor& tensor : states.others) {
    names.insert(tensor.name);
    out.add_whole(tensor, model.number);
  }
  for (const TorchTensor& fragment : states.frozen_fragments) {
    if (!names.contains(fragment.name)) out.add_whole(fragment, model.number);
  }
  for (const ZeroShape& frozen : states.frozen) {
    const TorchTensor* tensor = find(states.others, frozen.name);
    if (tensor == nullptr) tensor = find(states.frozen_fragments, frozen.name);
    if (tensor == nullptr) {
      refuse("has no file with '" + printable(frozen.name) + "', which is not trained");
    }
    if (tensor->shape != frozen.shape) {
      refuse("states two shapes of '" + printable(frozen.name) + "'");
    }
  }
}

/// Stage 3: cut flat, each rank with an equal piece.
void take_pieces(const std::vector<ZeroModelFile>& models, const ZeroShape& frozen,
                 JoinedTensors& out) {
  const std::int64_t count = element_count(frozen.shape);
  const auto ranks = static_cast<std::int64_t>(models.size());
  const std::int64_t length = (count + ranks - 1) / ranks;
  auto vector = std::make_shared<RangeList>();
  DType dtype = DType::kFloat32;
  for (std::size_t rank = 0; rank < models.size(); ++rank) {
    const TorchTensor* piece = find(models[rank].states.frozen_fragments, frozen.name);
    if (piece == nullptr) {
      refuse("has no file with a piece of '" + printable(frozen.name) + "', which is not trained");
    }
    if (rank == 0) dtype = piece->dtype;
    const bool good = is_contiguous(*piece) && element_count(piece->shape) == length &&
                      piece->dtype == dtype && piece->shape.size() == 1;
    if (!good) refuse("has a piece of '" + printable(frozen.name) + "' of another length");
    vector->add(models[rank].number, contiguous_range(*piece));
  }
  out.add_tensor({frozen.name}, dtype, frozen.shape, out.add(std::move(vector)));
}

}  // namespace

void take_untrained(const std::vector<ZeroModelFile>& models, bool is_stage3, JoinedTensors& out) {
  const ZeroModelFile& first = models.front();
  if (!is_stage3) return take_whole(first, out);
  for (const ZeroShape& frozen : first.states.frozen) take_pieces(models, frozen, out);
  for (const TorchTensor& buffer : first.states.buffers) out.add_whole(buffer, first.number);
}

void note_refused(const ZeroModelFile& model, Discovery& out) {
  const std::vector<RefusedTensor>& refused = model.states.refused_buffers;
  if (refused.empty()) return;
  std::vector<std::string> names;
  for (const RefusedTensor& buffer : refused) names.push_back(buffer.name);
  out.warnings.push_back("left out, because buffers of these types cannot be shown: " +
                         name_list(names) + " (" + refused.front().reason + ")");
}

void take_aliases(const ZeroModelFile& model, JoinedTensors& out) {
  for (const auto& [alias, name] : model.states.aliases) {
    if (out.add_alias(alias, name)) continue;
    refuse("calls '" + printable(alias) + "' another name of '" + printable(name) +
           "', which it does not have");
  }
}

}  // namespace reshardfs
