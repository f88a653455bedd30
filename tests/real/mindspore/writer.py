# SPDX-License-Identifier: Apache-2.0
"""save_checkpoint in every form: reshardfs shows the values that were saved. Runs in MindSpore 1.0 too."""

import time

import files
import mindspore as ms
import numpy as np
from files import Entry
from mindspore import Parameter, Tensor, nn
from product import reshardfs

try:
    from mindspore import save_checkpoint
except ImportError:
    from mindspore.train.serialization import save_checkpoint

NUMPY_TYPES = {"int8": "Int8", "uint8": "UInt8", "int16": "Int16", "uint16": "UInt16", "int32": "Int32",
               "uint32": "UInt32", "int64": "Int64", "uint64": "UInt64", "float16": "Float16", "float32": "Float32",
               "float64": "Float64", "bool": "Bool"}
HAS_BFLOAT16 = hasattr(ms, "bfloat16")
RELEASE = tuple(int(part) for part in ms.__version__.split(".")[:2])
KEY = bytes(range(1, 33))


def entry_of(array):
    return Entry(NUMPY_TYPES[str(array.dtype)], array.shape, array.tobytes())


def string_entry(text):
    return Entry("str", (0,), text.encode("utf-32-le") or bytes(4))


def saved(entries):
    """The list that save_checkpoint takes; bfloat16 is given as its upper bytes."""
    listed = []
    for name, entry in entries.items():
        if entry.type == "BFloat16":
            bits = np.frombuffer(entry.content, "u2").astype("u4") << 16
            tensor = Tensor(bits.view("f4").reshape(entry.shape)).astype(ms.bfloat16)
        else:
            kind = next(numpy for numpy, name in NUMPY_TYPES.items() if name == entry.type)
            tensor = Tensor(np.frombuffer(entry.content, kind).reshape(entry.shape))
        listed.append({"name": name, "data": tensor})
    return listed


def all_types():
    values = np.random.RandomState(7)
    found = {"p." + kind: entry_of(values.randint(0, 100, (3, 4)).astype(kind)) for kind in NUMPY_TYPES}
    found["p.scalar"] = entry_of(np.array(2.5, "float32"))
    found["p.one"] = entry_of(np.array([3.5], "float32"))
    if HAS_BFLOAT16:
        found["p.bfloat16"] = Entry("BFloat16", (3, 4), values.randint(0x3F00, 0x4700, 12).astype("u2").tobytes())
    return found


def base():
    values = np.random.RandomState(8)
    return {"a.weight": entry_of(values.standard_normal((4, 6)).astype("float32")),
            "b": entry_of(np.array(7, "int64")), "h": entry_of(np.arange(5).astype("float16"))}


def check(directory, path, entries, options=()):
    """reshardfs shows the file's tensors in both formats; safetensors hold no strings."""
    tensors = {name: entry for name, entry in entries.items() if entry.type != "str"}
    for suffix, expected in ((".ckpt", entries), (".safetensors", tensors)):
        out = directory / ("out" + suffix)
        reshardfs("export", path, out, *options)
        found = files.read(out)
        files.assert_equal(found, expected, out)


def wait_for(path):
    """What is saved in the background appears whole, under its name."""
    end = time.time() + 120
    while not path.exists():
        assert time.time() < end, "%s was not written" % path
        time.sleep(0.02)


def save(directory, entries, suffix, saved_as=None, **options):
    path = directory / ("saved." + suffix)
    if suffix == "safetensors":
        options["format"] = suffix
    save_checkpoint(saved(entries) if saved_as is None else saved_as, str(path), **options)
    wait_for(path)
    return path


# --- forms of save_checkpoint ------------------------------------------------------------------


def types(directory, suffix, **options):
    entries = all_types()
    if options.get("crc_check") and suffix == "safetensors":
        entries.pop("p.bfloat16", None)  # which MindSpore cannot save together with a CRC
    words = ["--check-crc"] if options.get("crc_check") else []
    check(directory, save(directory, entries, suffix, **options), entries, words)


def shapes(directory, suffix, background):
    """An empty tensor is in no .ckpt file, unless it was saved in the background."""
    entries = {"w": entry_of(np.ones((2, 2), "float32")), "s": entry_of(np.array(True)),
               "d5": entry_of(np.arange(32).reshape((2,) * 5).astype("int16")),
               "one": entry_of(np.ones((1, 1), "float64"))}
    empty = {"empty": entry_of(np.zeros((0, 4), "float32"))} if RELEASE > (2, 0) else {}
    path = save(directory, {**empty, **entries}, suffix, **({"async_save": True} if background else {}))
    out = directory / "out.safetensors"
    reshardfs("export", path, out)
    held = empty if background or suffix == "safetensors" else {}
    files.assert_equal(files.read(out), {**held, **entries}, out)


def names(directory, suffix):
    written = ["a-b", "0-x", "1-2-3", "\u4e2d\u6587.w", "a/b", "a b", "x" * 300, "crc_num", ".", "..", "a\tb", "CON"]
    entries = {name: entry_of(np.full((2,), number, "float32")) for number, name in enumerate(written)}
    check(directory, save(directory, entries, suffix), entries)


def background(directory, suffix, mode):
    entries = base()
    check(directory, save(directory, entries, suffix, async_save=mode), entries)


