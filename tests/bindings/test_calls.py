# SPDX-License-Identifier: LGPL-2.1-or-later
"""Ctrl-C, and exceptions of handlers, datasets and other classes written in Python: they end the call that is under way,
are raised from it with their traceback, and leave a session that goes on.

The tests of Ctrl-C run a function of this file in a child process, which a real SIGINT reaches."""
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import unittest

import numpy as np
from gi.repository import Gio, GLib
from ortrain_tap import Ortrain, batch, linear_model, main, training_session

FOREVER = 2 ** 31


class Broken(Exception):
    pass


def dataset(n=64):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 4)).astype(np.float32)
    return Ortrain.TensorDataset({"x": x, "labels": rng.integers(0, 3, n)})


def make(data=None, **properties):
    properties = {"epochs": FOREVER, "batch_size": 16, **properties}
    return Ortrain.Trainer(training_session(), data or dataset(), **properties)


class Items(Ortrain.Dataset):
    """A dataset that does something at an item."""

    def __init__(self, what=None, at=0, n=64):
        super().__init__()
        self.what, self.at, self.n, self.n_calls = what, at, n, 0

    def do_get_length(self):
        return self.n

    def do_get_item(self, index):
        self.n_calls += 1
        if self.n_calls == self.at:
            self.what()
        return {"x": np.full(4, index, np.float32), "labels": index % 3}


def fail(*args):
    raise Broken("on purpose")


