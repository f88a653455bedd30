// SPDX-License-Identifier: Apache-2.0
#include "doubtful_set.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "mindspore_files.h"

namespace property {
namespace {

namespace fs = std::filesystem;

struct Place {
  const RandomSet& set;
  const fs::path& directory;
  reshardfs::ConversionOptions& options;
  Random& random;
};

std::string rank_name(std::int64_t rank) {
  return "rank_" + std::to_string(rank);
}

fs::path rank_file(const Place& place, std::int64_t rank) {
  return place.directory / "src" / rank_name(rank) / "model-1_7.ckpt";
}

/// Names of tensors with an element that no other rank than `lost` holds.
std::vector<std::string> lost_with(const RandomSet& set, std::int64_t lost) {
  std::vector<std::string> out;
  for (const Tensor& tensor : set.laid) {
    std::vector<bool> is_held(static_cast<std::size_t>(naive::product(tensor.full.shape)), false);
    for (std::int64_t rank = 0; rank < set.src.rank_count(); ++rank) {
      const auto held = held_on(tensor, set.src, rank);
      if (rank == lost || !held) continue;
      for (const std::size_t element : naive::elements_of(tensor.full.shape, *held)) {
        is_held[element] = true;
      }
    }
    if (std::find(is_held.begin(), is_held.end(), false) != is_held.end()) {
      out.push_back(tensor.name);
    }
  }
  return out;
}

/// Whether all ranks that hold a tensor hold the same bytes, and would whatever the layout were.
bool is_same_everywhere(const Tensor& tensor, const Side& side) {
  std::set<std::string> contents;
  for (std::int64_t rank = 0; rank < side.rank_count(); ++rank) {
    const auto held = held_on(tensor, side, rank);
    if (!held) continue;
    contents.insert(
        naive::slice(tensor.full.content, tensor.full.shape, tensor.element_size, *held));
  }
  return contents.size() == 1;
}

/// Names of tensors of which a rank has a slice, and the rank itself.
std::vector<std::string> names_on(const RandomSet& set, std::int64_t rank) {
  std::vector<std::string> out = {"rank " + std::to_string(rank), rank_name(rank)};
  for (const Tensor& tensor : set.laid) {
    if (held_on(tensor, set.src, rank)) out.push_back(tensor.name);
  }
  return out;
}

bool lists_names(const Side& side) {
  return !side.none && !side.rules;
}

Doubt lose_rank(const Place& place) {
  const std::int64_t rank = pick(place.random, 0, place.set.src.rank_count() - 1);
  fs::remove_all(rank_file(place, rank).parent_path());
  Doubt doubt{"a missing rank", "rank " + std::to_string(rank) + " is missing"};
  const bool is_only_one = place.set.src.rank_count() == 1;
  // Slices of another stage may have the elements, but not the same slices: both answers are right.
  doubt.may_serve = lost_with(place.set, rank).empty() && !is_only_one;
  doubt.names = names_on(place.set, rank);
  if (is_only_one) doubt.names.emplace_back("src");
  return doubt;
}

Doubt lose_tensor(const Place& place) {
  const Tensor& tensor = place.set.laid[static_cast<std::size_t>(
      pick(place.random, 0, static_cast<std::int64_t>(place.set.laid.size()) - 1))];
  std::vector<std::int64_t> holders;
  for (std::int64_t rank = 0; rank < place.set.src.rank_count(); ++rank) {
    if (held_on(tensor, place.set.src, rank)) holders.push_back(rank);
  }
  const std::int64_t rank = holders[static_cast<std::size_t>(
      pick(place.random, 0, static_cast<std::int64_t>(holders.size()) - 1))];
  std::string data;
  for (const auto& [name, record] : rank_records(place.set, place.set.src, rank)) {
    if (name != tensor.name) data += encode(name, record, {});
  }
  std::ofstream(rank_file(place, rank), std::ios::binary | std::ios::trunc) << data;
  Doubt doubt{"a missing tensor", "rank " + std::to_string(rank) + " lacks " + tensor.name};
  const std::vector<std::string> lost = lost_with(place.set, rank);
  doubt.may_serve = std::find(lost.begin(), lost.end(), tensor.name) == lost.end();
  doubt.names = {tensor.name};
  // A strategy may lay out more than the checkpoint has, if no rank has it.
  if (holders.size() == 1) {
    doubt.may_leave_out = tensor.name;
    doubt.may_serve = true;
    doubt.is_listed_nowhere = !lists_names(place.set.src) && !lists_names(place.set.dst);
  }
  return doubt;
}

/// Whether a record of a file ends there.
bool is_end_of_record(const fs::path& file, std::size_t place) {
  std::ifstream stream(file, std::ios::binary);
  const std::string data{std::istreambuf_iterator<char>(stream), {}};
  std::size_t at = 0;
  while (at < place) {
    ++at;  // the field's tag
    std::size_t length = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(data.at(at++));
      length |= std::size_t{byte & 0x7fU} << shift;
      if (byte < 0x80U) break;
    }
    at += length;
  }
  return at == place;
}

Doubt truncate(const Place& place) {
  const std::int64_t rank = pick(place.random, 0, place.set.src.rank_count() - 1);
  const fs::path file = rank_file(place, rank);
  const auto size = static_cast<std::int64_t>(fs::file_size(file));
  std::int64_t left = pick(place.random, 0, size - 1);
  // A file that ends with a record is a whole one: what it lacks is a missing tensor, another
  // doubt.
  if (left > 0 && is_end_of_record(file, static_cast<std::size_t>(left))) --left;
  fs::resize_file(file, static_cast<std::uintmax_t>(left));
  Doubt doubt{"a truncated file",
              rank_name(rank) + " is cut to " + std::to_string(left) + " bytes"};
  doubt.names = names_on(place.set, rank);
  return doubt;
}

/// A strategy without one of the tensors.
Doubt forget_layout(const Place& place) {
  const Tensor& tensor = place.set.laid[static_cast<std::size_t>(
      pick(place.random, 0, static_cast<std::int64_t>(place.set.laid.size()) - 1))];
  Side side = place.set.src;
  for (StageLayouts& stage : side.stages) stage.erase(tensor.name);
  const bool is_empty = std::any_of(side.stages.begin(), side.stages.end(),
                                    [](const StageLayouts& stage) { return stage.empty(); });
  Doubt doubt{"a missing layout", "the source's strategy does not mention " + tensor.name};
  doubt.names = {tensor.name};
  if (side.none || is_empty) return doubt;  // unchanged
  place.options.source.strategy = write_strategy(side, place.directory / "forgetful", place.random);
  doubt.may_leave_out = tensor.name;
  if (is_same_everywhere(tensor, place.set.src)) doubt.undecidable = tensor.name;
  return doubt;
}

/// An option whose glob no name has.
Doubt miss_names(const Place& place) {
  const std::string glob = "modle.*";
  Doubt doubt{"a dead option", "--include " + glob};
  switch (pick(place.random, 0, 3)) {
    case 0:
      place.options.include = {glob};
      break;
    case 1:
      place.options.exclude = {glob};
      doubt.what = "--exclude " + glob;
      break;
    case 2:
      place.options.casts = {glob + ":fp32->bf16"};
      doubt.what = "--cast " + place.options.casts.front();
      break;
    default:
      place.options.source.state_prefixes = {"modle_m."};
      doubt.what = "--state-prefix modle_m.";
      doubt.names = {"modle_m."};
      break;
  }
  if (doubt.names.empty()) doubt.names = {glob};
  place.options.source.allow_unmatched = false;
  doubt.names.emplace_back("optional = true");  // a rule of the strategy may match nothing, too
  doubt.may_serve = false;
  return doubt;
}

}  // namespace

Doubt cast_doubt(const RandomSet& set, const fs::path& directory,
                 reshardfs::ConversionOptions& options, Random& random) {
  using Cast = Doubt (*)(const Place&);
  constexpr std::array<Cast, 5> kCasts = {lose_rank, lose_tensor, truncate, forget_layout,
                                          miss_names};
  const Place place{set, directory, options, random};
  return kCasts[static_cast<std::size_t>(pick(random, 0, 4))](place);
}

}  // namespace property
