// SPDX-License-Identifier: Apache-2.0
#include "guess/guess_network.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace reshardfs {
namespace {

/// Fewer kinds of matrices agree by chance.
constexpr std::size_t kFewestKinds = 4;

/// The optimizer's setting, as Layout::optimizer_shard_size: 0, -1, or a number of parts.
using Setting = std::int64_t;

/// Parameters with the same name but for the layer, of slices that look alike.
struct Kind {
  const Evidence* first = nullptr;
  std::size_t state = 0;  ///< which of the kinds of states, weights included
};

/// One way in which a network's code may have cut a kind.
struct Candidate {
  Reading reading{};
  std::int64_t optimizer = 1;  ///< parts
  std::int64_t holders = 1;    ///< of each slice, before the optimizer's cut
  std::int64_t rows = 1;       ///< of each slice, before the optimizer's cut
};

using Candidates = std::vector<Candidate>;

bool is_matrix(const Kind& kind) {
  return kind.first->known->role == ParameterRole::kProjection;
}

bool takes_part(const Evidence& evidence) {
  return evidence.shape_is_known() && evidence.known->one_way &&
         evidence.parameter->slices.dimensions() > 0 && evidence.parameter->stages_agree;
}

/// Whether every device holds the whole, though not the same: copies of a norm that have drifted
/// apart say nothing of how others are cut.
bool is_drifted_copy(const Evidence& evidence) {
  const DeviceSlices& slices = evidence.parameter->slices;
  return evidence.known->role == ParameterRole::kOther && slices.has_one_shape() &&
         evidence.known->shapes.size() == 1 &&
         slices.shapes.front() == evidence.known->shapes.front() && slices.differ();
}

/// Keys and values may have fewer heads than there are ranks: then they are cut in some other way.
bool has_indivisible_units(const Kind& kind, std::int64_t parts) {
  const KnownParameter& known = *kind.first->known;
  const bool has_heads =
      known.role == ParameterRole::kProjection || known.role == ParameterRole::kVector;
  return has_heads && known.units != 0 && known.units % parts != 0;
}

/// What one axis of tensor parallelism makes of the kinds: none of those that it says nothing of.
using ByKind = std::vector<std::optional<Candidates>>;

class NetworkReader {
 public:
  NetworkReader(const std::vector<Evidence>& cases, std::int64_t devices)
      : cases_(cases), devices_(devices) {}

  std::optional<NetworkReadings> read() {
    collect_kinds();
    if (kinds_.empty()) return std::nullopt;
    NetworkReadings found;
    std::vector<std::optional<std::vector<Reading>>> of_kind(kinds_.size(), std::vector<Reading>());
    for (const DeviceAxis& axis : axes()) {
      const std::optional<ByKind> agreed = agreeing(axis);
      if (!agreed) continue;
      if (!is_shown(*agreed)) return std::nullopt;
      found.axes.push_back(axis);
      for (std::size_t i = 0; i < kinds_.size(); ++i) join(of_kind[i], (*agreed)[i]);
    }
    if (found.axes.empty()) return std::nullopt;
    found.code = code();
    for (const std::optional<std::size_t>& kind : kind_of_) {
      found.of.push_back(kind ? of_kind[*kind] : std::nullopt);
    }
    return found;
  }

 private:
  void collect_kinds() {
    std::map<std::string, std::size_t> states;
    std::map<std::tuple<const KnownParameter*, std::size_t, std::vector<Shape>,
                        std::vector<std::uint32_t>>,
             std::size_t>
        numbers;
    for (const Evidence& evidence : cases_) {
      kind_of_.emplace_back();
      if (!takes_part(evidence) || is_drifted_copy(evidence)) continue;
      const std::size_t state = states.try_emplace(evidence.state, states.size()).first->second;
      const DeviceSlices& slices = evidence.parameter->slices;
      const auto [number, is_new] = numbers.try_emplace(
          std::tuple(evidence.known, state, slices.shapes, slices.contents), kinds_.size());
      if (is_new) kinds_.push_back({&evidence, state});
      kind_of_.back() = number->second;
    }
    states_ = states.size();
  }

