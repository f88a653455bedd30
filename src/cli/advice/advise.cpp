// SPDX-License-Identifier: Apache-2.0
#include "cli/advice/advise.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/text/shell_text.h"
#include "base/text/url_path.h"
#include "cli/advice/command_text.h"
#include "cli/advice/meant_source.h"
#include "cli/advice/opened_source.h"
#include "cli/describe/free_names.h"
#include "cli/messages.h"
#include "cli/options/table.h"
#include "format/input_format.h"
#include "storage/local/directory.h"
#include "storage/local/hub_cache.h"
#include "storage/location.h"
#include "storage/near_path.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

std::string run(const Given& given) {
  return "run: " + command_text(given);
}

/// With what else is known of the file.
Error instead_of(const Error& error, const std::string& message, const std::string& hint) {
  Error other(error.kind(), message);
  other.in_file(error.file()).os_error(error.os_error()).hint(hint);
  if (!error.parameter().empty()) other.for_parameter(error.parameter());
  if (error.rank()) other.for_rank(*error.rank());
  return other;
}

/// A source among a command's arguments, with the option that says how it is cut.
struct SourceArgument {
  std::size_t place = 0;
  std::string strategy_option{};
};

bool is_named(const std::string& file, const std::string& argument) {
  if (is_url(argument) || argument.empty() || file.empty()) return false;
  return file == argument || file == fs::absolute(argument) ||
         file == fs::absolute(argument).lexically_normal();
}

/// The argument that an error is about.
std::optional<SourceArgument> source_of(const Error& error, const Given& given) {
  const auto& expected = given.command().arguments;
  for (std::size_t i = 0; i < expected.size() && i < given.arguments.size(); ++i) {
    const std::string& name = expected[i].name;
    std::string option = name == "A" ? "a-strategy" : name == "B" ? "b-strategy" : "src-strategy";
    const bool is_source = name == "SOURCE" || name == "PATH" || name == "A" || name == "B";
    if (!is_source || find_option(given.command(), option) == nullptr) continue;
    const std::string& argument = given.arguments[i];
    const bool is_in_it = error.need() == Need::kSourceStrategy && !is_url(argument) &&
                          !error.file().empty() &&
                          is_inside(error.file(), fs::absolute(argument).lexically_normal());
    if (is_in_it || is_named(error.file(), argument)) return SourceArgument{i, std::move(option)};
  }
  return std::nullopt;
}

bool is_about_content(const Error& error) {
  return error.kind() == ErrorKind::kMissing || error.kind() == ErrorKind::kBadInput ||
         error.kind() == ErrorKind::kUnsupported || error.kind() == ErrorKind::kUsage;
}

std::optional<Error> about_place(const Error& error, const Given& given) {
  if (error.need() != Need::kSource) return std::nullopt;
  const auto source = source_of(error, given);
  if (!source) return std::nullopt;
  const std::string& named = given.arguments[source->place];
  // A wrong step or pattern is not a wrong place.
  const auto is_one = [&given](const fs::path& path) {
    return OpenedSource::open(path.string(), given).has_value() ||
           OpenedSource::open(path.string(), Given(given.command())).has_value();
  };
  if (is_one(named)) return std::nullopt;
  const auto meant = meant_source(named, is_one);
  if (!meant) return std::nullopt;
  if (meant->is_strategy && given.command().bit == commands::kInspect) {
    return instead_of(error, meant->what, "run: " + command_line("strategy show", {named}));
  }
  if (meant->source.empty()) {
    return instead_of(error, meant->what,
                      meant->is_strategy ? "name it with --" + source->strategy_option +
                                               ", and the checkpoint's directory as " +
                                               given.command().arguments[source->place].name
                                         : "name one of them");
  }
  Given corrected = given;
  corrected.arguments[source->place] = meant->source.string();
  if (meant->is_strategy && !given.has(source->strategy_option)) {
    const auto opened = OpenedSource::open(meant->source.string(), given);
    if (!opened || !opened->is_laid_out_by(named)) {
      return instead_of(error, meant->what, "name the checkpoint's directory");
    }
    corrected = with_option(std::move(corrected), source->strategy_option, named);
  }
  const bool says_more = meant->is_part && error.message().starts_with("is ");
  return instead_of(
      error, says_more ? error.message() : meant->what,
      run(with_known_layout(std::move(corrected), source->place, source->strategy_option)));
}

