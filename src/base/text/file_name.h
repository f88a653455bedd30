// SPDX-License-Identifier: Apache-2.0
/// Parameters' names as paths of files: any name has a path, and any path leads back to its name.
/// And what is the name of a file at all.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace reshardfs {

/// What the caller appends to each path. A directory never ends in it, so that no path is a file
/// for one parameter (`a` gives `a.npy`) and a directory for another (`a.npy/b`: `a%2Enpy/b.npy`).
inline constexpr std::string_view kParameterFileExtension = ".npy";

/// A relative path without extension; different names have different paths. Most names are their
/// own path; a `/` makes directories. Written as `%` and two upper-case hexadecimal digits are: `%`
/// itself, control characters, bytes that are not UTF-8, a `/` that would leave a component empty,
/// and the dots of `.` and `..`. A component has at most 200 bytes; a longer one goes on in the
/// next directory after a `%+` at its end.
/// @param name not empty. @throws Error kInternal if it is.
std::string to_file_path(std::string_view name);

/// The inverse: the name, or nothing if to_file_path() makes no such path.
std::optional<std::string> from_file_path(std::string_view path);

/// Whether it names an entry of a directory, and nothing outside of it.
bool is_plain_file_name(std::string_view name) noexcept;

/// Without the empty last component that a slash at the end makes: "dir/" names dir.
std::filesystem::path without_trailing_slash(const std::filesystem::path& path);

/// Whether a file's name is that of an index as model hubs have it: "model.safetensors.index.json",
/// "diffusion_pytorch_model.safetensors.index.fp16.json", "pytorch_model.bin.index.json".
inline bool is_index_name(std::string_view name) noexcept {
  return name.ends_with(".json") && (name.find(".safetensors.index.") != std::string_view::npos ||
                                     name.find(".bin.index.") != std::string_view::npos);
}

}  // namespace reshardfs
