// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace reshardfs {

/// The numbers of names, as a std::unordered_map has them, in a quarter of its time and memory: for
/// a million names.
/// @tparam NameOf gives the name of a number that has been added; it must stay the same.
template <typename NameOf>
class NameTable {
 public:
  /// @param most names that will be added, fewer than 2^31.
  NameTable(std::size_t most, NameOf name_of)
      : name_of_(std::move(name_of)), slots_(std::bit_ceil(2 * most + 1)) {}

  /// Adds the name under this number, unless it has one already.
  /// @return the name's number, and whether it is new.
  std::pair<std::uint32_t, bool> try_emplace(std::string_view name, std::uint32_t number) {
    const Slot wanted = slot_of(name, number);
    Slot& slot = slots_[place_of(name, wanted.hash)];
    if (slot.hash != 0) return {slot.number, false};
    slot = wanted;
    return {number, true};
  }
  std::optional<std::uint32_t> find(std::string_view name) const {
    const Slot& slot = slots_[place_of(name, slot_of(name, 0).hash)];
    if (slot.hash == 0) return std::nullopt;
    return slot.number;
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;  ///< 0: of no name
    std::uint32_t number = 0;
  };

  static Slot slot_of(std::string_view name, std::uint32_t number) noexcept {
    const std::uint64_t hash = std::hash<std::string_view>()(name);
    return {static_cast<std::uint32_t>(hash ^ (hash >> 32U)) | 1U, number};
  }
  /// Where the name is, or is to be.
  std::size_t place_of(std::string_view name, std::uint32_t hash) const {
    // The last bit is set in all.
    std::size_t place = (hash >> 1U) & (slots_.size() - 1);
    while (slots_[place].hash != 0 &&
           (slots_[place].hash != hash || name_of_(slots_[place].number) != name)) {
      place = (place + 1) & (slots_.size() - 1);
    }
    return place;
  }

  NameOf name_of_;
  std::vector<Slot> slots_;
};

}  // namespace reshardfs