  /// All axes of any device matrix; one of size 1 stands for no tensor parallelism.
  std::vector<DeviceAxis> axes() const {
    std::vector<DeviceAxis> axes{{1, 1}};
    for (std::int64_t size = 2; size <= devices_; ++size) {
      for (std::int64_t stride = 1; stride * size <= devices_; ++stride) {
        if (devices_ % (stride * size) == 0) axes.push_back({stride, size});
      }
    }
    return axes;
  }

  /// Nothing if a kind cannot have been cut over this axis.
  std::optional<ByKind> agreeing(const DeviceAxis& axis) const {
    ByKind by_kind;
    for (const Kind& kind : kinds_) {
      by_kind.emplace_back();
      if (has_indivisible_units(kind, axis.size)) continue;
      Candidates candidates = candidates_for(kind, axis);
      if (candidates.empty()) return std::nullopt;
      by_kind.back() = std::move(candidates);
    }
    for (std::size_t state = 0; state < states_; ++state) {
      if (!settle_optimizer(state, by_kind)) return std::nullopt;
    }
    return by_kind;
  }

  Candidates candidates_for(const Kind& kind, const DeviceAxis& axis) const {
    const KnownParameter& known = *kind.first->known;
    std::vector<bool> is_cut{known.usual_cut >= 0};
    if (known.role == ParameterRole::kEmbedding) is_cut.push_back(false);
    if (axis.size == 1) is_cut = {false};
    std::set<Shape> shapes(known.shapes.begin(), known.shapes.end());
    // Padded embeddings have readings of shapes that the configuration does not give.
    for (const Reading& reading : kind.first->readings.left) shapes.insert(reading.full_shape);
    Candidates found;
    for (const bool cut : is_cut) {
      for (const Shape& shape : shapes) add_candidate(kind, axis, cut, shape, found);
    }
    return found;
  }

  /// A device matrix with this axis, and without axes of size 1.
  Layout layout_over(const DeviceAxis& axis, std::size_t dimensions,
                     std::optional<std::size_t> cut) const {
    Layout layout;
    layout.tensor_map.resize(dimensions);
    if (!cut) {
      layout.device_matrix = {devices_};
      return layout;
    }
    const std::int64_t outer = devices_ / (axis.stride * axis.size);
    if (outer > 1) layout.device_matrix.push_back(outer);
    layout.device_matrix.push_back(axis.size);
    if (axis.stride > 1) layout.device_matrix.push_back(axis.stride);
    layout.tensor_map[*cut] = {axis.stride > 1 ? 1 : 0};
    return layout;
  }

  static bool has_listed_lengths(const Reading& reading) {
    const auto& uneven = reading.layout.uneven;
    return std::any_of(uneven.begin(), uneven.end(),
                       [](const DimensionSplit& split) { return !split.lengths.empty(); });
  }

  void add_candidate(const Kind& kind, const DeviceAxis& axis, bool cut, const Shape& full,
                     Candidates& found) const {
    const DeviceSlices& slices = kind.first->parameter->slices;
    if (slices.dimensions() != full.size()) return;
    // Parts of other lengths than its neighbours' only embeddings have, of any vocabulary.
    const bool is_embedding = kind.first->known->role == ParameterRole::kEmbedding;
    if (!slices.has_one_shape() && !is_embedding) return;
    const auto dimension = static_cast<std::size_t>(std::max(0, kind.first->known->usual_cut));
    if (dimension >= full.size()) return;
    Layout layout = layout_over(axis, full.size(), cut ? std::optional(dimension) : std::nullopt);
    Candidate candidate;
    const std::int64_t parts = cut ? axis.size : 1;
    const std::int64_t row_parts = dimension == 0 ? parts : 1;
    candidate.holders = devices_ / parts;
    candidate.rows = full.front() / row_parts;
    if (slices.has_one_shape()) {
      const std::int64_t own = slices.shapes.front().front();
      if (own < 1 || candidate.rows < own || candidate.rows % own != 0) return;
      candidate.optimizer = candidate.rows / own;
    }
    if (candidate.holders % candidate.optimizer != 0) return;
    if (candidate.optimizer > 1) layout.optimizer_shard_size = candidate.optimizer;
    auto reading = reading_as(layout, slices, full);
    if (!reading || has_listed_lengths(*reading)) return;
    candidate.reading = std::move(*reading);
    found.push_back(std::move(candidate));
  }

