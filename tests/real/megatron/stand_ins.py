# SPDX-License-Identifier: Apache-2.0
"""Lets Megatron-Core run on a CPU: to be imported before it.

In place of Transformer Engine, which needs a GPU, are modules with the same parameters, names and extra states, in
plain arithmetic. What asks for a GPU gets the CPU. Checkpoints are written and read by Megatron-Core alone."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import multiprocessing
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.multiprocessing
from torch import nn
from torch.nn import functional
from torch.utils._device import _device_constructors

ENGINE_VERSION = "2.8.0"


class Engine(nn.Module):
    """A module of Transformer Engine has an extra state, which is empty without 8-bit training."""

    def get_extra_state(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        self.extra = state

    def set_tensor_parallel_group(self, group: Any) -> None:
        pass


def zeros(*shape: int, type_: torch.dtype | None) -> nn.Parameter:
    return nn.Parameter(torch.zeros(*shape, dtype=type_ or torch.float32))


def root_mean_square(inputs: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    whole = inputs.float()
    return (whole * torch.rsqrt(whole.pow(2).mean(-1, keepdim=True) + eps)).to(inputs.dtype) * weight


def part_of(inputs: int, outputs: int, mode: str | None, ranks: int) -> tuple[int, int]:
    return inputs // (ranks if mode == "row" else 1), outputs // (ranks if mode == "column" else 1)


class Linear(Engine):
    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, parallel_mode: str | None = None,
                 tp_size: int = 1, params_dtype: torch.dtype | None = None, return_bias: bool = False,
                 init_method: Callable[[torch.Tensor], Any] | None = None, **_: Any) -> None:
        super().__init__()
        inputs, outputs = part_of(in_features, out_features, parallel_mode, tp_size)
        self.weight = zeros(outputs, inputs, type_=params_dtype)
        if init_method:
            init_method(self.weight.data)
        if bias:
            self.bias = zeros(outputs, type_=params_dtype)
        self.use_bias, self.te_return_bias = bias, return_bias
        self.tp_size, self.parallel_mode = tp_size, parallel_mode
        self.in_features, self.out_features = in_features, out_features

    def forward(self, inputs: torch.Tensor, is_first_microbatch: Any = None, **_: Any) -> Any:
        outputs = functional.linear(inputs, self.weight)
        bias = self.bias if self.use_bias else None
        if self.te_return_bias:
            return outputs, bias
        return outputs if bias is None else outputs + bias


class LayerNormLinear(Linear):
    def __init__(self, in_features: int, out_features: int, *, eps: float = 1e-5, normalization: str = "LayerNorm",
                 zero_centered_gamma: bool = False, **words: Any) -> None:
        super().__init__(in_features, out_features, **words)
        assert normalization == "RMSNorm", normalization
        self.eps, self.center = eps, int(zero_centered_gamma)
        self.layer_norm_weight = nn.Parameter(torch.ones(in_features, dtype=words.get("params_dtype")))

    def forward(self, inputs: torch.Tensor, is_first_microbatch: Any = None, **_: Any) -> Any:
        return super().forward(root_mean_square(inputs, self.layer_norm_weight + self.center, self.eps))


class GroupedLinear(Engine):
    def __init__(self, num_gemms: int, in_features: int, out_features: int, *, bias: bool = True,
                 parallel_mode: str | None = None, tp_size: int = 1, params_dtype: torch.dtype | None = None,
                 init_method: Callable[[torch.Tensor], Any] | None = None, **_: Any) -> None:
        super().__init__()
        assert not bias
        inputs, outputs = part_of(in_features, out_features, parallel_mode, tp_size)
        self.fp8_meta = {"fp8_checkpoint": False}
        self.fp8 = self.fp8_calibration = False
        self.num_gemms, self.use_bias = num_gemms, bias
        for number in range(num_gemms):
            weight = zeros(outputs, inputs, type_=params_dtype)
            if init_method:
                init_method(weight.data)
            setattr(self, f"weight{number}", weight)

    def init_fp8_metadata(self, num_gemms: int = 1) -> None:
        pass

    def forward(self, inputs: torch.Tensor, m_splits: Any, **_: Any) -> Any:
        parts = torch.split(inputs, [int(count) for count in m_splits])
        outputs = torch.cat([functional.linear(part, getattr(self, f"weight{number}"))
                             for number, part in enumerate(parts)])
        return (outputs, [None]) if getattr(self, "te_return_bias", False) else outputs


class RMSNorm(Engine):
    def __init__(self, hidden_size: int | None = None, eps: float = 1e-5, normalized_shape: int | None = None,
                 zero_centered_gamma: bool = False, **words: Any) -> None:
        super().__init__()
        self.eps, self.center = eps, int(zero_centered_gamma)
        type_ = words.get("dtype") or words.get("params_dtype")
        self.weight = nn.Parameter(torch.ones(hidden_size or normalized_shape, dtype=type_))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return root_mean_square(inputs, self.weight + self.center, self.eps)


class LayerNorm(Engine):
    def __init__(self, normalized_shape: int, eps: float = 1e-5, params_dtype: torch.dtype | None = None,
                 **_: Any) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(normalized_shape, dtype=params_dtype))
        self.bias = zeros(normalized_shape, type_=params_dtype)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(inputs, self.weight.shape, self.weight, self.bias, self.eps)


class DotProductAttention(Engine):
    def __init__(self, *_: Any, softmax_scale: float | None = None, **__: Any) -> None:
        super().__init__()
        self.scale = softmax_scale

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.setdefault(f"{prefix}_extra_state", torch.empty(0, dtype=torch.uint8))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        repeats = query.shape[2] // key.shape[2]
        key, value = key.repeat_interleave(repeats, 2), value.repeat_interleave(repeats, 2)
        weights = torch.einsum("sbhd,tbhd->bhst", query.float(), key.float())
        weights = weights * (self.scale or query.shape[-1] ** -0.5)
        length = query.shape[0]
        future = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        weights = weights.masked_fill(future, float("-inf")).softmax(-1)
        outputs = torch.einsum("bhst,tbhd->sbhd", weights, value.float()).to(query.dtype)
        return outputs.reshape(length, outputs.shape[1], -1)


class FusedAdam(torch.optim.Optimizer):
    """AdamW with the states and groups of Transformer Engine's: the step is in the group."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, **_: Any) -> None:
        super().__init__(params, {"lr": lr, "bias_correction": True, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient, state = parameter.grad.float(), self.state[parameter]
                for name in ("exp_avg", "exp_avg_sq"):
                    state.setdefault(name, torch.zeros_like(parameter, dtype=torch.float32))
                state["exp_avg"].mul_(first).add_(gradient, alpha=1 - first)
                state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
                update = state["exp_avg"] / (state["exp_avg_sq"].sqrt() + group["eps"])
                parameter.add_((-group["lr"] * (update + group["weight_decay"] * parameter.float())).to(parameter.dtype))


def general_gemm(one: torch.Tensor, other: torch.Tensor, out_dtype: torch.dtype, layout: str,
                 bias: torch.Tensor | None = None, **_: Any) -> list[torch.Tensor]:
    assert layout == "TN", layout
    return [functional.linear(other, one, bias).to(out_dtype)]


MODULES = {"transformer_engine.pytorch": (Linear, LayerNormLinear, GroupedLinear, LayerNorm, RMSNorm,
                                           DotProductAttention),
           "transformer_engine.pytorch.cpp_extensions": (general_gemm,),
           "transformer_engine.pytorch.optimizers": (FusedAdam,)}
PACKAGES = ("pytorch", "common", "recipe", "distributed", "module", "ops", "fp8", "float8_tensor", "tensor",
            "cpp_extensions", "attention", "utils", "quantization", "base")


class Nameless(type):
    """What Megatron-Core only names: a class that nothing is done with."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return nameless(name)


def nameless(name: str) -> Any:
    return Nameless(name, (), {"__init__": lambda self, *_, **__: None,
                               "apply": staticmethod(lambda *_, **__: None),
                               "is_fp8_enabled": staticmethod(lambda *_: False)})


class EngineModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for known in MODULES.get(self.__name__, ()):
            if known.__name__ == name:
                return known
        # Megatron-Core has its own, which it takes where these are missing.
        if self.__name__.endswith(".optimizers") or name.startswith(("multi_tensor", "Fused")):
            raise AttributeError(name)
        if name == "get_cpu_offload_context":
            return lambda *_, **__: (contextlib.nullcontext(), lambda value: value)
        if name in ("SplitAlongDim", "_SplitAlongDim"):
            return types.SimpleNamespace(apply=lambda value, dim, sizes: torch.split(
                value, sizes if isinstance(sizes, int) else list(sizes), dim=dim))
        if name in PACKAGES:
            return importlib.import_module(f"{self.__name__}.{name}")
        setattr(self, name, nameless(name))
        return getattr(self, name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] not in ("transformer_engine", "transformer_engine_torch") or ".optimizers." in name:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = EngineModule(spec.name)
        module.__path__ = []
        module.__version__ = ENGINE_VERSION
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Stream:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: Stream()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def is_gpu(value: Any) -> bool:
    return (isinstance(value, str) and value.startswith("cuda")) or (
        isinstance(value, torch.device) and value.type == "cuda")


def on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    def changed(*values: Any, **words: Any) -> Any:
        words.pop("strides", None)  # Megatron-Core 0.19 hands on what tables have since PyTorch 2.15
        if is_gpu(words.get("device")):
            words["device"] = "cpu"
        return function(*("cpu" if is_gpu(value) else value for value in values), **words)

    return changed


def type_of(real: Callable[..., Any]) -> Callable[..., Any]:
    """Megatron-Core compares with names such as torch.cuda.FloatTensor."""
    def changed(self: torch.Tensor, *values: Any, **words: Any) -> Any:
        result = real(self, *values, **words)
        return result.replace("torch.", "torch.cuda.", 1) if isinstance(result, str) else result

    return changed


def as_cpu() -> None:
    _device_constructors()  # remembers the functions that are replaced here
    cuda = torch.cuda
    cuda.Stream = cuda.Event = Stream
    for name in ("current_stream", "default_stream", "stream"):
        setattr(cuda, name, lambda *_: Stream())
    for name in ("synchronize", "set_device", "set_rng_state"):
        setattr(cuda, name, lambda *_, **__: None)
    cuda.nvtx.range_push = cuda.nvtx.range_pop = lambda *_, **__: None
    cuda.current_device = lambda: "cpu"
    cuda.device_count = lambda: 1
    cuda.get_rng_state = lambda *_: torch.zeros(16, dtype=torch.uint8)
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.get_device_properties = lambda *_: types.SimpleNamespace(
        major=9, minor=0, multi_processor_count=132, total_memory=1 << 36, name="cpu")
    torch.Tensor.cuda = nn.Module.cuda = lambda self, *_, **__: self
    torch.Tensor.record_stream = lambda *_: None
    torch.Tensor.to = on_cpu(torch.Tensor.to)
    torch.Tensor.type = type_of(torch.Tensor.type)
    for name in ("tensor", "zeros", "ones", "empty", "full", "arange", "rand", "randn", "empty_like", "zeros_like",
                 "linspace", "as_tensor"):
        setattr(torch, name, on_cpu(getattr(torch, name)))
    torch.compile = lambda function=None, **_: function if function else lambda other: other
    # The writer of torch_dist starts its workers anew, which imports PyTorch again: forked, they write the same.
    torch.multiprocessing.get_context = lambda _=None: multiprocessing.get_context("fork")


as_cpu()
sys.meta_path.insert(0, Finder())
