"""The engine as one program: its functions are made into LLVM's intermediate code one by one, and into machine code
once, all together, at each function that Python calls.

Numba by itself optimises every function with all that it calls and makes machine code of it, and does so again for the
functions that call that one: each line of code some four times here. So two kinds of dispatchers take the place of its
own, both made when they are first asked for:

- A `_Part` is what compiled code calls. Its library holds bare intermediate code; nothing is optimised.
- An `_Entry` is what Python calls. Its library takes in every part that it reaches, makes all but itself private, so
  that LLVM can drop, inline and specialise as it likes, and is optimised once.

Both are kept on disk (`code_cache`): a part with its own code and the names of what it calls, an entry as machine code
alone. A warm start loads entries only; after a change only the parts that use the changed file are compiled.

What few programs need is compiled when one first does (`returns` of a `Compiled`): its part is a `stub`, which jumps to
an address that it looks up, and asks for it to be loaded if there is none yet.
"""

from __future__ import annotations

import hashlib
import importlib
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, update_wrapper
from typing import Any

import llvmlite.binding as ll
from llvmlite.ir.instructions import LoadInstr
from numba.core import serialize, sigutils, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, compile_result
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.types.misc import unliteral
from numba.core.typing import signature
from numba.np import arrayobj

from gpusim.engine.state import code_cache, stubs
from gpusim.engine.state.table import SHAPES, KnownCodeType, depends_on_shape


class Compiled:
    """A function of the engine: called from Python it runs as an entry, called from compiled code as a part."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], returns: types.Type | None = None):
        """returns: what a function gives that is compiled when it is first called, None for others."""
        update_wrapper(self, function)
        self.function = function
        self.returns = returns
        self.options = {"nopython": True, **options}

    @cached_property
    def entry(self) -> Any:
        return _Entry(self)

    @cached_property
    def part(self) -> Any:
        return _Part(self)

    @property
    def _numba_type_(self) -> types.Type:
        return types.Dispatcher(self.part)

    def __call__(self, *arguments: Any) -> Any:
        return self.entry(*arguments)

    def load(self) -> None:
        """Compile it, or load it from the disk, for all callers that this process has seen, if it is on demand."""
        stubs.load(self.function.__module__, self.function.__qualname__)

    @property
    def local(self) -> bool:
        """True if it is defined inside a function, so that nobody else can find it by its name."""
        return "<locals>" in self.function.__qualname__


class _PartLibrary(JITCodeLibrary):
    """Intermediate code of one part as it was written, and the libraries and parts that it calls."""

    def __init__(self, codegen: Any, name: str):
        super().__init__(codegen, name)
        self.names: tuple[Any, ...] = ()  # module, name and argument types of the parts that it calls
        self.stub: tuple[str, str, Any] | None = None  # the same of what it stands for

    def add_llvm_module(self, module: Any) -> None:
        self._final_module.link_in(module)

    def finalize(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def called(self) -> Iterator[JITCodeLibrary]:
        yield from self._linking_libraries
        for module, name, arguments in self.names:
            yield _found(module, name).part.library(arguments)


class _EntryLibrary(JITCodeLibrary):
    """Machine code of an entry and of all that it calls."""

    def add_llvm_module(self, module: Any) -> None:
        self._final_module.link_in(module)

    def finalize(self) -> None:
        for watcher in code_cache.watchers:
            watcher(f"machine code of {self.name}")
        program = self._final_module
        program.data_layout = self._codegen._data_layout
        own = {function.name for function in program.functions if not function.is_declaration}
        seen: dict[Any, None] = {}
        left = list(self._linking_libraries)
        while left:
            library = left.pop()
            if library not in seen:
                seen[library] = None
                left += library.called() if isinstance(library, _PartLibrary) else ()
        # A callee of Numba's own is taken in only where something refers to it already: the parts come first.
        for library in sorted(seen, key=lambda each: not isinstance(each, _PartLibrary)):
            of_part = isinstance(library, _PartLibrary)
            program.link_in(library._final_module if of_part else library._get_module_for_linking(), preserve=True)
        for function in program.functions:
            if not function.is_declaration and function.name not in own:
                function.linkage = ll.Linkage.internal
        self.stubs = [library.stub for library in seen if isinstance(library, _PartLibrary) and library.stub]
        for stub in self.stubs:
            stubs.provide(*stub)
        level = 1 if self._insert_known_shapes(program, own, seen) else 3
        builder = ll.create_pass_builder(self._codegen._tm, ll.create_pipeline_tuning_options(speed_level=level))
        builder.getModulePassManager().run(program, builder)
        program.verify()
        self._finalize_final_module()

    def _insert_known_shapes(self, program: Any, own: set[str], parts: Iterable[JITCodeLibrary]) -> bool:
        """Put what depends on a known shape in place of its calls, if the program has some: of a function with a
        hundred cases a shape leaves one. Returns whether it has."""
        known = [each for each in program.global_variables if each.name == SHAPES and not each.is_declaration]
        if not known:
            return False
        known[0].linkage = ll.Linkage.internal
        depending = {
            library.owner[0].part.overloads[library.owner[1]].fndesc.llvm_func_name
            for library in parts
            if isinstance(library, _PartLibrary) and not library.stub and depends_on_shape(library.owner[1])
        }
        passes = ll.create_new_module_pass_manager()
        for add in (
            *(passes.add_always_inliner_pass, passes.add_sroa_pass, passes.add_instruction_combine_pass),
            *(passes.add_simplify_cfg_pass, passes.add_global_dead_code_eliminate_pass),
        ):
            add()
        while True:  # call by call: what is left of a function when its cases are gone calls little
            text = "".join(str(program.get_function(name)) for name in own)
            called = depending.intersection(re.findall(r"call [^@]*@\"?([^\"(]+)", text))
            if not called:
                return True
            for name in called:
                program.get_function(name).add_function_attribute("alwaysinline")
            depending -= called
            passes.run(program, ll.create_pass_builder(self._codegen._tm, ll.create_pipeline_tuning_options()))

    def reduced(self) -> tuple[Any, ...]:
        """Return what is kept of it: machine code, and the names that are defined there."""
        both = (*self._final_module.functions, *self._final_module.global_variables)
        names = [each.name for each in both if not each.is_declaration and each.linkage != ll.Linkage.internal]
        return self._get_compiled_object(), names, self.stubs

    @classmethod
    def restored(cls, codegen: Any, name: str, code: bytes, names: list[str], stubs_called: list[Any]) -> _EntryLibrary:
        library = cls(codegen, name)
        for stub in stubs_called:
            stubs.provide(*stub)
        library.enable_object_caching()
        library._set_compiled_object(code)
        library._finalize_final_module()
        codegen._engine._defined_symbols |= set(names)
        return library


#: Passes of Numba that find nothing to do in the engine, which has no closures, lifted loops or array expressions.
_NOT_NEEDED = {
    *("WithLifting", "InlineClosureLikes", "MakeFunctionToJitFunction", "InlineInlinables", "InlineOverloads"),
    *("LiteralUnroll", "LiteralPropagationSubPipelinePass", "FindLiterallyCalls", "NopythonRewrites"),
    "RewriteDynamicRaises",
}


class _Pipeline(Compiler):
    """Numba's, into a library of ours, with names that are the same in every process."""

    def define_pipelines(self) -> Any:
        state = self.state
        part = state.flags.no_cpython_wrapper
        library_class = _PartLibrary if part else _EntryLibrary
        state.library = library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        if "<locals>" not in state.func_id.func_qualname:
            name = f"{state.func_id.modname}.{state.func_id.func_qualname}"
            state.func_id.unique_id = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
            state.func_id.unique_name = f"{state.func_id.func_qualname}${state.func_id.unique_id}"
        state.flags.no_compile = part
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [(each, told) for each, told in pipeline.passes if each.__name__ not in _NOT_NEEDED]
        return pipelines