class Exceptions(unittest.TestCase):
    def raises(self, call, function=fail):
        """The exception itself is raised, with the line that raised it in its traceback."""
        try:
            call()
        except Broken as error:
            self.assertIn(function.__name__, [frame.name for frame in traceback.extract_tb(error.__traceback__)])
            return error
        self.fail("nothing was raised")

    def goes_on(self, trainer):
        steps = trainer.get_session().step
        trainer.epochs = 1
        self.assertEqual(trainer.fit().n_epochs, 1)
        self.assertGreater(trainer.get_session().step, steps)

    def test_handlers_of_the_trainer(self):
        for name in ("progress", "epoch-ended"):
            with self.subTest(name):
                trainer = make()
                handler = trainer.connect(name, fail)
                self.raises(trainer.fit)
                self.assertLessEqual(trainer.get_session().step, 2 if name == "progress" else 5)
                self.assertGreater(trainer.get_session().step, 0)
                trainer.disconnect(handler)
                self.goes_on(trainer)

    def test_handlers_of_the_session(self):
        trainer, session = make(), None
        session = trainer.get_session()
        handler = session.connect("post-backward", fail)
        self.raises(trainer.fit)
        self.assertLessEqual(session.step, 2)
        session.disconnect(handler)
        self.goes_on(trainer)

    def test_handlers_of_steps(self):
        for phase, call in (("post-forward", lambda s: s.train_step(batch())), ("post-update", lambda s: s.optimizer_step()),
                            ("post-update", lambda s: s.train_and_update(batch()))):
            with self.subTest(phase):
                session = training_session()
                session.train_step(batch())
                handler = session.connect(phase, fail)
                self.raises(lambda: call(session))
                session.disconnect(handler)
                self.assertTrue(np.isfinite(session.train_step(batch())))

    def test_every_way_to_connect(self):
        session, seen = training_session(), []

        class Seeing:
            def see(self, *args):
                seen.append(args)
                fail()

        seeing = Seeing()
        for connect in (lambda: session.connect("post-forward", seeing.see, 1, 2),
                        lambda: session.connect_after("post-forward", seeing.see, 1, 2),
                        lambda: session.connect_data("post-forward", seeing.see, 1, 2)):
            connect()
            self.raises(lambda: session.train_step(batch()))
            self.assertEqual((seen[-1][0], seen[-1][2:]), (session, (1, 2)))
            session.handler_block_by_func(seeing.see)
            session.train_step(batch())
            session.handler_unblock_by_func(seeing.see)
            self.raises(lambda: session.train_step(batch()))
            session.disconnect_by_func(seeing.see)
            session.train_step(batch())
        self.assertEqual(len(seen), 6)
        with self.assertRaises(TypeError):
            session.disconnect_by_func(seeing.see)
        other = Ortrain.Sgd()
        handler = session.connect_object("post-forward", seeing.see, other, 1)
        self.raises(lambda: session.train_step(batch()))
        self.assertIs(seen[-1][0], other)
        session.disconnect(handler)
        with self.assertRaises(TypeError):
            session.connect("post-forward", None)

    def test_first_one_counts(self):
        trainer, seen = make(), []

        def again(*args):
            seen.append(args)
            raise ValueError("later")

        trainer.connect("progress", fail)
        trainer.connect("progress", again)
        self.raises(trainer.fit)
        self.assertEqual(len(seen), 1)

    def test_without_a_call(self):
        """Where nothing of ours is under way, PyGObject prints the exception, as ever."""
        code = ("import sys; sys.path.insert(0, sys.argv[1]); from test_calls import *\n"
                "session, loop = training_session(), GLib.MainLoop()\n"
                "session.connect('post-forward', fail)\n"
                "session.train_step_async(batch(), None, lambda *args: loop.quit())\n"
                "loop.run(); print('went on')")
        done = subprocess.run([sys.executable, "-c", code, os.path.dirname(os.path.abspath(__file__))], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.stdout, "went on\n", done.stderr)
        self.assertIn("Broken: on purpose", done.stderr)

    def test_datasets(self):
        trainer = make(Items(fail, 40))
        error = self.raises(trainer.fit)
        self.assertIn("Broken: on purpose", error.__notes__[0])
        self.assertEqual(trainer.get_session().step, 2)
        self.goes_on(trainer)
        validation = make(validation=Items(fail, 20))
        self.raises(validation.fit)
        self.assertEqual(validation.get_session().step, 4)
        self.goes_on(validation)
        self.raises(lambda: make().evaluate(Items(fail, 3)))
        self.raises(lambda: list(Ortrain.DataLoader(Items(fail, 3), 2)))
        self.raises(lambda: Items(fail, 1).get_item(0))
        self.raises(lambda: Items(fail, 1).get_batch([0, 1]))

    def test_methods_without_an_error(self):
        """The library asks do_get_length for a number, not for an error."""
        class Endless(Items):
            def do_get_length(self):
                fail()

        self.raises(lambda: Ortrain.Trainer(training_session(), Endless()).fit())

    def test_optimizer(self):
        class Bad(Ortrain.Optimizer):
            def do_update(self, *args):
                fail()

        session = training_session(optimizer=Bad(learning_rate=0.1))
        session.train_step(batch())
        self.raises(session.optimizer_step)
        self.raises(Ortrain.Trainer(session, dataset(), epochs=1, batch_size=16).fit)

    def test_schedule_inside_another(self):
        class Bad(Ortrain.LrSchedule):
            def do_evaluate(self, step):
                fail()

        session = training_session(schedule=Ortrain.WarmUpSchedule(steps=0, after=Bad()))
        session.train_step(batch())
        self.raises(session.optimizer_step)

    def test_awaited(self):
        trainer = make()
        handler = trainer.connect("progress", fail)
        self.raises(lambda: asyncio.run(trainer.fit_async()))
        trainer.disconnect(handler)
        self.goes_on(trainer)
        session = training_session()
        session.connect("post-forward", fail)
        self.raises(lambda: asyncio.run(session.train_step_async(batch())))
        self.raises(lambda: asyncio.run(make(Items(fail, 40)).fit_async()))
        self.raises(lambda: asyncio.run(make().evaluate_async(Items(fail, 3))))

    def test_two_at_once(self):
        """What a handler raises ends the training that it belongs to, and no other."""
        first, second = make(), make(epochs=40)
        first.connect("progress", fail)

        async def both():
            return await asyncio.gather(first.fit_async(), second.fit_async(), return_exceptions=True)

        failed, history = asyncio.run(both())
        self.assertIsInstance(failed, Broken)
        self.assertEqual(history.n_epochs, 40)

    def test_inside_a_handler(self):
        """A call in a handler ends with what it raises, which the handler may catch."""
        trainer, other, seen = make(epochs=2), make(), []
        other.connect("progress", fail)

        def nested(*args):
            try:
                other.fit()
            except Broken:
                seen.append(other.get_session().step)

        trainer.connect("epoch-ended", nested)
        self.assertEqual(trainer.fit().n_epochs, 2)
        self.assertEqual(len(seen), 2)

    def test_in_a_thread(self):
        found = []

        def work():
            try:
                trainer = make()
                trainer.connect("progress", fail)
                trainer.fit()
            except Broken as error:
                found.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(len(found), 1)

    def test_cancellable_of_the_caller(self):
        trainer, cancellable = make(), Gio.Cancellable()
        handler = trainer.connect("progress", fail)
        self.raises(lambda: trainer.fit(cancellable))
        self.assertFalse(cancellable.is_cancelled())       # it is theirs
        trainer.disconnect(handler)
        trainer.connect("progress", lambda *args: cancellable.cancel())
        with self.assertRaises(GLib.Error) as caught:
            trainer.fit(cancellable)
        self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))
        with self.assertRaises(GLib.Error):
            trainer.fit(cancellable=cancellable)           # it is cancelled still


