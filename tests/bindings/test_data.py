# SPDX-License-Identifier: LGPL-2.1-or-later
import os
import struct
import threading
import unittest

import numpy as np
from gi.repository import GLib
from ortrain_tap import Ortrain, folder, main, training_session


class Squares(Ortrain.Dataset):
    """A dataset written in Python."""

    def do_get_length(self):
        return 10

    def do_get_item(self, index):
        assert threading.current_thread() is threading.main_thread()
        return Ortrain.TensorDict({"x": np.float32([index, index ** 2]), "labels": np.int64(index % 3)})


class Batches(Ortrain.Dataset):
    def do_get_length(self):
        return 6

    def do_get_batch(self, indices, n_indices):
        return Ortrain.TensorDict({"x": np.array(indices[:n_indices], np.float64)})


class Broken(Ortrain.Dataset):
    def do_get_length(self):
        return 3

    def do_get_item(self, index):
        raise GLib.Error("the disk is on fire", "ortrain-data-error-quark", int(Ortrain.DataError.INVALID))


class Subclasses(unittest.TestCase):
    def test_items(self):
        dataset = Squares()
        self.assertEqual(dataset.get_length(), 10)
        self.assertEqual(dataset.get_item(3)["x"].numpy().tolist(), [3, 9])
        batch = dataset.get_batch([2, 5])
        self.assertEqual(batch["x"].numpy().tolist(), [[2, 4], [5, 25]])
        self.assertEqual(batch["labels"].numpy().tolist(), [2, 2])

    def test_loader(self):
        batches = list(Ortrain.DataLoader(Squares(), 4))
        self.assertEqual([b["x"].shape for b in batches], [(4, 2), (4, 2), (2, 2)])
        self.assertEqual(np.concatenate([b["x"].numpy()[:, 0] for b in batches]).tolist(), list(range(10)))

    def test_batches(self):
        self.assertEqual([b["x"].numpy().tolist() for b in Ortrain.DataLoader(Batches(), 3)], [[0, 1, 2], [3, 4, 5]])

    def test_error_arrives(self):
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.DataLoader(Broken(), 2).next()
        self.assertIn("the disk is on fire", caught.exception.message)
        self.assertTrue(caught.exception.matches(Ortrain.data_error_quark(), Ortrain.DataError.INVALID))


class TensorDatasets(unittest.TestCase):
    def setUp(self):
        self.arrays = {"x": np.arange(20, dtype=np.float32).reshape(10, 2), "labels": np.arange(10)}

    def test_mapping(self):
        dataset = Ortrain.TensorDataset(self.arrays)
        self.assertIsInstance(dataset, Ortrain.Dataset)
        self.assertEqual(dataset.get_length(), 10)
        self.assertEqual(dataset.tensors["x"].get_address(), self.arrays["x"].ctypes.data)
        self.assertEqual(dataset.slice(4, 7).get_length(), 3)

    def test_npz(self):
        path = os.path.join(folder, "data.npz")
        np.savez(path, **self.arrays)
        dataset = Ortrain.TensorDataset(path)
        self.assertEqual(dataset.get_item(7)["x"].numpy().tolist(), [14, 15])

    def test_idx(self):
        images, labels = os.path.join(folder, "images"), os.path.join(folder, "labels")
        with open(images, "wb") as file:
            file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 2, 2, 2) + bytes([0, 255, 51, 102, 1, 2, 3, 4]))
        with open(labels, "wb") as file:
            file.write(struct.pack(">BBBBI", 0, 0, 8, 1, 2) + bytes([7, 9]))
        dataset = Ortrain.TensorDataset.new_from_idx(images, labels, "image", "labels")
        item = dataset.get_item(0)
        np.testing.assert_allclose(item["image"].numpy().ravel(), [0, 1, 0.2, 0.4], rtol=1e-6)
        self.assertEqual(int(item["labels"]), 7)
        self.assertEqual(dataset.get_item(0)["labels"].dtype, Ortrain.DType.INT64)

    def test_csv(self):
        path = os.path.join(folder, "data.csv")
        with open(path, "w") as file:
            file.write("a,b,label\n1,2,pear\n3,4,apple\n")
        format = Ortrain.CsvFormat.new()
        format.add_input("x", Ortrain.DType.FLOAT32, None)
        format.add_target("labels", Ortrain.DType.INT64, ["label"])
        dataset = Ortrain.TensorDataset.new_from_csv(path, format)
        self.assertEqual(dataset.tensors["x"].numpy().tolist(), [[1, 2], [3, 4]])
        self.assertEqual(dataset.tensors["labels"].numpy().tolist(), [1, 0])
        self.assertEqual((format.get_classes(), format.props.classes), (["apple", "pear"], ["apple", "pear"]))
        format.save_classes(os.path.join(folder, "classes.json"))
        other = Ortrain.CsvFormat(header=Ortrain.CsvHeader.YES)
        self.assertEqual(other.get_header(), Ortrain.CsvHeader.YES)
        other.set_header(Ortrain.CsvHeader.NO)
        other.load_classes(os.path.join(folder, "classes.json"))
        self.assertEqual(other.get_classes(), ["apple", "pear"])
        other.set_classes(["pear", "apple"])
        self.assertEqual(other.get_classes(), ["pear", "apple"])
        session = training_session()
        rows = Ortrain.CsvFormat.new_for_graph(session.get_training_graph(), ["label"])
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.TensorDataset.new_from_csv(path, rows)
        self.assertIn("'x' needs 4 numbers per item, but the table has 2 columns for it", caught.exception.message)

    def test_item_index(self):
        loader = Ortrain.DataLoader(Ortrain.TensorDataset({"x": np.arange(10)}), 4)
        loader.props.shuffle = True
        self.assertEqual(loader.get_item_index(0), -1)
        for rows in loader:
            values = rows["x"].numpy().tolist()
            self.assertEqual([loader.get_item_index(i) for i in range(len(values))], values)
            self.assertEqual(loader.get_item_index(len(values)), -1)

    def test_mismatch(self):
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.TensorDataset({"x": np.zeros((3, 2)), "labels": np.zeros(4)})
        self.assertTrue(caught.exception.matches(Ortrain.data_error_quark(), Ortrain.DataError.MISMATCH))

    def test_tokens(self):
        dataset = Ortrain.TokenDataset.new(Ortrain.Tensor(np.arange(13)), 4, "input_ids", "labels")
        self.assertEqual(dataset.get_length(), 3)
        item = dataset.get_item(1)
        self.assertEqual(item["input_ids"].numpy().tolist(), [4, 5, 6, 7])
        self.assertEqual(item["labels"].numpy().tolist(), [5, 6, 7, 8])


