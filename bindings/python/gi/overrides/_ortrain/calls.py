# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls of the library that take their time. Ctrl-C ends them, and what a handler, or a class written in Python, raises
meanwhile ends them too, and is raised from them.

PyGObject prints what a callback raises, and goes on; Python runs its signal handlers between two bytecodes, of which there
are none while the library works. So exceptions of callbacks are kept by the call that is under way, and signals wake a
thread that cancels it.
"""
import _signal     # without the enumerations of signal, which cost microseconds
import asyncio
import collections.abc
import functools
import inspect
import os
import signal
import socket
import threading
import traceback
import weakref

from gi.repository import Gio, GLib, GObject

from . import errors
from .base import Ortrain
from .tensors import as_dict

_under_way = []        # calls, the innermost last
_translated = []       # (message, exception) of callbacks whose error goes through the library
_with_python = set()   # keys of sessions that call Python
_wrappers = weakref.WeakValueDictionary()   # (object, handler) → what PyGObject was given
_main_thread = threading.main_thread().ident


class Call:
    """A call that is under way. key: of its session; None if there is none. given: a cancellable of the caller's"""

    def __init__(self, key, cancellable=None, given=None):
        self.key, self.thread = key, threading.get_ident()
        self.cancellable = cancellable
        self.error = None         # what a callback raised first
        self.given = given
        self.connection = given.connect(cancellable.cancel) if given is not None else 0

    def __enter__(self):
        _under_way.append(self)
        return self

    def __exit__(self, *failure):
        if self.connection:
            self.given.disconnect(self.connection)
        _under_way.remove(self)

    def fail(self, error):
        if self.error is None:
            self.error = error
        if self.cancellable is not None:
            self.cancellable.cancel()

    def find_error(self, failure):
        """What to raise; failure: the GLib.Error that the call ended with, or None"""
        error, self.error = self.error, None
        if error is None and failure is not None:
            error = next((kept for message, kept in _translated if message in failure.message), failure)
            if error is not failure and hasattr(error, "add_note"):
                error.add_note(failure.message)     # which names the place in the library
        if isinstance(error, GLib.Error):
            errors.specialize(error)
        if not _under_way:
            _translated.clear()
        return error


def _innermost():
    """The call that a callback in this thread belongs to."""
    thread = threading.get_ident()
    return next((call for call in reversed(_under_way) if call.thread == thread), _under_way[-1] if _under_way else None)


class _Signals:
    """Python's handlers of signals while the main thread is in the library: what they raise ends the call. While a
    callback runs they raise there, as ever. With watch, Ctrl-C wakes a thread that cancels the call; nudge () makes the
    library call Python soon, for handlers that do not raise KeyboardInterrupt."""
    current = None

    def __init__(self, call, watch, nudge):
        self.call, self.watch, self.nudge = call, watch, nudge
        self.n_callbacks = 0      # how deep in callbacks the main thread is
        self.handlers, self.roots = {}, {}      # what is replaced; what it comes down to in nested calls
        self.reader = None

    def __enter__(self):
        if threading.get_ident() != _main_thread:
            return
        self.outer, _Signals.current = _Signals.current, self
        for number in (_signal.SIGINT, _signal.SIGTERM) if self.watch else (_signal.SIGINT,):
            handler = _signal.getsignal(number)
            if callable(handler):
                nested = self.outer is not None and number in self.outer.roots
                self.roots[number] = self.outer.roots[number] if nested else handler
                self.handlers[number] = handler
                _signal.signal(number, self.on_signal)
        if self.watch and self.handlers:
            self.reader, self.writer = socket.socketpair()
            self.writer.setblocking(False)
            self.descriptor = signal.set_wakeup_fd(self.writer.fileno(), warn_on_full_buffer=False)
            self.thread = threading.Thread(target=self.wait, name="ortrain-signals", daemon=True)
            self.thread.start()

    def __exit__(self, *failure):
        if threading.get_ident() != _main_thread:
            return
        if self.reader is not None:
            signal.set_wakeup_fd(self.descriptor, warn_on_full_buffer=False)
            self.writer.close()
            self.thread.join()
            self.reader.close()
        for number, handler in self.handlers.items():
            _signal.signal(number, handler)
        _Signals.current = self.outer

    def on_signal(self, number, frame):
        try:
            self.handlers[number](number, frame)
        except BaseException as error:
            if self.n_callbacks > 0:
                raise
            self.call.fail(error)

    def wait(self):
        while numbers := self.reader.recv(64):
            if self.descriptor >= 0:
                os.write(self.descriptor, numbers)      # asyncio's, PyGObject's, or that of an outer call
            for number in numbers:
                root = self.roots.get(number)
                if root is signal.default_int_handler:
                    self.call.cancellable.cancel()
                elif root is not None and self.nudge is not None:
                    self.nudge()


