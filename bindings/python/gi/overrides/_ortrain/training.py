# SPDX-License-Identifier: LGPL-2.1-or-later
"""The loop, its data, and the classes that users derive."""
import collections.abc
import functools
import inspect
import numbers
import operator
import sys

from gi.repository import GLib

from . import calls, errors, values
from .base import Ortrain, constructor, export
from .tensors import as_dict


@export
class LrSchedule(Ortrain.LrSchedule):
    """A factor on the learning rate; a class derived from it has do_evaluate (step), which returns it, or (True, factor)."""

    def evaluate(self, step):
        """The factor at a step, as (True, factor)."""
        return calls.run(None, Ortrain.LrSchedule.evaluate, (self, step))

    def observe(self, metric):
        """Tells the schedule a number that is the better the smaller it is."""
        return calls.run(None, Ortrain.LrSchedule.observe, (self, metric))

    def save_state(self):
        """What the schedule has learnt from metrics, a GLib.Variant; None if there is nothing."""
        return calls.run(None, Ortrain.LrSchedule.save_state, (self,))

    def load_state(self, state):
        """Goes on with what save_state () returned. Returns whether it could."""
        return calls.run(None, Ortrain.LrSchedule.load_state, (self, state))


@export
class Metric(Ortrain.Metric):
    """A number for the outputs on a dataset. A class derived from it has do_reset (), do_update (outputs, batch) and do_compute (),
    which returns the number, or (True, number)."""

    def reset(self):
        """Forgets what was counted."""
        return calls.run(None, Ortrain.Metric.reset, (self,))

    def update(self, outputs, batch):
        """Counts a batch; both are mappings of names to arrays."""
        return calls.run(None, Ortrain.Metric.update, (self, as_dict(outputs), as_dict(batch)))

    def compute(self):
        """The number, as (True, number)."""
        return calls.run(None, Ortrain.Metric.compute, (self,))


@export
class Loss(Ortrain.Loss):
    """What is minimized; a class derived from it has do_build (graph, output), which returns the loss as a
    value of the graph, or (True, value)."""


@export
class Optimizer(Ortrain.Optimizer):
    """Moves parameters; a class derived from it has do_update (name, parameter, gradient, …), which returns nothing, or True."""


@export
class Dataset(Ortrain.Dataset):
    """Items to train with. A class derived from it has do_get_length () and do_get_item (index), or, as PyTorch has it,
    __len__ () and __getitem__ (index); an item is a mapping of names to arrays."""

    def __len__(self):
        return self.get_length()

    def __getitem__(self, index):
        n = len(self)
        index = operator.index(index)
        if not -n <= index < n:
            raise IndexError(f"item {index} of {n}")
        return self.get_item(index % n)

    def __bool__(self):
        return True

    def get_batch(self, indices):
        """The items of these indices as one batch, a TensorDict."""
        return calls.run(None, Ortrain.Dataset.get_batch, (self, indices))

    def get_item(self, index):
        """An item, a TensorDict."""
        return calls.run(None, Ortrain.Dataset.get_item, (self, index))


# ---- what methods of the user return ----

def _wrong(args, method, result, needed):
    return TypeError(f"{type(args[0]).__name__}.{method} () returned {result!r}; {needed} is needed")


def _split_result(result):
    """(whether it succeeded, value)"""
    pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], bool)
    return result if pair else (True, result)


def _number_of(method, needed):
    """True and a number, of a number, or of both."""
    def convert(args, result):
        ok, value = _split_result(result)
        if isinstance(value, Ortrain.Tensor) and value.get_n_elements() == 1:
            value = value.get_scalar(0)
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise _wrong(args, method, result, needed)
        return ok, float(value)

    return convert


def _as_built(args, result):
    ok, value = _split_result(result)
    if ok and not isinstance(value, Ortrain.Value):
        raise _wrong(args, "do_build", result, "the loss (an Ortrain.Value of the graph), or (True, loss)")
    return ok, value