def _load_item(context: Any, builder: Any, kind: types.Array, pointer: Any) -> Any:
    """Numba's, and an element of an array that is only read is known not to change: one load is enough."""
    loaded = context.unpack_value(builder, kind.dtype, pointer, align=None if kind.aligned else 1)
    if not kind.mutable and isinstance(loaded, LoadInstr):
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


@contextmanager
def _plain_arrays() -> Iterator[None]:
    """While this lasts, an index is compiled as it is. For Numba a negative one counts from the end, which costs every
    access some instructions; the engine has none, and `bounds` finds one that would be."""
    usual = arrayobj.fix_integer_index, arrayobj.load_item
    arrayobj.load_item = _load_item
    arrayobj.fix_integer_index = lambda context, builder, kind, index, _size: context.cast(
        builder, index, kind, types.intp
    )
    try:
        yield
    finally:
        arrayobj.fix_integer_index, arrayobj.load_item = usual


class _Dispatcher(Dispatcher):
    """Numba's, with our way to keep what was compiled."""

    targetdescr = cpu_target
    kind: str

    def __init__(self, owner: Compiled, options: dict[str, Any]):
        super().__init__(owner.function, targetoptions=owner.options | options, pipeline_class=_Pipeline)
        self.owner = owner

    def compile(self, sig: Any) -> Any:
        """Load or compile the function for these types. Returns what it is called by."""
        arguments, returned = sigutils.normalize_signature(sig)
        arguments = tuple(arguments)
        with global_compiler_lock, code_cache.without_collector(), _plain_arrays():
            if arguments not in self.overloads:
                file = None if self.owner.local else code_cache.file_of(self.py_func, self.kind, arguments)
                result = self._restored(pickle.loads(file.read_bytes())) if file and file.exists() else None
                if result is None:
                    result = self._made(arguments, returned)
                    if file:
                        result.fndesc.typemap = result.fndesc.calltypes = None
                        code_cache.keep(file, serialize.dumps(self._reduced(result)))
                self.add_overload(result)
            return self.overloads[arguments].entry_point

    def _made(self, arguments: tuple[types.Type, ...], returned: types.Type | None) -> CompileResult:
        for watcher in code_cache.watchers:
            watcher(self.py_func.__name__)
        return self._compiler.compile(arguments, returned)  # type: ignore[attr-defined]

    def _reduced(self, result: CompileResult) -> tuple[Any, ...]:
        raise NotImplementedError

    def _restored(self, kept: tuple[Any, ...]) -> CompileResult:
        raise NotImplementedError

    def _result(self, library: Any, fndesc: Any, signature: Any, environment: Any, entry_point: Any) -> CompileResult:
        own = {"library": library, "fndesc": fndesc, "signature": signature, "environment": environment}
        own |= {"typing_context": self.typingctx, "target_context": self.targetctx, "entry_point": entry_point}
        return compile_result(**own, objectmode=False, lifted=(), reload_init=[])