def _callback(function, args):
    """A callback, in which signal handlers may raise."""
    signals = _Signals.current if threading.get_ident() == _main_thread else None
    if signals is None:
        return function(*args)
    signals.n_callbacks += 1
    try:
        return function(*args)
    finally:
        signals.n_callbacks -= 1


def run(key, function, args=(), watch=False, cancellable=None, nudge=None):
    """Calls function (*args), of which callbacks may be Python. watch: with a cancellable behind args."""
    failure = result = None
    with Call(key, Gio.Cancellable() if watch else None, cancellable) as call:
        try:
            with _Signals(call, watch, nudge):
                result = function(*args, call.cancellable) if watch else function(*args)
        except GLib.Error as error:
            failure = error
    failure = call.find_error(failure)
    if failure is not None:
        try:
            raise failure
        finally:
            del failure     # its traceback refers to this frame
    return result


def key_of(instance):
    """What calls of a session, and of trainers of it, are found by."""
    session = instance.get_session() if hasattr(instance, "get_session") else None
    return hash(session if session is not None else instance)


def is_python(instance):
    """Whether its class is one of the user's."""
    return instance is not None and not type(instance).__module__.startswith("gi.")


def calls_python(key):
    return key in _with_python


def note_python(instance):
    _with_python.add(key_of(instance))


# ---- signals ----

def _guarded(instance, handler):
    """The handler, whose exceptions the call under way keeps."""
    if not callable(handler):
        return handler
    identity = (hash(instance), id(handler.__self__) if inspect.ismethod(handler) else 0,
                id(handler.__func__) if inspect.ismethod(handler) else id(handler))
    known = _wrappers.get(identity)
    if known is not None:
        return known
    key = key_of(instance)
    _with_python.add(key)

    def call(*args):
        try:
            return _callback(handler, args)
        except BaseException as error:
            under_way = next((call for call in reversed(_under_way) if call.key == key), None)
            if under_way is None:
                raise                       # PyGObject prints it
            under_way.fail(error)

    call.__wrapped__ = handler
    _wrappers[identity] = call
    return call


class Emitter:
    """Handlers of signals: what one raises ends the call under way, and is raised from it."""

    def connect(self, detailed_signal, handler, *args):
        """Calls handler (object, …, *args) whenever the signal is emitted. Returns its number, for disconnect ()."""
        return super().connect(detailed_signal, _guarded(self, handler), *args)

    def connect_after(self, detailed_signal, handler, *args):
        """As connect (), behind the other handlers."""
        return super().connect_after(detailed_signal, _guarded(self, handler), *args)

    def connect_object(self, detailed_signal, handler, instance, *args):
        """As connect (), for as long as instance lives, which the handler is given in the place of this object."""
        return super().connect_object(detailed_signal, _guarded(self, handler), instance, *args)

    def connect_data(self, detailed_signal, handler, *args, **kwargs):
        """As connect (), with connect_flags."""
        return super().connect_data(detailed_signal, _guarded(self, handler), *args, **kwargs)

    def disconnect_by_func(self, handler):
        """Disconnects all connections of the handler."""
        return super().disconnect_by_func(_guarded(self, handler))

    def handler_block_by_func(self, handler):
        """Blocks all connections of the handler."""
        return super().handler_block_by_func(_guarded(self, handler))

    def handler_unblock_by_func(self, handler):
        """Unblocks all connections of the handler."""
        return super().handler_unblock_by_func(_guarded(self, handler))


# ---- classes of the user ----