class Loaders(unittest.TestCase):
    def make(self, **properties):
        loader = Ortrain.DataLoader(Ortrain.TensorDataset({"x": np.arange(10)}), 3)
        for name, value in properties.items():
            setattr(loader, name, value)
        return loader

    def test_properties(self):
        loader = self.make(drop_last=True)
        self.assertEqual((loader.batch_size, loader.shuffle, loader.n_batches), (3, False, 3))
        self.assertEqual(len(list(loader)), 3)
        loader.drop_last = False
        self.assertEqual(loader.n_batches, 4)

    def test_shuffle(self):
        orders = []
        for seed in (1, 1, 2):
            loader = self.make(shuffle=True, seed=seed)
            orders.append([x for batch in loader for x in batch["x"].numpy().tolist()])
        self.assertEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], orders[2])
        self.assertEqual(sorted(orders[0]), list(range(10)))

    def test_state(self):
        loader = self.make(shuffle=True, seed=5)
        loader.next()
        state = loader.get_state()
        expected = loader.next()["x"].numpy().tolist()
        other = self.make(shuffle=True)
        other.set_state(state)
        self.assertEqual(other.next()["x"].numpy().tolist(), expected)
        with self.assertRaises(GLib.Error):
            other.set_state(GLib.Variant("a{sv}", {}))


    def test_prefetch(self):
        orders = []
        for prefetch in (0, 1, 3):
            loader = self.make(shuffle=True, seed=3, prefetch=prefetch)
            self.assertEqual(loader.get_prefetch(), prefetch)
            orders.append([x for epoch in range(3) for batch in loader for x in batch["x"].numpy().tolist()])
        self.assertEqual(len(orders[0]), 30)
        self.assertEqual(orders[0], orders[1])
        self.assertEqual(orders[0], orders[2])
        loader.set_prefetch(2)
        self.assertEqual(loader.prefetch, 2)
        with self.assertRaises(ValueError):
            loader.prefetch = 65

    def test_prefetch_in_training(self):
        rng = np.random.default_rng(0)
        data = {"x": rng.standard_normal((50, 4)).astype(np.float32), "labels": rng.integers(0, 3, 50)}
        losses = []
        for prefetch in (0, 1, 5):
            trainer = Ortrain.Trainer(training_session(), data, batch_size=8, epochs=3, validation=data, prefetch=prefetch)
            self.assertEqual(trainer.get_prefetch(), prefetch)
            losses.append(trainer.fit().losses.tolist())
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])
        trainer.set_prefetch(3)
        self.assertEqual(trainer.prefetch, 3)

    def test_prefetch_in_python(self):
        """What is written in Python is called by the thread that calls the loader, in the order of the batches."""
        threads = []

        class Items(Ortrain.Dataset):
            def __len__(self):
                return 10

            def __getitem__(self, index):
                threads.append((index, threading.get_ident()))
                return {"x": np.float32(index)}

        items = Items()
        self.assertFalse(items.is_thread_safe())
        self.assertTrue(Ortrain.TensorDataset({"x": np.arange(10)}).is_thread_safe())
        loader = Ortrain.DataLoader(items, 4)
        loader.next()
        self.assertEqual(threads, [(i, threading.get_ident()) for i in range(4)])

    def test_reset(self):
        loader = self.make()
        first = loader.next()["x"].numpy().tolist()
        loader.next()
        loader.reset()
        self.assertEqual(loader.next()["x"].numpy().tolist(), first)

    def test_fill_batch(self):
        dataset = Ortrain.TensorDataset({"x": np.arange(10)})
        batch = Ortrain.TensorDict({"x": np.zeros(3, np.int64)})
        address = batch["x"].get_address()
        self.assertTrue(dataset.fill_batch([7, 1, 4], batch))
        self.assertEqual((batch["x"].numpy().tolist(), batch["x"].get_address()), ([7, 1, 4], address))
        self.assertTrue(dataset.fill_batch([2], batch))         # another shape: another tensor
        self.assertEqual(batch["x"].numpy().tolist(), [2])
        with self.assertRaises(GLib.Error):
            dataset.fill_batch([10], batch)
        self.assertTrue(dataset.fill_epoch_batch(3, [5], batch))
        self.assertEqual(batch["x"].numpy().tolist(), [5])

    def test_epochs(self):
        class Items(Ortrain.Dataset):
            def do_get_length(self):
                return 4

            def do_fill_epoch_batch(self, epoch, indices, n_indices, batch):
                batch["x"] = Ortrain.Tensor(np.array([100 * epoch + i for i in indices[:n_indices]]))
                return True

        loader = Ortrain.DataLoader(Items(), 3)
        loader.epoch = 2
        self.assertEqual([x["x"].numpy().tolist() for _ in range(2) for x in loader],
                         [[200, 201, 202], [203], [300, 301, 302], [303]])
        self.assertEqual(int(Items().get_item(3)["x"]), 3)

    def test_conversion(self):
        dataset = Ortrain.TensorDataset({"x": np.uint8([[0, 51], [102, 255]])})
        dataset.set_conversion("x", Ortrain.DType.FLOAT32, 1 / 255)
        np.testing.assert_allclose(dataset.get_item(1)["x"].numpy(), [0.4, 1.0], rtol=1e-6)
        with self.assertRaises(GLib.Error) as caught:
            dataset.set_conversion("y", Ortrain.DType.FLOAT32, 1)
        self.assertIn("y", caught.exception.message)


