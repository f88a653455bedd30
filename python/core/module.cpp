// SPDX-License-Identifier: Apache-2.0
/// The module reshardfs._core: what the Python files beside it are made of. See _core.pyi.
#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "reshardfs/conversion.h"
#include "reshardfs/error.h"
#include "reshardfs/tensor.h"

#include "base/process/counters.h"
#include "base/version.h"
#include "cli/messages.h"
#include "conversion/installed_maps.h"
#include "core/borrowed.h"
#include "core/boxes.h"
#include "core/calling.h"
#include "core/dlpack.h"
#include "core/faults.h"
#include "core/handle.h"
#include "core/memory.h"
#include "core/reading.h"
#include "report/text/model_tree_text.h"
#include "view/files/npy_file.h"

namespace py = pybind11;

namespace reshardfs::python {
namespace {

py::tuple tuple_of(const Shape& shape) {
  py::tuple tuple(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) tuple[d] = py::int_(shape[d]);
  return tuple;
}

/// reshardfs.Error with all that is known.
void raise(const Error& error) {
  const auto text_or_none = [](const std::string& text) -> py::object {
    if (text.empty()) return py::none();
    return py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  };
  const py::object rank =
      error.rank() ? py::object(py::int_(error.rank()->number())) : py::object(py::none());
  const py::object number =
      error.os_error() == 0 ? py::object(py::none()) : py::object(py::int_(error.os_error()));
  const py::object made =
      py::module_::import("reshardfs._errors")
          .attr("made")(text_or_none(error.what()), name_of(error.kind()),
                        text_or_none(error.file()), text_or_none(error.parameter()), rank,
                        text_or_none(error.hint()), number);
  PyErr_SetObject(py::type::of(made).ptr(), made.ptr());
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as pybind11 takes it
void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise(error);
  }
}

/// The bytes of a file from `offset` on.
std::function<void(std::uint64_t, std::span<std::byte>)> reader_from(const FileHandle& file,
                                                                     std::uint64_t offset) {
  return [reader = file.reader(), offset](std::uint64_t at, std::span<std::byte> out) {
    reader(offset + at, out);
  };
}

void read_into(std::function<void(std::uint64_t, std::span<std::byte>)> reader, std::size_t bytes,
               const py::object& object) {
  const auto borrowed = std::make_shared<Borrowed>(object, PyBUF_C_CONTIGUOUS);
  const std::size_t size = borrowed->size();
  if (size < bytes) {
    borrowed->release();
    throw Error(ErrorKind::kUsage, "the buffer has " + std::to_string(size) + " of " +
                                       std::to_string(bytes) + " bytes");
  }
  read_parts({ReadRequest::into(borrowed->bytes().first(bytes), std::move(reader), borrowed)});
  borrowed->release();
}

py::bytes read_bytes(const FileHandle& file, std::uint64_t offset, std::size_t bytes) {
  auto text = py::reinterpret_steal<py::bytes>(
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
  if (!text) throw py::error_already_set();
  // A read that is left to itself still writes; then the bytes are never freed.
  auto* keep = new py::bytes(text);
  auto* place = reinterpret_cast<std::byte*>(PyBytes_AS_STRING(text.ptr()));
  try {
    read_parts({ReadRequest::into(std::span(place, bytes), reader_from(file, offset), nullptr)});
  } catch (const py::error_already_set&) {
    throw;
  } catch (...) {
    delete keep;
    throw;
  }
  delete keep;
  return text;
}

std::vector<MemoryPtr> read_all(const std::vector<TensorHandle>& tensors, std::size_t threads) {
  std::vector<std::size_t> sizes;
  sizes.reserve(tensors.size());
  for (const TensorHandle& tensor : tensors) {
    sizes.push_back(static_cast<std::size_t>(tensor.get().bytes()));
  }
  std::vector<MemoryPtr> results = memory_for(sizes);
  std::vector<ReadRequest> parts;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    parts.push_back(ReadRequest::into(results[i]->bytes(), tensors[i].reader(), results[i]));
  }
  read_parts(std::move(parts), threads);
  return results;
}

std::string drawn(const CheckpointHandle& checkpoint, const std::string& name) {
  return call_interruptibly<std::string>([conversion = checkpoint.get(), name] {
    std::string text;
    conversion->draw_parameter(name, [&](std::string_view part) { text += part; });
    return text;
  });
}

std::string tree_of(const TensorSetHandle& set, std::size_t columns, std::size_t lines) {
  return call_interruptibly<std::string>([set, columns, lines] {
    std::vector<ModelTensor> tensors;
    for (std::size_t i = 0; i < set.get().size(); ++i) {
      const TensorInfo info = set.get().info(i);
      tensors.push_back({info.name, info.dtype, info.shape, info.bytes});
    }
    return tree_text(model_tree(tensors), {.columns = columns, .lines = lines, .utf8 = true});
  });
}

using HandlePtr = std::shared_ptr<CheckpointHandle>;

/// What open() takes. Paths may be no UTF-8.
py::tuple plain(const KeptOpening& kept) {
  py::tuple values(kept.values.size());
  for (std::size_t i = 0; i < kept.values.size(); ++i) {
    const OptionValue& value = kept.values[i];
    values[i] = py::make_tuple(value.name, py::make_tuple(py::bytes(value.texts->front())), false);
  }
  return py::make_tuple(py::bytes(kept.source), values, py::bytes(kept.identity));
}

/// Calls a member function that may take long, so that Ctrl-C ends it.
template <typename Result, typename... Arguments>
auto interruptibly(Result (CheckpointHandle::*function)(Arguments...) const) {
  return [function](const HandlePtr& checkpoint, std::decay_t<Arguments>... arguments) {
    return call_interruptibly<Result>([=] { return ((*checkpoint).*function)(arguments...); });
  };
}

void add_memory(py::module_& module) {
  py::class_<Memory, MemoryPtr>(module, "Buffer", py::buffer_protocol())
      .def("__len__", [](const Memory& memory) { return memory.bytes().size(); })
      .def_buffer([](Memory& memory) {
        const auto size = static_cast<py::ssize_t>(memory.bytes().size());
        return py::buffer_info(memory.bytes().data(), 1,
                               py::format_descriptor<unsigned char>::value, 1, {size}, {1});
      });
}

void add_tensors(py::module_& module) {
  py::class_<TensorHandle>(module, "Tensor")
      .def_property_readonly("name", [](const TensorHandle& t) { return t.facts().name(); })
      .def_property_readonly(
          "dtype", [](const TensorHandle& t) { return plain_dtype_name(t.facts().dtype()); })
      .def_property_readonly("is_array",
                             [](const TensorHandle& t) { return is_array(t.facts().dtype()); })
      .def_property_readonly("shape",
                             [](const TensorHandle& t) { return tuple_of(t.facts().shape()); })
      .def_property_readonly("nbytes", [](const TensorHandle& t) { return t.facts().bytes(); })
      .def("box", &TensorHandle::box)
      .def("read", [](const TensorHandle& t) { return read_all({t}, 0).front(); })
      .def("read_into",
           [](const TensorHandle& t, const py::object& out) {
             read_into(t.reader(), static_cast<std::size_t>(t.get().bytes()), out);
           })
      .def("bytes_in_short_runs", &bytes_in_short_runs, py::call_guard<py::gil_scoped_release>())
      .def("dlpack", [](const TensorHandle& t, bool versioned) {
        require_dlpack_type(t.facts().dtype());
        const MemoryPtr memory = read_all({t}, 0).front();
        return dlpack_capsule(memory, t.facts().dtype(), t.facts().shape(), versioned);
      });
  py::class_<TensorSetHandle>(module, "TensorSet")
      .def("__len__", [](const TensorSetHandle& set) { return set.facts().size(); })
      .def("has", [](const TensorSetHandle& set,
                     const std::string& name) { return set.facts().find(name).has_value(); })
      .def("at", &TensorSetHandle::at)
      .def("names", &TensorSetHandle::names)
      .def("name", [](const TensorSetHandle& set,
                      std::size_t index) { return set.facts().info(index).name; })
      .def("info",
           [](const TensorSetHandle& set, std::size_t index) {
             const TensorInfo info = set.facts().info(index);
             return py::make_tuple(info.name, plain_dtype_name(info.dtype), tuple_of(info.shape),
                                   info.bytes, is_array(info.dtype));
           })
      .def("tree", &tree_of);
  module.def("read_all", &read_all, py::arg("tensors"), py::arg("threads") = 0);
  module.def("read_into_all", &read_into_all, py::arg("parts"), py::arg("threads") = 0);
  module.def("in_order_of_sources", &in_order_of_sources);
  module.def("prefetch", &prefetch);
  module.def("source_bytes", [] { return counters().values().source_bytes(); });
}

void add_checkpoint(py::module_& module) {
  py::class_<FileHandle>(module, "File")
      .def_property_readonly("size", &FileHandle::size)
      .def("read_into",
           [](const FileHandle& file, std::uint64_t offset, std::size_t bytes,
              const py::object& out) { read_into(reader_from(file, offset), bytes, out); })
      .def("read", &read_bytes);
  using Handle = CheckpointHandle;
  py::class_<Handle, HandlePtr>(module, "Checkpoint")
      .def_property_readonly("ranks",
                             [](const Handle& checkpoint) {
                               std::vector<std::int64_t> numbers;
                               for (const Rank rank : checkpoint.facts().ranks) {
                                 numbers.push_back(rank.number());
                               }
                               return numbers;
                             })
      .def_property_readonly("rank_count", [](const Handle& c) { return c.facts().rank_count; })
      .def_property_readonly("warnings", [](const Handle& c) { return c.facts().warnings; })
      .def_property_readonly("notes", [](const Handle& c) { return c.facts().notes; })
      .def_property_readonly("step", [](const Handle& c) { return c.facts().step; })
      .def_property_readonly("steps", [](const Handle& c) { return c.facts().steps; })
      .def_property_readonly("closed", &Handle::is_closed)
      .def("files", interruptibly(&Handle::files))
      .def("tensors", interruptibly(&Handle::tensors))
      .def("whole_tensors", interruptibly(&Handle::whole_tensors))
      .def("metadata", &Handle::metadata)
      .def("file", interruptibly(&Handle::file))
      .def("draw_parameter", &drawn)
      .def("kept", [](const Handle& c) { return plain(c.kept(KeptFor::kPickle)); })
      .def("kept_for_fork", [](const Handle& c) { return plain(c.kept(KeptFor::kFork)); })
      .def("close", &Handle::close, py::call_guard<py::gil_scoped_release>());
}

/// Also called from Python: a further interpreter gets a copy of what the first one has imported.
bool is_main_interpreter() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return true;
  PyErr_SetString(PyExc_ImportError, "reshardfs works in the main interpreter only");
  return false;
}