std::optional<Error> about_missing_layout(const Error& error, const Given& given) {
  if (error.need() != Need::kSourceStrategy || given.arguments.empty()) return std::nullopt;
  auto source = source_of(error, given);
  const bool has_source = given.command().arguments.front().name == "SOURCE";
  if (has_source && is_named(error.file(), option_text(given, "dst-strategy"))) return std::nullopt;
  // Sizes are in no file, and what is no strategy is not the source.
  const std::string strategy = has_source ? option_text(given, "src-strategy") : std::string();
  if (!source && !strategy.empty() && (error.file().empty() || is_named(error.file(), strategy))) {
    source = SourceArgument{0, "src-strategy"};
  }
  if (!source) return std::nullopt;
  const auto opened = OpenedSource::open(given.arguments[source->place], given);
  const auto layout = opened ? opened->known_layout() : std::nullopt;
  if (!layout) return std::nullopt;
  Given corrected = with_option(given, source->strategy_option, *layout);
  if (given.command().bit == commands::kDiff && given.arguments.size() == 2) {
    // The other side may lack its own.
    const bool is_first = source->place == 0;
    corrected = with_known_layout(std::move(corrected), is_first ? 1 : 0,
                                  is_first ? "b-strategy" : "a-strategy");
  }
  return instead_of(error, error.message(), run(corrected));
}

/// Rules may fit many a checkpoint.
bool is_of_one_model(const std::string& strategy) {
  std::error_code failed;
  return fs::exists(strategy, failed) && !failed && fs::path(strategy).extension() != ".toml";
}

/// Two strategies of which each is the other's.
std::optional<Error> about_swapped_strategies(const Error& error, const Given& given) {
  if (!is_about_content(error) || find_option(given.command(), "dst-strategy") == nullptr) {
    return std::nullopt;
  }
  const std::string source = given.text("src-strategy");
  const std::string target = given.text("dst-strategy");
  if (!is_of_one_model(source) || !is_of_one_model(target)) return std::nullopt;
  const auto opened = OpenedSource::open(given.argument("SOURCE"), given);
  // With files of ranks that are missing, the source's strategy may be right all the same.
  if (!opened || !opened->has_files_of_all_ranks(source) || opened->is_laid_out_by(source) ||
      !opened->is_laid_out_by(target)) {
    return std::nullopt;
  }
  const Given corrected =
      with_option(with_option(given, "src-strategy", target), "dst-strategy", source);
  return Error(ErrorKind::kUsage,
               "--src-strategy and --dst-strategy look swapped: the files are cut as " +
                   printable(target) + " says")
      .hint(run(corrected));
}

std::optional<Error> about_mountpoint(const Error& error, const Given& given) {
  if (error.need() != Need::kMountpoint || !given.has_argument("MOUNTPOINT")) {
    return std::nullopt;
  }
  Given corrected = given;
  // One that is not there is made.
  if (error.kind() != ErrorKind::kMissing) {
    corrected.arguments[1] = free_mountpoint(absolute_source(given.argument("SOURCE")));
  }
  return instead_of(error, error.message(), run(corrected));
}

std::optional<Error> about_missing_argument(const Error& error, const Given& given) {
  if (error.need() != Need::kArgument) return std::nullopt;
  const std::string text = completed_text(given);
  if (text.empty()) return std::nullopt;
  return instead_of(error, error.message(), "run: " + text);
}

/// A checkpoint as the argument of a command that shows strategies.
std::optional<Error> about_strategy_argument(const Error& error, const Given& given) {
  const auto& expected = given.command().arguments;
  if (!is_about_content(error) || given.arguments.empty() || expected.empty() ||
      expected.front().name != "FILE" || !given.command().name.starts_with("strategy ")) {
    return std::nullopt;
  }
  const std::string& named = given.arguments.front();
  if (!is_named(error.file(), named)) return std::nullopt;
  const auto opened = OpenedSource::open(named, given);
  const auto layout = opened ? opened->known_layout() : std::nullopt;
  if (!layout || !fs::exists(*layout)) return std::nullopt;
  Given corrected = given;
  corrected.arguments.front() = *layout;
  return instead_of(error, error.message(), run(corrected));
}