def _success_of(method):
    """True, of True, or of nothing."""
    def convert(args, result):
        if result is not None and not isinstance(result, bool):
            raise _wrong(args, method, result, "True or None")
        return result is not False

    return convert


def _as_applied(args, result):
    """The item was changed, or there is another."""
    if result is None or isinstance(result, bool):
        return result is not False
    if not isinstance(result, (collections.abc.Mapping, Ortrain.TensorDict)):
        raise _wrong(args, "do_apply", result, "True, None, or a mapping of names to arrays")
    _replace(args[1], as_dict(result))
    return True


def _replace(item, result):
    if result is item:
        return
    for name in [name for name in item if name not in result]:
        item.remove(name)
    for name in result:
        item.set(name, result.get(name))


def _item_of(method):
    def convert(args, result):
        if not isinstance(result, (collections.abc.Mapping, Ortrain.TensorDict)):
            raise _wrong(args, method, result, "a mapping of names to arrays")
        return as_dict(result)

    return convert


def _as_length(args, result):
    try:
        length = operator.index(result)
    except TypeError:
        raise _wrong(args, "do_get_length", result, "the number of items") from None
    if length < 0:
        raise ValueError(f"{type(args[0]).__name__}.do_get_length () returned {length}; the number of items is needed")
    return length


def _as_names(args, result):
    if result is None:
        return result
    try:
        return values.strings("do_get_state_names", result)
    except TypeError:
        raise _wrong(args, "do_get_state_names", result, "a list of strings") from None


def _as_loaded(args, result):
    if result is not None and not isinstance(result, bool):
        raise _wrong(args, "do_load_state", result, "True or None, or False for a state of something else,")
    return result is not False


def _as_state(args, result):
    if result is not None and not isinstance(result, GLib.Variant):
        raise _wrong(args, "do_save_state", result, "a GLib.Variant or None")
    return result


def _takes_one(method):
    """Whether it is do_get_batch (self, indices), without the number of them."""
    try:
        parameters = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        return False
    return len(parameters) == 2 and all(p.kind != p.VAR_POSITIONAL for p in parameters)


def _prepare_dataset(subclass):
    own = subclass.__dict__
    if subclass.__module__.startswith("gi."):
        return          # of the library: it has its own functions
    if "__len__" in own and "do_get_length" not in own:
        subclass.do_get_length = lambda self, length=own["__len__"]: length(self)
    if "__getitem__" in own and not {"do_get_item", "do_get_batch"} & own.keys():
        subclass.do_get_item = functools.wraps(own["__getitem__"])(lambda self, index, get=own["__getitem__"]: get(self, index))
    if "do_get_batch" in own and _takes_one(own["do_get_batch"]):
        subclass.do_get_batch = functools.wraps(own["do_get_batch"])(
            lambda self, indices, n_indices, get=own["do_get_batch"]: get(self, indices[:n_indices]))


calls.derivable(LrSchedule, None, {
    "do_evaluate": _number_of("do_evaluate", "the factor (a number), or (True, factor)"), "do_load_state": _as_loaded,
    "do_save_state": _as_state})
calls.derivable(Metric, None, {"do_compute": _number_of("do_compute", "a number, or (True, number)"), "do_update": _success_of("do_update")})
calls.derivable(Loss, None, {"do_build": _as_built})
calls.derivable(Optimizer, None, {"do_update": _success_of("do_update"), "do_get_state_names": _as_names})
calls.derivable(Dataset, _prepare_dataset, {
    "do_get_item": _item_of("do_get_item"), "do_get_batch": _item_of("do_get_batch"), "do_get_length": _as_length,
    "do_fill_batch": _success_of("do_fill_batch"), "do_fill_epoch_batch": _success_of("do_fill_epoch_batch")})


class _Sequence(Dataset):
    """What has __len__ () and __getitem__ (index), as PyTorch's datasets do."""
    __module__ = "ortrain"      # a class of its own; those of gi.overrides stand for the library's

    def __init__(self, source):
        super().__init__()
        self.source = source

    def do_get_length(self):
        return len(self.source)

    def do_get_item(self, index):
        return self.source[index]