def appended(directory, suffix):
    numbers = {"epoch_num": 12, "big": 2 ** 40, "flag": True, "lr": 0.001}
    texts = {"name": "tiny \u4e2d\u6587", "empty": ""} if RELEASE > (2, 0) and suffix == "ckpt" else {}
    entries = base()
    path = save(directory, entries, suffix, append_dict={**numbers, **texts})
    entries.update({"epoch_num": entry_of(np.array(12, "int64")), "big": entry_of(np.array(2 ** 40, "int64")),
                    "flag": entry_of(np.array(True)), "lr": entry_of(np.array(0.001, "float32"))})
    entries.update({name: string_entry(text) for name, text in texts.items()})
    check(directory, path, entries)


def appended_tensors(directory, suffix):
    """Saved under the dictionary's key, whatever their own names."""
    generator = ms.Generator()
    generator.manual_seed(5)
    state = generator.get_state().asnumpy()
    entries = base()
    path = save(directory, entries, suffix, append_dict={
        "gen": generator, "t": Tensor(np.arange(3)), "p": Parameter(Tensor(np.ones(2, "float32")), name="own")})
    entries.update(gen=entry_of(state), t=entry_of(np.arange(3)), p=entry_of(np.ones(2, "float32")))
    check(directory, path, entries)


def encrypted(directory, mode, bits, background):
    key = KEY[:bits // 8]
    (directory / "key").write_bytes(key)
    entries = base()
    path = save(directory, entries, "ckpt", enc_key=key, enc_mode=mode,
                **({"async_save": True} if background else {}))
    check(directory, path, entries, ["--dec-key-file", directory / "key", "--dec-mode", mode])


def int4(directory, suffix):
    """Held as one byte an element; the type is kept."""
    values = np.array([[1, 2], [3, -4]], "int8")
    entries = {"x": Entry("Int4", (2, 2), values.tobytes()), "w": entry_of(np.ones(3, "float32"))}
    path = save(directory, entries, suffix, saved_as=[{"name": "x", "data": Tensor(values, dtype=ms.qint4x2)},
                                                      {"name": "w", "data": Tensor(np.ones(3, "float32"))}])
    check(directory, path, entries)


def map_parameter(directory):
    """MindSpore 2.0 writes three growing records of a map parameter; all else of the file can be shown."""
    from mindspore.experimental import MapParameter

    class Holder(nn.Cell):
        def __init__(self):
            super().__init__()
            self.table = MapParameter(key_dtype=ms.int32, value_dtype=ms.float32, value_shape=(3,), name="table")
            self.table.put(Tensor(np.array([5, 9, 2], "int32")), Tensor(np.ones((3, 3), "float32")))
            self.weight = Parameter(Tensor(np.ones(2, "float32")), name="weight")

    path = save(directory, {}, "ckpt", saved_as=Holder())
    check(directory, path, {"weight": entry_of(np.ones(2, "float32"))}, ["--exclude", "table"])


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 3)
        self.out = nn.Dense(3, 1)

    def construct(self, inputs):
        return self.out(self.dense(inputs))


def network_values(network):
    # A copy: asnumpy() may show the memory that training changes.
    return {parameter.name: entry_of(np.array(parameter.asnumpy())) for parameter in network.get_parameters()}


def cell(directory, suffix, chosen=False):
    """A network with its optimizer; `chosen`: only what a function chooses."""
    network = Network()
    training = nn.TrainOneStepCell(network, nn.Adam(network.trainable_params()))
    options = {"choice_func": lambda name: name.startswith("dense.")} if chosen else {}
    path = save(directory, {}, suffix, saved_as=network if chosen else training, **options)
    entries = network_values(network if chosen else training)
    if chosen:
        entries = {name: entry for name, entry in entries.items() if name.startswith("dense.")}
    check(directory, path, entries)


# --- a run of ModelCheckpoint ------------------------------------------------------------------


def run_directory(directory, suffix):
    """Two epochs of four steps, of which every second is saved: reshardfs shows the last, and each by its name."""
    import mindspore.dataset as dataset
    from mindspore.train import Callback, CheckpointConfig, Model, ModelCheckpoint

    class Keep(Callback):
        values = {}

        def on_train_step_end(self, run_context):
            told = run_context.original_args()
            step = (told.cur_step_num - 1) % told.batch_num + 1
            self.values["%d_%d" % (told.cur_epoch_num, step)] = network_values(told.train_network)

    network = Network()
    batches = [(np.ones((2, 4), "float32") * step, np.ones((2, 1), "float32")) for step in range(4)]
    model = Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), learning_rate=0.1))
    config = CheckpointConfig(save_checkpoint_steps=2, keep_checkpoint_max=10, integrated_save=False,
                              **({"format": suffix} if suffix != "ckpt" else {"crc_check": True}))
    run, keep = directory / "run", Keep()
    # The callback that keeps the values comes first: saving may wait.
    model.train(2, dataset.GeneratorDataset(batches, ["x", "y"], shuffle=False), dataset_sink_mode=False,
                callbacks=[keep, ModelCheckpoint(prefix="tr", directory=str(run), config=config)])
    written = sorted(path.name for path in run.glob("*." + suffix))
    assert written == ["tr-%s.%s" % (step, suffix) for step in ("1_2", "1_4", "2_2", "2_4")], written
    assert keep.values["1_2"] != keep.values["2_4"]
    for step, options in (("2_4", []), ("1_2", ["--step", "1_2"]), ("1_4", ["--step", "1_4"])):
        out = directory / ("out%s.safetensors" % step)
        reshardfs("export", run, out, *options)
        held = {name: entry for name, entry in files.read(out).items() if name in keep.values[step]}
        files.assert_equal(held, keep.values[step], out)