std::optional<Error> about_output(const Error& error, const Given& given) {
  if (given.command().bit != commands::kExport || given.arguments.size() < 2 ||
      error.kind() != ErrorKind::kUsage) {
    return std::nullopt;
  }
  const std::string& target = given.arguments[1];
  // Other refusals are about what is there already, and say themselves what helps.
  std::error_code failed;
  const fs::path out = fs::weakly_canonical(fs::absolute(target), failed);
  const fs::path source = fs::weakly_canonical(fs::absolute(given.arguments[0]), failed);
  const bool overlaps = is_inside(out, source) || is_inside(source, out);
  if (!is_named(error.file(), target) || (!overlaps && fs::exists(target))) return std::nullopt;
  Given corrected = given;
  fs::path file(given.arguments[1]);
  const bool is_file = file.has_extension() && !fs::is_directory(file, failed);
  const bool known =
      is_file && (has_torch_name(file) || input_format_of(file).extension == file.extension());
  if (const auto url = meant_url(given.arguments[1])) {
    corrected.arguments[1] = *url;
  } else if (overlaps) {
    corrected.arguments[1] = free_output(source, !is_file ? ""
                                                 : known  ? file.extension().string()
                                                          : ".safetensors");
  } else if (known) {
    return std::nullopt;  // the refusal says itself what helps
  } else {
    corrected.arguments[1] =
        is_file ? file.replace_extension(".safetensors").string() : free_name("converted");
  }
  return instead_of(error, error.message(), run(corrected));
}

/// A web server lists nothing.
bool may_have_near_names(const std::string& path) {
  return is_url(path) ? path.starts_with("s3://") : path_kind(path) == PathKind::kMissing;
}

/// The name of a model on a hub, where a checkpoint is asked for.
std::optional<Error> about_hub_name(const Error& error, const Given& given) {
  if (error.need() != Need::kNothing || error.kind() != ErrorKind::kMissing) return std::nullopt;
  const auto source = source_of(error, given);
  if (!source) return std::nullopt;
  const std::string& named = given.arguments[source->place];
  const std::size_t slash = named.find('/');
  const bool is_name = slash != std::string::npos && slash > 0 && slash + 1 < named.size() &&
                       named.find('/', slash + 1) == std::string::npos && named.front() != '.' &&
                       named.front() != '~';
  if (!is_name || path_kind(named) != PathKind::kMissing ||
      path_kind(named.substr(0, slash)) != PathKind::kMissing) {
    return std::nullopt;
  }
  const fs::path cached = hub_directory(named);
  if (path_kind(cached) == PathKind::kMissing) {
    if (!did_you_mean_path(named).empty()) return std::nullopt;
    return instead_of(error, error.message(),
                      "give a directory or a file; the model of a hub is downloaded by 'hf "
                      "download " +
                          printable(named) + "', which prints its directory");
  }
  Given corrected = given;
  corrected.arguments[source->place] = cached.string();
  return instead_of(error, "is no directory, but the cache of the hub has a model of this name",
                    run(corrected));
}

/// A path that is not there, of whatever argument or option.
std::optional<Error> about_missing_path(const Error& error, const Given&) {
  if (error.kind() != ErrorKind::kMissing || !error.hint().empty() || error.file().empty() ||
      !may_have_near_names(error.file())) {
    return std::nullopt;
  }
  const std::string hint = did_you_mean_path(error.file());
  if (hint.empty()) return std::nullopt;
  return Error(error).hint(hint);
}

}  // namespace

Error advised(const Error& error, const Given& given) {
  const bool has_file = given.from_file || !option_text(given, "config").empty();
  if (has_listener() || has_file) return error;
  try {
    for (const auto advise : {about_missing_layout, about_mountpoint, about_output,
                              about_strategy_argument, about_swapped_strategies, about_place,
                              about_missing_argument, about_hub_name, about_missing_path}) {
      if (auto better = advise(error, given)) return std::move(*better);
    }
  } catch (const Error&) {
    // The first error is right all the same.
  } catch (const fs::filesystem_error&) {
  }
  return error;
}

}  // namespace reshardfs