# ---- Ctrl-C: what the child processes do; each says "ready" when the signal may come ----

def say_when(condition):
    """From a thread, so that the main thread stays in the library."""
    def wait():
        while not condition():
            time.sleep(0.001)
        print("ready", flush=True)

    threading.Thread(target=wait, daemon=True).start()


def interrupted(call):
    try:
        call()
    except KeyboardInterrupt as error:
        return error
    raise AssertionError("it was not interrupted")


def fit_again(trainer):
    steps = trainer.get_session().step
    assert steps > 0
    trainer.epochs = 1
    assert trainer.fit().n_epochs == 1 and trainer.get_session().step > steps
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler and signal.set_wakeup_fd(-1) == -1


def rest_for_long():
    """In short rests: a signal that comes just before the system call of time.sleep does not end that."""
    for _ in range(100000):
        time.sleep(0.01)


def child_fit():
    trainer = make()
    say_when(lambda: trainer.get_session().step > 3)
    before = trainer.get_session().get_parameters()["fc.weight"].numpy().copy()
    interrupted(trainer.fit)
    assert (trainer.get_session().get_parameters()["fc.weight"].numpy() != before).any()
    fit_again(trainer)


def child_fit_with_handlers():
    """The signal finds the main thread in Python, or in the library: either way it is not lost."""
    trainer = make()
    trainer.connect("progress", lambda *args: sum(range(1000)))
    trainer.get_session().connect("post-backward", lambda *args: sum(range(1000)))
    say_when(lambda: trainer.get_session().step > 3)
    interrupted(trainer.fit)
    fit_again(trainer)


def child_fit_in_a_handler():
    """It is raised where Python is, at once."""
    trainer = make()

    def rest(*args):
        print("ready", flush=True)
        rest_for_long()

    handler = trainer.connect("progress", rest)
    error = interrupted(trainer.fit)
    assert "rest" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    trainer.disconnect(handler)
    fit_again(trainer)


def child_fit_in_a_dataset():
    def rest():
        print("ready", flush=True)
        rest_for_long()

    trainer = make(Items(rest, 40))
    interrupted(trainer.fit)
    assert trainer.get_session().step == 2
    fit_again(trainer)


def child_validation():
    def rest():
        print("ready", flush=True)
        rest_for_long()

    trainer = make(validation=Items(rest, 10))
    interrupted(trainer.fit)
    assert trainer.get_session().step == 4
    fit_again(trainer)


def child_validation_in_the_library():
    n = 1 << 22
    data = Ortrain.TensorDataset({"x": np.zeros((n, 4), np.float32), "labels": np.zeros(n, np.int64)})
    trainer = make(validation=data, batch_size=1, data=dataset(1))
    say_when(lambda: trainer.get_session().step == 1)
    interrupted(trainer.fit)
    assert trainer.get_session().step == 1      # of the first epoch, whose validation takes minutes
    trainer.set_validation(None)
    fit_again(trainer)