  /// Drops what agrees with no setting of the optimizer for these parameters, weights or one kind
  /// of states.
  /// @return whether any setting agrees with them all.
  bool settle_optimizer(std::size_t state, ByKind& by_kind) const {
    std::vector<Setting> settings{0, -1};
    for (std::int64_t parts = 2; parts <= devices_; ++parts) {
      if (devices_ % parts == 0) settings.push_back(parts);
    }
    std::vector<std::vector<bool>> kept(kinds_.size());
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (by_kind[i]) kept[i].resize(by_kind[i]->size(), false);
    }
    bool any = false;
    for (const Setting setting : settings)
      any = keep_agreeing(state, setting, by_kind, kept) || any;
    for (std::size_t i = 0; any && i < kinds_.size(); ++i) {
      if (kinds_[i].state != state || !by_kind[i]) continue;
      Candidates left;
      for (std::size_t c = 0; c < kept[i].size(); ++c) {
        if (kept[i][c]) left.push_back(std::move((*by_kind[i])[c]));
      }
      by_kind[i] = std::move(left);
    }
    return any;
  }

  bool keep_agreeing(std::size_t state, Setting setting, const ByKind& by_kind,
                     std::vector<std::vector<bool>>& kept) const {
    std::vector<std::pair<std::size_t, std::size_t>> agreeing;
    bool is_shown = setting == 0;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i].state != state || !by_kind[i]) continue;
      bool any = false;
      for (std::size_t c = 0; c < by_kind[i]->size(); ++c) {
        const Candidate& candidate = (*by_kind[i])[c];
        if (!agrees(kinds_[i], candidate, setting)) continue;
        any = true;
        agreeing.emplace_back(i, c);
        // A cut of dimension 0 is the optimizer's for sure where dimension 1 is the other's.
        is_shown = is_shown || (is_matrix(kinds_[i]) && candidate.optimizer > 1 &&
                                kinds_[i].first->known->usual_cut == 1);
      }
      if (!any) return false;
    }
    if (!is_shown) return false;
    for (const auto& [i, c] : agreeing) kept[i][c] = true;
    return true;
  }

  /// MindSpore's optimizer cuts every matrix that it can divide, or none. Smaller parameters it may
  /// leave whole.
  static bool agrees(const Kind& kind, const Candidate& candidate, Setting setting) {
    if (setting == 0) return candidate.optimizer == 1;
    const std::int64_t wanted = setting < 0 ? candidate.holders : setting;
    const bool can = wanted > 1 && candidate.holders % wanted == 0 && candidate.rows % wanted == 0;
    if (candidate.optimizer > 1) return can && candidate.optimizer == wanted;
    return !can || !is_matrix(kind);
  }

  /// Whether matrices show that they are cut in this way.
  bool is_shown(const ByKind& agreed) const {
    std::set<const KnownParameter*> shown;
    std::array<bool, 2> directions{};
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      const Evidence& evidence = *kinds_[i].first;
      if (!agreed[i] || !is_matrix(kinds_[i]) || !evidence.parameter->slices.differ()) continue;
      shown.insert(evidence.known);
      directions[evidence.known->usual_cut == 0 ? 0 : 1] = true;
    }
    return shown.size() >= kFewestKinds && directions[0] && directions[1];
  }

  static void join(std::optional<std::vector<Reading>>& all,
                   const std::optional<Candidates>& more) {
    if (!more) all.reset();
    if (!all) return;
    for (const Candidate& candidate : *more) {
      const bool is_known = std::any_of(all->begin(), all->end(), [&](const Reading& reading) {
        return reading.same_boxes(candidate.reading);
      });
      if (!is_known) all->push_back(candidate.reading);
    }
  }

  std::string code() const {
    std::map<std::string, std::size_t> uses;
    for (const Kind& kind : kinds_) {
      if (is_matrix(kind)) ++uses[kind.first->known->network];
    }
    const auto most = std::max_element(
        uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::string& network = most->first;
    return network + (network.ends_with('s') ? "'" : "'s");
  }

  const std::vector<Evidence>& cases_;
  const std::int64_t devices_;
  std::vector<Kind> kinds_{};
  std::vector<std::optional<std::size_t>> kind_of_{};  ///< by case
  std::size_t states_ = 0;
};

}  // namespace

std::optional<NetworkReadings> readings_by_network(const std::vector<Evidence>& cases,
                                                   std::int64_t devices) {
  return NetworkReader(cases, devices).read();
}

}  // namespace reshardfs