class _Part(_Dispatcher):
    kind = "part"

    def __init__(self, owner: Compiled):
        super().__init__(owner, {"no_cpython_wrapper": True, "no_cfunc_wrapper": True})

    def library(self, arguments: tuple[types.Type, ...]) -> _PartLibrary:
        self.compile(arguments)
        return self.overloads[arguments].library

    def _made(self, arguments: tuple[types.Type, ...], returned: types.Type | None) -> CompileResult:
        if self.owner.returns is None or isinstance(arguments[0], KnownCodeType):
            return super()._made(arguments, returned)
        library = _PartLibrary(self.targetctx.codegen(), self.owner.function.__name__)
        fndesc = stubs.write(self.targetctx, library, self.py_func, arguments, self.owner.returns)
        library.finalize()
        return self._result(library, fndesc, signature(self.owner.returns, *arguments), None, library)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return Numba's template; numbers that are written at the call are any numbers: one specialisation for all."""
        return super().get_call_template([unliteral(each) for each in args], kws)

    def add_overload(self, result: CompileResult) -> None:
        result = result._replace(entry_point=result.library)  # no machine code: the key by which a call finds it
        result.library.owner = (self.owner, tuple(result.signature.args))
        self.targetctx.insert_user_function(result.library, result.fndesc, [result.library])
        self.overloads[tuple(result.signature.args)] = result

    def _reduced(self, result: CompileResult) -> tuple[Any, ...]:
        names, others = [], []
        for library in dict.fromkeys(result.library._linking_libraries):
            if isinstance(library, _PartLibrary) and not library.owner[0].local:
                owner, arguments = library.owner
                names.append((owner.function.__module__, owner.function.__qualname__, arguments))
            else:
                others.append((library.name, library._get_module_for_linking().as_bitcode()))
        library = result.library
        code = library._final_module.as_bitcode()
        return library.name, code, names, others, library.stub, result.fndesc, result.signature

    def _restored(self, kept: tuple[Any, ...]) -> CompileResult:
        name, code, names, others, stub, fndesc, signature = kept
        library = _PartLibrary(self.targetctx.codegen(), name)
        library._final_module = ll.parse_bitcode(code)
        library.names, library.stub = names, stub
        for other, bitcode in others:
            library._linking_libraries.append(_ordinary(library.codegen, other, bitcode))
        library.finalize()
        return self._result(library, fndesc, signature, None, library)


class _Entry(_Dispatcher):
    kind = "entry"

    def __init__(self, owner: Compiled):
        super().__init__(owner, {})

    def address(self, arguments: tuple[types.Type, ...]) -> int:
        """Return where its machine code for these types begins, without the wrapper for Python."""
        self.compile(arguments)
        result = self.overloads[arguments]
        return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)

    def _reduced(self, result: CompileResult) -> tuple[Any, ...]:
        return result.library.name, result.library.reduced(), result.fndesc, result.signature, result.environment

    def _restored(self, kept: tuple[Any, ...]) -> CompileResult:
        name, code, fndesc, signature, environment = kept
        library = _EntryLibrary.restored(self.targetctx.codegen(), name, *code)
        run = self.targetctx.get_executable(library, fndesc, environment)
        return self._result(library, fndesc, signature, environment, run)


_ORDINARY: dict[bytes, JITCodeLibrary] = {}


def _ordinary(codegen: Any, name: str, bitcode: bytes) -> JITCodeLibrary:
    """A library of Numba's own functions that a part calls, for linking only."""
    if bitcode not in _ORDINARY:
        library = JITCodeLibrary(codegen, name)
        library._shared_module = ll.parse_bitcode(bitcode)
        library._finalized = True
        _ORDINARY[bitcode] = library
    return _ORDINARY[bitcode]


def _found(module: str, name: str) -> Compiled:
    found: Compiled = getattr(importlib.import_module(module), name)
    return found
