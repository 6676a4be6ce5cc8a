# SPDX-License-Identifier: LGPL-2.1-or-later
"""Models, sessions and what they are made with."""
import os

from . import calls, values
from .base import Ortrain, constructor, export
from .tensors import as_dict, as_tensor


class _Context:
    """with session: … gives its memory back at the end of the block."""

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.run_dispose()


@export
class Model(Ortrain.Model):
    """An ONNX model, of a file."""


@constructor(Model)
def _new_model(path):
    return Ortrain.Model.new_from_file(os.fspath(path))


@export
class TrainingOptions(Ortrain.TrainingOptions):
    """What a session trains, and how. losses: a list of Ortrain.Loss; add_loss () adds one more."""

    def __init__(self, losses=(), **kwargs):
        if isinstance(losses, Ortrain.Loss):
            losses = [losses]
        if isinstance(losses, str) or not hasattr(losses, "__iter__"):
            raise TypeError(f"losses needs a list of Ortrain.Loss, not {losses!r}")
        for loss in losses:
            if not isinstance(loss, Ortrain.Loss):
                raise TypeError(f"losses needs a list of Ortrain.Loss, but there is {loss!r} in it")
        Ortrain.TrainingOptions.__init__(self, **{
            name: values.convert("TrainingOptions", values.find_property(TrainingOptions, name), value)
            for name, value in kwargs.items()})
        for loss in losses:
            self.add_loss(loss)


def _check(name, value, cls):
    if not isinstance(value, cls):
        raise TypeError(f"{name} needs an Ortrain.{cls.__name__}, not {value!r}")


def _new_session(model, options):
    _check("model", model, Ortrain.Model)
    _check("options", options, Ortrain.TrainingOptions)
    schedule = options.get_schedule()
    parts = [options.get_optimizer(), *options.get_losses()]
    while schedule is not None:
        parts.append(schedule)
        schedule = schedule.get_after() if hasattr(schedule, "get_after") else None
    if not any(map(calls.is_python, parts)):
        return Ortrain.TrainingSession.new(model, options)
    session = calls.run(None, Ortrain.TrainingSession.new, (model, options))
    calls.note_python(session)
    return session


_base = Ortrain.TrainingSession
_train_step, _train_and_update, _eval_step = _base.train_step, _base.train_and_update, _base.eval_step
_optimizer_step = _base.optimizer_step


@export
class TrainingSession(_Context, calls.Emitter, Ortrain.TrainingSession):
    """Trains a model.

    What a handler of its signals raises ends the call that emitted it, and is raised from it. As a context manager, the
    session gives its memory back at the end.
    """

    def train_step(self, inputs):
        """Runs the model forward and backward on a batch, a mapping of names to arrays. Returns the loss."""
        inputs = as_dict(inputs)
        if calls.calls_python(hash(self)):
            return calls.run(hash(self), _train_step, (self, inputs))
        return _train_step(self, inputs)

    def train_and_update(self, inputs):
        """train_step () and optimizer_step () in one; the loss is get_last_loss ()."""
        inputs = as_dict(inputs)
        if calls.calls_python(hash(self)):
            return calls.run(hash(self), _train_and_update, (self, inputs))
        return _train_and_update(self, inputs)

    def optimizer_step(self):
        """Updates the parameters with the gradients of the steps since the last update."""
        if calls.calls_python(hash(self)):
            return calls.run(hash(self), _optimizer_step, (self,))
        return _optimizer_step(self)

    def eval_step(self, inputs):
        """Runs the model forward on a batch, a mapping of names to arrays. Returns a TensorDict of its outputs, with the
        loss if there are targets."""
        inputs = as_dict(inputs)
        if calls.calls_python(hash(self)):
            return calls.run(hash(self), _eval_step, (self, inputs))
        return _eval_step(self, inputs)

    def save_checkpoint(self, path):
        """Saves all that training needs to be resumed in a folder."""
        return calls.run(hash(self), _base.save_checkpoint, (self, os.fspath(path)))

    def load_checkpoint(self, path):
        """Goes on from a checkpoint."""
        return calls.run(hash(self), _base.load_checkpoint, (self, os.fspath(path)))

    def plan(self, inputs):
        """Plans the memory of a batch, a mapping of names to arrays, without taking it. Returns a MemoryPlan."""
        return _base.plan(self, as_dict(inputs))

    def plan_batch(self, inputs, batch, budget):
        """Plans the memory of a batch of another size, within a budget in bytes; 0: that of the options."""
        return _base.plan_batch(self, as_dict(inputs), batch, budget)

    def max_batch(self, inputs, budget):
        """Finds the largest batch that a budget in bytes has room for."""
        return _base.max_batch(self, as_dict(inputs), budget)

    def set_parameters(self, parameters):
        """Sets parameters, a mapping of names to arrays."""
        return _base.set_parameters(self, as_dict(parameters))

    def set_state(self, state):
        """Sets the state of the optimizer, a mapping as get_state () returns it."""
        return _base.set_state(self, as_dict(state))


constructor(TrainingSession)(_new_session)


@export
class InferenceSession(_Context, Ortrain.InferenceSession):
    """Runs a model. As a context manager, it gives its memory back at the end."""

    def run(self, feeds):
        """Runs the model on feeds, a mapping of names to arrays. Returns a TensorDict of its outputs."""
        return Ortrain.InferenceSession.run(self, as_dict(feeds))


@constructor(InferenceSession)
def _new_inference_session(model, options=None):
    _check("model", model, Ortrain.Model)
    return Ortrain.InferenceSession.new(model, options)


@export
class IoBinding(Ortrain.IoBinding):
    """Inputs and outputs in place: tensors, or NumPy arrays, whose own memory is read and written."""

    def bind_input(self, name, value):
        """Reads an input from a tensor or an array at every run."""
        Ortrain.IoBinding.bind_input(self, name, as_tensor(value))

    def bind_output(self, name, value=None):
        """Writes an output into a tensor or an array at every run; None: into memory of its own."""
        import numpy as np

        if isinstance(value, np.ndarray) and not (value.flags.c_contiguous and value.flags.writeable and value.dtype.isnative):
            raise ValueError(f"the output '{name}' cannot be written into this array: it is not contiguous, or read-only")
        Ortrain.IoBinding.bind_output(self, name, value if value is None else as_tensor(value))