PyObject* require_main_interpreter(PyObject* /*module*/, PyObject* /*none*/) {
  if (!is_main_interpreter()) return nullptr;
  Py_RETURN_NONE;
}

void fill(py::module_& module) {
  // None of pybind11's own functions: those wait for the other interpreter's lock.
  static std::array<PyMethodDef, 2> functions{
      {{"require_main_interpreter", require_main_interpreter, METH_NOARGS, nullptr}, {}}};
  module.def("set_program", [](const std::string& path) { set_program(path); });
  if (PyModule_AddFunctions(module.ptr(), functions.data()) != 0) throw py::error_already_set();
  collect_faults();
  module.attr("version") = kVersion;
  py::register_exception_translator(&translate);
  add_memory(module);
  add_tensors(module);
  add_checkpoint(module);
  module.def("open", &open_checkpoint);
  module.def("run", &run_command);
  module.def("words", &command_words);
}

}  // namespace
}  // namespace reshardfs::python

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming):
// the name that Python looks for.
// As PYBIND11_MODULE has it, but for the first lines: pybind11 keeps what it knows of types for the
// process, and not for an interpreter.
extern "C" __attribute__((visibility("default"))) PyObject* PyInit__core();

extern "C" PyObject* PyInit__core() {
  if (!reshardfs::python::is_main_interpreter()) return nullptr;
  PYBIND11_CHECK_PYTHON_VERSION
  PYBIND11_ENSURE_INTERNALS_READY
  static py::module_::module_def definition;
  auto module = py::module_::create_extension_module("_core", nullptr, &definition);
  try {
    reshardfs::python::fill(module);
    return module.ptr();
  }
  PYBIND11_CATCH_INIT_EXCEPTIONS
  return nullptr;  // pybind11 3 leaves that to the caller
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