def child_evaluate():
    n = 1 << 22
    trainer = make(batch_size=1)
    data = Ortrain.TensorDataset({"x": np.zeros((n, 4), np.float32), "labels": np.zeros(n, np.int64)})
    trainer.get_session().train_and_update(batch())
    threading.Timer(0.2, print, ["ready"], {"flush": True}).start()
    interrupted(lambda: trainer.evaluate(data))
    fit_again(trainer)


def child_await():
    trainer = make()

    async def go():
        say_when(lambda: trainer.get_session().step > 3)
        await trainer.fit_async()

    interrupted(lambda: asyncio.run(go()))
    fit_again(trainer)


def child_steps():
    """With handlers, which Python's signal handlers run in front of."""
    session, feeds = training_session(), batch()
    session.connect("post-forward", lambda *args: None)
    session.connect("pre-update", lambda *args: None)
    say_when(lambda: session.step > 3)

    def loop():
        while True:
            session.train_step(feeds)
            session.optimizer_step()

    interrupted(loop)
    session.zero_gradients()
    session.train_step(feeds)
    session.optimizer_step()


def child_loader():
    def rest():
        print("ready", flush=True)
        rest_for_long()

    interrupted(lambda: list(Ortrain.DataLoader(Items(rest, 10), 4)))
    assert len(list(Ortrain.DataLoader(Items(), 4))) == 16


def child_handler_of_the_user():
    """A handler of SIGINT that raises nothing: it runs soon, and training goes on until it says so."""
    trainer, seen = make(), []
    signal.signal(signal.SIGINT, lambda *args: seen.append(args))
    say_when(lambda: trainer.get_session().step > 3)
    trainer.connect("epoch-ended", lambda *args: fail() if seen else None)
    try:
        trainer.fit()
    except Broken:
        pass
    assert len(seen) == 1


def child_handler_of_the_user_alone():
    """No handler of the trainer's is connected, and what that of the signal raises ends the training."""
    trainer = make()
    signal.signal(signal.SIGINT, fail)
    say_when(lambda: trainer.get_session().step > 3)
    try:
        trainer.fit()
    except Broken:
        print("broken")
    assert signal.getsignal(signal.SIGINT) is fail
    assert trainer.fit.__self__.get_session().step > 3


def child_in_another_thread():
    """The main thread is free; Ctrl-C is its own."""
    trainer, cancellable = make(), Gio.Cancellable()

    def work():
        try:
            trainer.fit(cancellable)
        except GLib.Error:
            pass

    def wait():
        while trainer.get_session().step <= 3:
            time.sleep(0.001)
        print("ready", flush=True)
        rest_for_long()

    thread = threading.Thread(target=work)
    thread.start()
    interrupted(wait)
    cancellable.cancel()
    thread.join()


def child_nested():
    """In a training that a handler of another started."""
    outer, inner = make(), make()

    def nested(*args):
        say_when(lambda: inner.get_session().step > 3)
        inner.fit()

    handler = outer.connect("progress", nested)
    interrupted(outer.fit)
    outer.disconnect(handler)
    fit_again(inner)
    fit_again(outer)


class Interrupts(unittest.TestCase):
    def test_all(self):
        children = [name for name in globals() if name.startswith("child_")]
        self.assertGreater(len(children), 10)
        for name in children:
            with self.subTest(name):
                child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--child", name], stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True)
                try:
                    self.assertEqual(child.stdout.readline(), "ready\n")
                    child.send_signal(signal.SIGINT)
                    out, errors = child.communicate(timeout=100)
                finally:
                    child.kill()
                    child.wait()
                self.assertEqual((child.returncode, out.splitlines()[-1:]), (0, ["done"]), errors)
                self.assertEqual(errors, "")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        globals()[sys.argv[2]]()
        print("done")
    else:
        main()
