"""Tensors out of messages and into them, without loss."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from . import protocol
from .target import Spec, Split, TensorCase, Unsupported

_KINDS = {protocol.FLOAT64: torch.float64, protocol.UINT8: torch.uint8}


def case_from(message: protocol.Message) -> TensorCase:
    """The case of a request; `logps` is a leaf that requires a gradient.

    Raises `Unsupported` when this torch lacks the dtype or the device.
    """
    header = message.header
    dtype = getattr(torch, header["dtype"], None)
    if not isinstance(dtype, torch.dtype):
        raise Unsupported(f"dtype {header['dtype']!r} is not known to torch {torch.__version__}")
    device = torch.device(header["device"])
    if device.type == "cuda" and not torch.cuda.is_available():
        raise Unsupported(f"device {header['device']!r} is not available to torch {torch.__version__}")

    def tensor(name: str, kind: torch.dtype) -> Tensor | None:
        place = message.places.get(name)
        if place is None:
            return None
        raw = torch.frombuffer(message.payload, dtype=_KINDS[place.kind], count=place.items, offset=place.offset)
        # A copy, so that every tensor has a storage of its own.
        return raw.to(device=device, dtype=kind, copy=True).view(place.shape)

    logps = tensor("logps", dtype)
    advantages = tensor("advantages", dtype)
    mask = tensor("mask", torch.bool)
    if logps is None or advantages is None or mask is None:
        raise protocol.ProtocolError("a case needs logps, advantages and mask")
    return TensorCase(
        dtype=dtype,
        device=device,
        logps=logps.requires_grad_(),
        old_logps=tensor("old_logps", dtype),
        ref_logps=tensor("ref_logps", dtype),
        advantages=advantages,
        mask=mask,
        spec=Spec(**header["spec"]),
        split=Split(**header["split"]),
        sampling_logps=tensor("sampling_logps", dtype),
        importance_ratio=tensor("importance_ratio", dtype),
    )


def packed(name: str, tensor: Tensor) -> protocol.Tensor:
    """A floating-point tensor as it travels."""
    return protocol.Tensor(name, protocol.FLOAT64, tensor.shape, _bytes(tensor.to(torch.float64)))


class Inputs:
    """The tensors of a case as they were when it was made, to the bit: a NaN equals itself, -0 differs from 0."""

    def __init__(self, case: TensorCase) -> None:
        self._tensors = case.tensors
        self._before = {name: _content(tensor) for name, tensor in self._tensors.items()}
        self._versions = self._counted()

    @property
    def were_written(self) -> bool:
        """Whether torch saw one of them written to, which it does not through `.data`."""
        return self._counted() != self._versions

    @property
    def changed(self) -> str | None:
        """The name of the first that is not what it was, or None."""
        changed = (name for name, tensor in self._tensors.items() if _content(tensor) != self._before[name])
        return next(changed, None)

    def _counted(self) -> list[int]:
        return [tensor._version for tensor in self._tensors.values()]


def _content(tensor: Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    return tensor.dtype, tensor.shape, _bytes(tensor)


def _bytes(tensor: Tensor) -> bytes:
    """The numbers of a tensor in row-major order."""
    if not tensor.is_cpu or not tensor.is_contiguous() or tensor.is_neg():
        tensor = tensor.detach().cpu().contiguous().resolve_neg()
    # Read in place: a copy by torch takes several times as long where there are few. No place where there is none.
    place = tensor.data_ptr()
    return ctypes.string_at(place, tensor.numel() * tensor.element_size()) if place else b""
