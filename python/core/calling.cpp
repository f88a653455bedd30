// SPDX-License-Identifier: Apache-2.0
#include "core/calling.h"

#include <utility>

#include "reshardfs/error.h"

#include "cli/json_answer.h"
#include "cli/options/table.h"
#include "core/reading.h"

namespace py = pybind11;

namespace reshardfs::python {
namespace {

std::vector<OptionValue> values_of(const std::vector<PlainValue>& plain) {
  std::vector<OptionValue> values;
  values.reserve(plain.size());
  for (const auto& [name, texts, is_number] : plain) values.push_back({name, texts, is_number});
  return values;
}

Given given_of(const std::string& name, const std::vector<std::string>& arguments,
               const std::vector<PlainValue>& values) {
  const Command* const command = find_command(name);
  if (command == nullptr) throw Error(ErrorKind::kInternal, "there is no command " + name);
  return given_values(*command, arguments, values_of(values));
}

/// A name in a file may be no UTF-8.
py::str text_of(const std::string& text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void tell(const py::object& listener, const Progress::Values& values) {
  const py::object file =
      values.current.empty() ? py::object(py::none()) : py::object(text_of(values.current));
  listener(text_of(values.phase), values.bytes, values.total_bytes, values.files,
           values.total_files, file);
}

}  // namespace

std::shared_ptr<CheckpointHandle> open_checkpoint(const std::string& source,
                                                  const std::vector<PlainValue>& values,
                                                  const std::string& identity) {
  return call_interruptibly<std::shared_ptr<CheckpointHandle>>(
      [opening = KeptOpening{source, values_of(values), identity}] {
        return std::make_shared<CheckpointHandle>(opening);
      });
}

py::bytes run_command(const std::string& name, const std::vector<std::string>& arguments,
                      const std::vector<PlainValue>& values, const py::object& progress) {
  struct Call {
    explicit Call(Given all) : given(std::move(all)) {}
    const Given given;
    Progress progress;
    std::string answer;
  };
  const auto call = std::make_shared<Call>(given_of(name, arguments, values));
  Company company{.stop = [call] { call->progress.stop(); }};
  if (!progress.is_none()) company.look = [&] { tell(progress, call->progress.values()); };
  run_in_company([call] { call->answer = json_answer(call->given, call->progress); }, company);
  return call->answer;
}

std::vector<py::bytes> command_words(const std::string& name,
                                     const std::vector<std::string>& arguments,
                                     const std::vector<PlainValue>& values) {
  const Given given = given_of(name, arguments, values);
  std::vector<py::bytes> words{py::bytes(name)};
  for (const GivenOption& use : given.options) {
    for (const std::string& word : typed_words(use)) words.emplace_back(word);
  }
  words.emplace_back("--");
  for (const std::string& argument : arguments) words.emplace_back(argument);
  return words;
}

}  // namespace reshardfs::python