def translated(method, info, convert=None):
    """A method that the library calls. What it raises becomes the error of the call, or ends it where the library asks for
    none, and gets 0 or nothing. convert (args, result): what the library gets for what the method returned"""
    throws = info.can_throw_gerror()
    nothing = 0 if info.get_return_type().get_tag_as_string().startswith(("gint", "guint")) else None

    @functools.wraps(method)
    def call(*args):
        try:
            result = _callback(method, args)
            return convert(args, result) if convert is not None else result
        except GLib.Error:
            raise
        except BaseException as error:
            under_way = _innermost()
            if not throws:
                if under_way is None:
                    raise
                under_way.fail(error)
                return nothing
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
            if under_way is not None:
                _translated.append((message, error))
                if not isinstance(error, Exception):
                    under_way.fail(error)       # Ctrl-C, of which the library may say that it was cancelled
            raise GLib.Error.new_literal(Ortrain.session_error_quark(), message, Ortrain.SessionError.STATE) from error

    return call


def derivable(cls, prepare=None, convert=()):
    """Classes of the user: an exception in a method that the library calls reaches who called the library. prepare
    (subclass) is called first; convert: {name of a method: what becomes of its result, as in translated ()}"""
    infos = {f"do_{info.get_name()}": info for info in cls.__info__.get_vfuncs()}
    convert = dict(convert)

    def __init_subclass__(subclass, **kwargs):
        super(cls, subclass).__init_subclass__(**kwargs)
        if prepare is not None:
            prepare(subclass)
        for name, info in infos.items():
            if name in subclass.__dict__:
                setattr(subclass, name, translated(subclass.__dict__[name], info, convert.get(name)))

    cls.__init_subclass__ = classmethod(__init_subclass__)


# ---- asynchronous pairs ----

async def _await(key, start, finish, given=None):
    """Awaits an asynchronous pair whatever loop asyncio runs on: the main context is turned while waiting."""
    done, failure, result = [], None, None
    context = GLib.MainContext.ref_thread_default()
    with Call(key, Gio.Cancellable(), given) as call:
        start(call.cancellable, lambda source, result: done.append(result))
        try:
            await asyncio.sleep(0)
            while not done:
                while context.iteration(False):
                    pass
                if not done:
                    await asyncio.sleep(0.001)
        except BaseException:           # cancelled, or interrupted: it ends before it is given up
            call.cancellable.cancel()
            while not done:
                context.iteration(True)
            raise
        try:
            result = finish(done[0])
        except GLib.Error as error:
            failure = error
    failure = call.find_error(failure)
    if failure is not None:
        try:
            raise failure
        finally:
            del failure
    return result


def asynchronous(cls, name):
    """name_async without a callback gives an awaitable; with one it is what the library has."""
    original, finish = getattr(cls, name + "_async"), getattr(cls, name + "_finish")
    arguments = original.get_arguments()
    names = [argument.get_name() for argument in arguments]
    names = names[:names.index("cancellable")]
    method = original.is_method()
    empty, positional = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [inspect.Parameter("self", positional)] * method
        + [inspect.Parameter(name, positional, default=None if argument.may_be_null() else empty)
           for name, argument in zip(names, arguments)]
        + [inspect.Parameter(name, positional, default=None) for name in ("cancellable", "callback", "user_data")])

    def call(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        own, rest = bound.args[:method], bound.args[method:]
        values = [as_dict(value) if isinstance(value, collections.abc.Mapping) else value for value in rest[:len(names)]]
        cancellable, callback, user_data = rest[len(names):]
        if callback is not None:
            return original(*own, *values, cancellable, callback, *([user_data] if user_data is not None else []))
        return _await(key_of(own[0]) if own else None,
                      lambda cancellable, callback: original(*own, *values, cancellable, callback),
                      lambda result: finish(*own, result), cancellable)

    call.__name__, call.__qualname__, call.__signature__ = name + "_async", f"{cls.__name__}.{name}_async", signature
    call.__doc__ = f"{name} on a thread of the library: an awaitable, or with a callback nothing.\n\n{original.__doc__}"
    setattr(cls, name + "_async", call if method else staticmethod(call))
