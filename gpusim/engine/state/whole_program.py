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
"""

from __future__ import annotations

import hashlib
import importlib
import pickle
from collections.abc import Callable, Iterator
from functools import cached_property, update_wrapper
from typing import Any

import llvmlite.binding as ll
from numba.core import serialize, sigutils, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, compile_result
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

from gpusim.engine.state import code_cache


class Compiled:
    """A function of the engine: called from Python it runs as an entry, called from compiled code as a part."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        update_wrapper(self, function)
        self.function = function
        self.options = {"nopython": True, **options}

    @cached_property
    def entry(self) -> _Entry:
        return _Entry(self)

    @cached_property
    def part(self) -> _Part:
        return _Part(self)

    @property
    def _numba_type_(self) -> types.Type:
        return self.part._type

    def __call__(self, *arguments: Any) -> Any:
        return self.entry(*arguments)

    @property
    def local(self) -> bool:
        """Whether it is defined inside a function, so that nobody else can find it by its name."""
        return "<locals>" in self.function.__qualname__


class _PartLibrary(JITCodeLibrary):
    """Intermediate code of one part as it was written, and the libraries and parts that it calls."""

    def __init__(self, codegen: Any, name: str):
        super().__init__(codegen, name)
        self.names: tuple[Any, ...] = ()  # module, name and argument types of the parts that it calls

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
        self._optimize_final_module()
        program.verify()
        self._finalize_final_module()

    def reduced(self) -> tuple[Any, ...]:
        """What is kept of it: machine code, and the names that are defined there."""
        both = (*self._final_module.functions, *self._final_module.global_variables)
        names = [each.name for each in both if not each.is_declaration and each.linkage != ll.Linkage.internal]
        return self._get_compiled_object(), names

    @classmethod
    def restored(cls, codegen: Any, name: str, code: bytes, names: list[str]) -> _EntryLibrary:
        library = cls(codegen, name)
        library.enable_object_caching()
        library._set_compiled_object(code)
        library._finalize_final_module()
        codegen._engine._defined_symbols |= set(names)
        return library


class _Pipeline(Compiler):
    """Numba's, into a library of ours, with names that are the same in every process."""

    library_class: type[JITCodeLibrary]

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self.library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        if "<locals>" not in state.func_id.func_qualname:
            name = f"{state.func_id.modname}.{state.func_id.func_qualname}"
            state.func_id.unique_id = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
            state.func_id.unique_name = f"{state.func_id.func_qualname}${state.func_id.unique_id}"
        state.flags.no_compile = self.library_class is _PartLibrary
        return super().define_pipelines()


class _PartPipeline(_Pipeline):
    library_class = _PartLibrary


class _EntryPipeline(_Pipeline):
    library_class = _EntryLibrary


class _Dispatcher(Dispatcher):
    """Numba's, with our way to keep what was compiled."""

    targetdescr = cpu_target
    kind: str
    pipeline: type[_Pipeline]

    def __init__(self, owner: Compiled, options: dict[str, Any]):
        super().__init__(owner.function, targetoptions=owner.options | options, pipeline_class=self.pipeline)
        self.owner = owner

    def compile(self, sig: Any) -> Any:
        """Load or compile the function for these types. Returns what it is called by."""
        arguments, returned = sigutils.normalize_signature(sig)
        arguments = tuple(arguments)
        with global_compiler_lock, code_cache.without_collector():
            if arguments not in self.overloads:
                file = None if self.owner.local else code_cache.file_of(self.py_func, self.kind, arguments)
                result = self._restored(pickle.loads(file.read_bytes())) if file and file.exists() else None
                if result is None:
                    result = self._compiler.compile(arguments, returned)
                    if file:
                        result.fndesc.typemap = result.fndesc.calltypes = None
                        code_cache.keep(file, serialize.dumps(self._reduced(result)))
                self.add_overload(result)
            return self.overloads[arguments].entry_point

    def _reduced(self, result: CompileResult) -> tuple[Any, ...]:
        raise NotImplementedError

    def _restored(self, kept: tuple[Any, ...]) -> CompileResult:
        raise NotImplementedError

    def _result(self, library: Any, fndesc: Any, signature: Any, environment: Any, entry_point: Any) -> CompileResult:
        return compile_result(
            typing_context=self.typingctx,
            target_context=self.targetctx,
            library=library,
            fndesc=fndesc,
            signature=signature,
            environment=environment,
            entry_point=entry_point,
            objectmode=False,
            lifted=(),
            reload_init=[],
        )


class _Part(_Dispatcher):
    kind = "part"
    pipeline = _PartPipeline

    def __init__(self, owner: Compiled):
        super().__init__(owner, {"no_cpython_wrapper": True, "no_cfunc_wrapper": True})

    def library(self, arguments: tuple[types.Type, ...]) -> _PartLibrary:
        self.compile(arguments)
        return self.overloads[arguments].library

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Numba's, but a number that is written at the call is a number like any other: one specialisation for all."""
        return super().get_call_template([types.unliteral(each) for each in args], kws)

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
        code = result.library._final_module.as_bitcode()
        return result.library.name, code, names, others, result.fndesc, result.signature

    def _restored(self, kept: tuple[Any, ...]) -> CompileResult:
        name, code, names, others, fndesc, signature = kept
        library = _PartLibrary(self.targetctx.codegen(), name)
        library._final_module = ll.parse_bitcode(code)
        library.names = names
        for other, bitcode in others:
            library._linking_libraries.append(_ordinary(library.codegen, other, bitcode))
        library.finalize()
        return self._result(library, fndesc, signature, None, library)


class _Entry(_Dispatcher):
    kind = "entry"
    pipeline = _EntryPipeline

    def __init__(self, owner: Compiled):
        super().__init__(owner, {})

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
    return getattr(importlib.import_module(module), name)