class Checkpoints(unittest.TestCase):
    def test_round(self):
        path = os.path.join(folder, "checkpoint")
        self.assertFalse(Ortrain.Checkpoint.exists(path))
        checkpoint = Ortrain.Checkpoint.new()
        checkpoint.set_tensors("parameters", Ortrain.TensorDict({"w": np.arange(5.0)}))
        checkpoint.set_file("notes", GLib.Bytes.new(b"hello"))
        checkpoint.set_value("step", GLib.Variant("t", 7))
        self.assertTrue(checkpoint.save(path, None))
        self.assertTrue(Ortrain.Checkpoint.exists(path))
        again = Ortrain.Checkpoint.load(path)
        self.assertIn("parameters", again.get_sections())
        self.assertEqual(again.get_tensors("parameters")["w"].numpy().tolist(), [0, 1, 2, 3, 4])
        self.assertEqual(again.get_file("notes").get_data(), b"hello")
        self.assertEqual(again.get_files(), ["notes"])
        self.assertEqual(again.get_value("step").unpack(), 7)
        self.assertEqual(again.metadata.unpack(), {"step": 7})

    def test_absent(self):
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.Checkpoint.load(os.path.join(folder, "nothing"))
        self.assertTrue(caught.exception.matches(Ortrain.checkpoint_error_quark(), Ortrain.CheckpointError.NOT_FOUND))

    def test_async(self):
        path, loop, loaded = os.path.join(folder, "async-checkpoint"), GLib.MainLoop(), []
        checkpoint = Ortrain.Checkpoint(max_shard_bytes=100)
        checkpoint.set_tensors("parameters", Ortrain.TensorDict({str(i): np.full(20, i, np.float32) for i in range(5)}))

        def on_loaded(source, result):
            loaded.append(Ortrain.Checkpoint.load_finish(result))
            loop.quit()

        def on_saved(source, result):
            self.assertTrue(source.save_finish(result))
            Ortrain.Checkpoint.load_async(path, None, on_loaded)

        checkpoint.save_async(path, None, on_saved)
        loop.run()
        self.assertEqual(float(loaded[0].get_tensors("parameters")["3"].numpy().sum()), 60)


if __name__ == "__main__":
    main()
