// SPDX-License-Identifier: Apache-2.0
/// Reads protobuf's wire format from a ByteSource through one small window. Contents are skipped
/// without reading them, so that a message of any size takes a few small reads. Memory is never
/// allocated for a length before the file has been checked to contain it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "storage/byte_source.h"

namespace reshardfs {

/// Foretells where the headers of a file stand that are only found one after the other: the layers
/// of a model are alike, so the distances between headers repeat. On a server, where each header
/// costs a round trip, they can then be asked for together. A wrong prediction costs a request.
class HopPredictor {
 public:
  /// Headers that are foretold at once.
  static constexpr std::size_t kAhead = 64;
  /// Names have numbers in them, of one digit or of two: distances differ by as many bytes.
  static constexpr std::uint64_t kTolerance = 64;

  /// To be called with the place of each header, in their order.
  /// @param size of the file.
  /// @return places where headers are expected that were not told before; mostly none.
  std::vector<std::uint64_t> hop_to(std::uint64_t place, std::uint64_t size);

 private:
  /// Hops after which the distances have begun to repeat; 0 if they have not.
  std::size_t period() const noexcept;

  static constexpr std::size_t kMaxHops = 4096;

  bool begun_ = false;
  std::uint64_t last_ = 0;
  std::vector<std::uint64_t> hops_;     ///< distances, as they came
  std::deque<std::uint64_t> expected_;  ///< places that were told, and are still to come
};

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  /// kVarint: the number. kBytes: bytes of payload. Else 0.
  std::uint64_t value = 0;
};

class WireCursor {
 public:
  explicit WireCursor(const ByteSource& source) : source_(source), file_size_(source.size()) {}

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t file_size() const noexcept { return file_size_; }
  /// Where the key of the field that was read last stands, also if reading it failed.
  std::uint64_t field_offset() const noexcept { return field_offset_; }

  /// Reads a field's key, and its value if it has a fixed size or is a varint. The payload of a
  /// kBytes field comes next; its length is not checked yet (payload_end() does).
  /// @param end where the enclosing message (or the file) ends.
  /// @throws Error kBadInput at the field's offset for groups, unknown wire types, field number 0
  ///         and a field that crosses `end`.
  WireField read_field(std::uint64_t end);

  /// Where the payload that comes next ends.
  /// @throws Error kBadInput if this is beyond `end`, the end of the enclosing message.
  std::uint64_t payload_end(const WireField& field, std::uint64_t end) const;

  /// @throws Error kBadInput if it crosses `end`, has more than 10 bytes or exceeds 64 bits.
  std::uint64_t read_varint(std::uint64_t end);

  /// The next `length` bytes. The caller has checked that they exist and are few.
  std::string read_bytes(std::uint64_t length);

  /// Goes to any place of the file; reads nothing.
  void move_to(std::uint64_t position) noexcept { position_ = position; }

 private:
  static constexpr std::size_t kWindowBytes = 4096;
  /// After a long way the next message's header is all that is wanted, and it is short.
  static constexpr std::size_t kFarWindowBytes = 256;

  /// Makes the byte at position_ part of the window; it exists.
  void fill();
  /// Of a source far away: asks for what will be wanted after this place, if it is known.
  void foresee();
  bool in_window() const noexcept {
    return position_ >= window_begin_ && position_ - window_begin_ < window_bytes_;
  }

  const ByteSource& source_;
  std::uint64_t file_size_;
  std::uint64_t position_ = 0;
  std::uint64_t field_offset_ = 0;
  std::uint64_t window_begin_ = 0;
  std::size_t window_bytes_ = 0;
  std::array<std::byte, kWindowBytes> window_{};
  HopPredictor hops_;
};

}  // namespace reshardfs
