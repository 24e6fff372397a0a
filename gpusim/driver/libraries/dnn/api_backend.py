"""cuDNN: handles, versions, and descriptors of the backend interface (cudnn_graph.h, version 9.24)."""

from __future__ import annotations

import struct
from functools import partial

from gpusim.driver.caller import caller, get_pointers, put_pointer, put_text, read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.state import Handle, add, destroy, find, set_stream, status_text, tell_property
from gpusim.driver.libraries.dnn import graph as G
from gpusim.driver.libraries.dnn.convolve import convolve, plan
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver

_VERSION, _NUMBER, _RUNTIME = (9, 24, 0), 92400, 13000
_BYTES = {2: 1, 3: 8, 4: 4, 5: 8, 24: 1, 26: 16, **dict.fromkeys((0, 6, G.DESCRIPTOR), 8)}
"""Bytes of an element by cudnnBackendAttributeType_t, 4 for those that are not named."""


@entry("cudnnBackendSetAttribute", "p i i q p", anytime=True)
def set_attribute(driver: Driver, handle: int, name: int, kind: int, count: int, place: int) -> None:
    found = find(driver, handle, G.BackendDescriptor)
    fail_if(found.final or not place, ResultCode.INVALID_VALUE)
    found.attributes[name] = read(place, count * _BYTES.get(kind, 4)) if count else b""
    if kind == G.DESCRIPTOR:
        found.parts[name] = [find(driver, each, G.BackendDescriptor) for each in get_pointers(place, count)]


@entry("cudnnBackendGetAttribute", "p i i q p p", anytime=True)
def get_attribute(driver: Driver, handle: int, name: int, kind: int, room: int, counted: int, place: int) -> None:
    """Descriptors are given in those that the caller has made for them."""
    found = find(driver, handle, G.BackendDescriptor)
    fail_if(not found.final, ResultCode.ILLEGAL_STATE)
    nbytes = _BYTES.get(kind, 4)
    if kind == G.DESCRIPTOR:
        parts = found.parts.get(name, [])
        put_pointer(counted, min(room, len(parts)) if place else len(parts))  # callers' lists have no more room
        for each, made in zip(get_pointers(place, min(room, len(parts))) if place else (), parts, strict=False):
            into = find(driver, each, G.BackendDescriptor)
            fail_if(into.kind != made.kind, ResultCode.INVALID_VALUE)
            into.attributes, into.parts, into.final = made.attributes, made.parts, True
        return
    value = found.attributes.get(name, b"")
    put_pointer(counted, len(value) // nbytes)
    if place and room:
        caller().write(place, value[: room * nbytes])


@entry("cudnnBackendFinalize", "p", anytime=True)
def finalize(driver: Driver, handle: int) -> None:
    """Raises INVALID_VALUE, NOT_SUPPORTED."""
    found = find(driver, handle, G.BackendDescriptor)
    if found.kind == G.HEURISTICS:
        found.parts[G.RESULTS] = G.engine_configs(driver, found)
        found.final = True
    if found.kind == G.PLAN:
        needed = sum(plan(driver, G.convolution(found), G.engine_of(found)).nbytes)
        found.attributes[G.WORKSPACE_BYTES] = struct.pack("<q", needed)
    found.final = True


@entry("cudnnBackendExecute", "p p p")
def execute(driver: Driver, handle: int, plan: int, pack: int) -> None:
    """Raises INVALID_VALUE, NOT_SUPPORTED."""
    stream = find(driver, handle, Handle).stream
    plan_of, given = (find(driver, each, G.BackendDescriptor) for each in (plan, pack))
    fail_if(plan_of.kind != G.PLAN or not (plan_of.final and given.final), ResultCode.ILLEGAL_STATE)
    numbers, places = given.numbers(G.UNIQUE_IDS), given.numbers(G.POINTERS)
    fail_if(len(numbers) != len(places), ResultCode.INVALID_VALUE)
    workspace = given.address(G.WORKSPACE)
    addresses = dict(zip(numbers, places, strict=True))
    convolve(driver, stream, G.convolution(plan_of), G.engine_of(plan_of), addresses, workspace)


entries(
    ("cudnnGetProperty", "i p", partial(tell_property, _VERSION)),
    ("cudnnGetVersion cudnnGetMaxDeviceVersion", "=", lambda driver: _NUMBER),
    ("cudnnGetCudartVersion", "=", lambda driver: _RUNTIME),
    ("cudnnGetErrorString", "&i", partial(status_text, "CUDNN")),
    ("cudnnGetLastErrorString", "p q", lambda driver, place, room: put_text(place, room, "") if room else None),
    ("cudnnDestroy", "p", partial(destroy, Handle)),
    ("cudnnBackendCreateDescriptor", "i *p", lambda driver, kind: add(driver, G.BackendDescriptor(kind=kind))),
    ("cudnnBackendDestroyDescriptor", "p", partial(destroy, G.BackendDescriptor)),
    anytime=True,
)
entries(
    ("cudnnCreate", "*p", lambda driver: add(driver, Handle())),
    ("cudnnSetStream", "p p", set_stream),
    ("cudnnGetStream", "p *p", lambda driver, handle: find(driver, handle, Handle).stream),
)