@export
class Transform(Ortrain.Transform):
    """Changes an item of a dataset; a class derived from it has do_apply (item, seed), which returns nothing, or
    another item, a mapping of names to arrays."""

    def apply(self, item, seed=0):
        """Changes an item, a TensorDict."""
        return calls.run(None, Ortrain.Transform.apply, (self, item, seed))


calls.derivable(Transform, None, {"do_apply": _as_applied})


@export
class FunctionTransform(Ortrain.FunctionTransform):
    """A transform that calls a function of an item, and of a seed if it has a second parameter. The function returns a
    mapping of names to arrays, or None if it has changed the item."""


def _takes_seed(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    empty, kinds = inspect.Parameter.empty, (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is empty for p in parameters) >= 2


@constructor(FunctionTransform)
def _new_function_transform(function):
    if not callable(function):
        raise TypeError(f"function needs something that can be called, not {function!r}")
    takes_seed = _takes_seed(function)

    def call(item, seed, *data):
        result = function(item, seed) if takes_seed else function(item)
        if result is None or result is True:
            return True
        if not isinstance(result, (collections.abc.Mapping, Ortrain.TensorDict)):
            name = getattr(function, "__qualname__", repr(function))
            raise TypeError(f"the transform {name} returned {result!r}; a mapping of names to arrays, or nothing, is needed")
        _replace(item, as_dict(result))
        return True

    vfunc = next(info for info in Ortrain.Transform.__info__.get_vfuncs() if info.get_name() == "apply")
    return Ortrain.FunctionTransform.new(calls.translated(call, vfunc))


def as_transform(value):
    """A transform, or a function as one."""
    if isinstance(value, Ortrain.Transform):
        return value
    if not callable(value):
        raise TypeError(f"a transform is an Ortrain.Transform or a function, not {value!r}")
    return _new_function_transform(value)


@export
class TransformedDataset(Ortrain.TransformedDataset):
    """The items of another dataset, each changed by transforms, which may be functions."""


@constructor(TransformedDataset)
def _new_transformed_dataset(dataset, transforms):
    if isinstance(transforms, Ortrain.Transform) or callable(transforms):
        transforms = [transforms]
    return Ortrain.TransformedDataset.new(as_dataset(dataset), [as_transform(value) for value in transforms])


@export
class SubsetDataset(Ortrain.SubsetDataset):
    """Some of the items of another dataset, in an order of their own."""


@constructor(SubsetDataset)
def _new_subset_dataset(dataset, indices):
    return Ortrain.SubsetDataset.new(as_dataset(dataset), [index.__index__() for index in indices])


@export
class ImageFolder(Ortrain.ImageFolder):
    """Pictures in folders, one folder for each class."""


@constructor(ImageFolder)
def _new_image_folder(path, image_name="image", label_name="labels", classes=None):
    if classes is not None:
        classes = values.strings("classes", classes)
    return Ortrain.ImageFolder.new(str(path), image_name, label_name, classes)


@export
class Normalize(Ortrain.Normalize):
    """Subtracts the mean of each channel, or one mean of all, and divides by the standard deviation."""


@constructor(Normalize)
def _new_normalize(mean, std):
    numbers = [[float(value)] if isinstance(value, (int, float)) else [float(x) for x in value] for value in (mean, std)]
    return Ortrain.Normalize.new(*numbers)


@export
class TensorDataset(Ortrain.TensorDataset):
    """Items in memory: of a mapping of arrays, whose first dimension is the item, or of the path of an .npz file."""

    def __getitem__(self, index):
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step != 1:
                raise ValueError("only slices without a step are taken")
            return self.slice(begin, max(begin, end))
        return super().__getitem__(index)


@constructor(TensorDataset)
def _new_tensor_dataset(source):
    if isinstance(source, str) or hasattr(source, "__fspath__"):
        if str(source).endswith((".csv", ".tsv")):
            raise ValueError(f"{source} is a table, whose columns a graph or you have to name: TensorDataset.new_from_csv(path, "
                             "CsvFormat.new_for_graph(session.training_graph, None))")
        return Ortrain.TensorDataset.new_from_npz(str(source))
    return Ortrain.TensorDataset.new(as_dict(source))


@values.converts(Ortrain.Dataset)
def as_dataset(source):
    """A dataset; or a mapping of arrays, or what has __len__ () and __getitem__ (index), as one."""
    if isinstance(source, Ortrain.Dataset):
        return source
    if isinstance(source, collections.abc.Mapping):
        return TensorDataset(source)
    listed = isinstance(source, collections.abc.Sequence)
    if listed and source and isinstance(source[0], (collections.abc.Mapping, Ortrain.TensorDict)):
        return _Sequence(source)
    if not listed and hasattr(source, "__len__") and hasattr(source, "__getitem__"):
        return _Sequence(source)
    raise TypeError("dataset needs an Ortrain.Dataset, a mapping of names to arrays, or a sequence of such "
                    f"mappings, not {source!r}")


@export
class DataLoader(Ortrain.DataLoader):
    """Batches of a dataset. Iterating gives the batches of an epoch."""

    def __iter__(self):
        dataset = self.get_dataset()
        following = errors.typed(super().next) if dataset is not None and dataset.is_thread_safe() else self.next
        while (batch := following()) is not None:
            yield batch

    def __len__(self):
        return self.n_batches

    def next(self):
        """The next batch, a TensorDict; None at the end of an epoch."""
        return calls.run(None, Ortrain.DataLoader.next, (self,))


@constructor(DataLoader)
def _new_loader(dataset, batch_size=32):
    batch_size = values.convert("DataLoader", values.find_property(DataLoader, "batch_size"), batch_size)
    return Ortrain.DataLoader.new(as_dataset(dataset), batch_size)


@export
class Trainer(calls.Emitter, Ortrain.Trainer):
    """The loop: epochs over a dataset, which may be a mapping of arrays.

    Ctrl-C in fit () and evaluate () raises KeyboardInterrupt within a step; what a handler, a dataset, or another class
    written in Python raises ends them and is raised from them. What was trained is kept, and the session can be used.
    """

    def fit(self, cancellable=None):
        """Trains for the epochs that the trainer is to do. Returns a TrainingHistory."""
        return calls.run(calls.key_of(self), Ortrain.Trainer.fit, (self,), True, cancellable, self._call_python)

    def evaluate(self, dataset, cancellable=None):
        """Runs the model on a dataset. Returns (True, mean loss, metric); the metric is -1 if there is none."""
        return calls.run(calls.key_of(self), Ortrain.Trainer.evaluate, (self, as_dataset(dataset)), True, cancellable)

    def _call_python(self):
        """From a thread: a handler behind the step that runs, so that Python's handlers of signals run, too."""
        def once(*args):
            Ortrain.Trainer.disconnect(self, handler)

        handler = Ortrain.Trainer.connect(self, "progress", once)


@constructor(Trainer)
def _new_trainer(session, dataset):
    if not isinstance(session, Ortrain.TrainingSession):
        raise TypeError(f"session needs an Ortrain.TrainingSession, not {session!r}")
    trainer = Ortrain.Trainer.new(session, as_dataset(dataset))
    if sys.stderr is None or not sys.stderr.isatty():
        trainer.set_show_progress(Ortrain.ShowProgress.NEVER)     # a notebook, or a test, which a terminal started
    return trainer


@export
class TrainingHistory(Ortrain.TrainingHistory):
    """What a training came to: records of its epochs, as a sequence, and the loss of each step.

    >>> for record in history: print(record.epoch, record.loss)
    >>> history[-1].metric
    """

    def __len__(self):
        return self.get_n_epochs()

    def __getitem__(self, index):
        """The record of an epoch, from 0; a list of them for a slice."""
        return list(self.epochs)[index]

    @property
    def losses(self):
        """The loss of each step, a NumPy array of float64."""
        import numpy as np

        return np.frombuffer(self.get_losses().get_data() or b"", np.float64)
