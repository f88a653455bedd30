// SPDX-License-Identifier: Apache-2.0
/// What comes of damaged files, counted.
///
/// A format without redundancy cannot tell every flipped bit: a file with another letter in a name
/// is a good file of another model. Such files have a *kind*, the one fact in which they differ
/// from the intact one:
///
///   name     one parameter has another name; its type, shape and bytes are what they were
///   type     one parameter has another type of the same size
///   shape    one parameter has another shape with as many elements
///   bytes    one parameter has other bytes (as many)
///   missing  one or several parameters are not there; the others are what they were
///   more     one or several parameters are there that were not
///
/// or "several facts". Each test says which of these cannot be told, and nothing else may be read.
/// In all of them a parameter's bytes are as many as its shape and type ask for (engine.cpp).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine.h"

namespace reshardfs::damage {

/// Empty if they are equal, or one of the kinds above.
std::string kind_of_change(const Parameters& intact, const Parameters& found);

class Tally {
 public:
  /// @param what for the line that is printed.
  /// @param allowed the kinds that cannot be told from good files.
  Tally(std::string what, std::set<std::string> allowed);
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;
  /// Prints the counts.
  ~Tally();

  /// Runs `kind`, which reads a damaged file and gives its kind, and records what comes of it. An
  /// Error of bad input counts as refused; any other exception, a kind that is not allowed and more
  /// memory than a small file may cost fail the test.
  /// @param where for messages.
  void add(const std::string& where, const std::function<std::string()>& kind);

  std::size_t count(const std::string& kind) const;
  std::size_t refused() const { return count("refused"); }
  std::size_t total() const;

 private:
  std::string what_;
  std::set<std::string> allowed_;
  std::map<std::string, std::size_t> counts_;
  std::size_t most_allocated_ = 0;
};

/// [begin, end) of a file.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Calls `use` with the first 0, 1, 2, ... bytes, and where the cut is. Not with all of them.
void each_cut(const std::string& file,
              const std::function<void(const std::string& cut, const std::string& where)>& use);

/// Calls `use` with each bit flipped that is not in `spared`, and with its byte's place.
void each_flip(const std::string& file, const std::vector<Range>& spared,
               const std::function<void(const std::string& flipped, const std::string& where,
                                        std::size_t byte)>& use);

}  // namespace reshardfs::damage
