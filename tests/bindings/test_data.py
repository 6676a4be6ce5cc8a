# SPDX-License-Identifier: LGPL-2.1-or-later
import base64
import os
import struct
import threading
import unittest

import numpy as np
from gi.repository import GLib
from ortrain_tap import Ortrain, dataset, folder, main, save_png, training_session


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
        np.savez(path, **self.arrays, who=np.array(["a"] * 3), more=np.array([None, {}], dtype=object))
        dataset = Ortrain.TensorDataset(path)
        self.assertEqual(dataset.get_item(7)["x"].numpy().tolist(), [14, 15])
        self.assertEqual(sorted(dataset.tensors.keys()), ["labels", "x"])
        np.savez(path, x=np.zeros((10, 4), np.float32), labels=np.array(["a"] * 10))
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.Trainer(training_session(), Ortrain.TensorDataset(path), batch_size=5).fit()
        self.assertRegex(caught.exception.message, r"Input 'labels' is missing; labels\.npy: .* they are texts; number them")
        np.savez(path, labels=np.array(["a"] * 10))
        with self.assertRaisesRegex(GLib.Error, "labels.npy: .*they are texts"):
            Ortrain.TensorDataset(path)

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


def pictures(n=10, seed=0):
    rng = np.random.default_rng(seed)
    return {"image": rng.random((n, 3, 6, 8)).astype(np.float32), "labels": np.arange(n)}


class Transforms(unittest.TestCase):
    def apply(self, transform, image, seed=0):
        item = Ortrain.TensorDict({"image": image})
        self.assertTrue(transform.apply(item, seed))
        return item["image"].numpy()

    def test_images(self):
        image = pictures()["image"][0]
        crop = Ortrain.CenterCrop(4, 2)
        self.assertEqual((crop.get_width(), crop.get_height(), crop.width), (4, 2, 4))
        np.testing.assert_array_equal(self.apply(crop, image), image[:, 2:4, 2:6])
        np.testing.assert_array_equal(self.apply(Ortrain.CenterCrop.new(4, 2), image), image[:, 2:4, 2:6])
        crop = Ortrain.RandomCrop.new(5, 3, 1)
        self.assertEqual((crop.get_width(), crop.get_height(), crop.get_padding()), (5, 3, 1))
        padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
        found = {(y, x) for seed in range(200) for y in range(6) for x in range(6)
                 if np.array_equal(self.apply(crop, image, seed), padded[:, y:y + 3, x:x + 5])}
        self.assertEqual(len(found), 36)
        flip = Ortrain.RandomHorizontalFlip(probability=1)
        self.assertEqual(flip.get_probability(), 1)
        np.testing.assert_array_equal(self.apply(flip, image), image[:, :, ::-1])
        np.testing.assert_array_equal(self.apply(Ortrain.RandomHorizontalFlip.new(0), image), image)
        normalize = Ortrain.Normalize([0.5, 0.4, 0.3], [0.1, 0.2, 0.3])
        self.assertEqual((normalize.get_mean(), normalize.get_std()), ([0.5, 0.4, 0.3], [0.1, 0.2, 0.3]))
        np.testing.assert_allclose(self.apply(normalize, image),
                                   (image - np.float32([[[0.5]], [[0.4]], [[0.3]]])) / np.float32([[[0.1]], [[0.2]], [[0.3]]]), rtol=1e-5)
        self.assertEqual(Ortrain.Normalize(0.5, 0.25).get_mean(), [0.5])
        self.assertEqual(Ortrain.Normalize.new([0.5], [0.25]).get_std(), [0.25])
        resize = Ortrain.Resize.new(4, 3)
        self.assertEqual((resize.get_width(), resize.get_height(), resize.get_shorter_side()), (4, 3, 0))
        self.assertEqual(self.apply(resize, image).shape, (3, 3, 4))
        self.assertEqual(self.apply(Ortrain.Resize.new_for_shorter_side(12), image).shape, (3, 12, 16))
        self.assertEqual(self.apply(Ortrain.Resize(shorter_side=3), image).shape, (3, 3, 4))
        to_float = Ortrain.ToFloat.new(0.5)
        self.assertEqual((to_float.get_scale(), Ortrain.ToFloat().scale), (0.5, 1 / 255))
        np.testing.assert_array_equal(self.apply(to_float, np.uint8([[[3]]])), [[[1.5]]])
        two = Ortrain.TensorDict({"a": image, "b": image})
        crop = Ortrain.CenterCrop(2, 2, input="b")
        self.assertIsInstance(crop, Ortrain.ImageTransform)
        self.assertEqual((crop.get_input(), crop.is_thread_safe()), ("b", True))
        crop.apply(two)
        self.assertEqual((two["a"].shape, two["b"].shape), ((3, 6, 8), (3, 2, 2)))
        crop.set_input("a")
        crop.apply(two)
        self.assertEqual(two["a"].shape, (3, 2, 2))

    def test_functions(self):
        """A mapping, nothing, another set of names; with and without the seed."""
        source = Ortrain.TensorDataset(pictures())
        seen = []

        def change(item):
            item["labels"] = item["labels"].numpy() + 100

        def note(item, seed):
            seen.append((int(item["labels"]), seed))
            return {"x": item["image"].numpy().sum(axis=0), "labels": item["labels"]}

        function = Ortrain.FunctionTransform(note)
        dataset = Ortrain.TransformedDataset(source, [change, function, lambda item: {**item, "y": np.zeros(2)}], seed=4)
        self.assertEqual((dataset.get_dataset(), list(dataset.get_transforms())[1], dataset.get_seed()), (source, function, 4))
        self.assertFalse(dataset.is_thread_safe() or function.is_thread_safe())
        batch = next(iter(Ortrain.DataLoader(dataset, 3)))
        self.assertEqual({name: batch[name].shape for name in batch}, {"labels": (3,), "x": (3, 6, 8), "y": (3, 2)})
        self.assertEqual(batch["labels"].numpy().tolist(), [100, 101, 102])
        self.assertEqual(int(source[0]["labels"]), 0)
        first, seen[:] = list(seen), []
        dataset[0], dataset[1], dataset[2]
        self.assertEqual(seen, first)
        self.assertTrue(all(0 <= seed < 2 ** 53 for _, seed in seen))
        dataset.set_seed(5)
        seen.clear()
        dataset[0]
        self.assertNotEqual(seen, first[:1])
        raw = Ortrain.FunctionTransform.new(lambda item, seed, *data: item.remove("labels"))
        self.assertEqual(Ortrain.TransformedDataset.new(source, [raw])[0].get_names(), ["image"])

    def test_errors(self):
        def broken(item):
            if int(item["labels"]) == 4:
                raise KeyError("no four")

        source = Ortrain.TensorDataset(pictures())
        loader = Ortrain.DataLoader(Ortrain.TransformedDataset(source, broken), 3)
        loader.next()
        with self.assertRaises(KeyError) as caught:
            loader.next()
        self.assertEqual(caught.exception.args, ("no four",))
        with self.assertRaises(TypeError):
            Ortrain.DataLoader(Ortrain.TransformedDataset(source, [lambda item: 3]), 3).next()
        for wrong in (lambda: Ortrain.TransformedDataset(source, [3]), lambda: Ortrain.FunctionTransform("f"),
                      lambda: Ortrain.TransformedDataset(source, 3)):
            self.assertRaises(TypeError, wrong)
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.Normalize([0.5], [0])
        self.assertTrue(caught.exception.matches(Ortrain.data_error_quark(), Ortrain.DataError.INVALID))
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.TransformedDataset(source, [Ortrain.RandomCrop(9, 9)])[3]
        self.assertIn("Item 3, RandomCrop: A part of 9 x 9", caught.exception.message)

    def test_classes(self):
        class Add(Ortrain.Transform):
            def do_apply(self, item, seed):
                item["labels"] = item["labels"].numpy() + 1000
                return True

        dataset = Ortrain.TransformedDataset(pictures(), [Add(), Add()])
        self.assertEqual(int(dataset[3]["labels"]), 2003)
        self.assertFalse(dataset.is_thread_safe())
        self.assertTrue(Ortrain.TransformedDataset(pictures(), []).is_thread_safe())

    def test_subsets(self):
        source = Ortrain.TensorDataset(pictures())
        part = Ortrain.SubsetDataset(source, np.array([5, 2]))
        self.assertEqual((len(part), part.get_dataset(), part.get_source_index(1), part.get_source_index(2)), (2, source, 2, -1))
        self.assertEqual(part.get_batch([0, 1])["labels"].numpy().tolist(), [5, 2])
        self.assertEqual([int(item["labels"]) for item in Ortrain.SubsetDataset(part, range(1, -1, -1))], [2, 5])
        self.assertTrue(Ortrain.SubsetDataset.new(source, [3]).is_thread_safe())
        self.assertFalse(Ortrain.SubsetDataset([{"x": 1.0}], [0]).is_thread_safe())
        with self.assertRaises(GLib.Error):
            Ortrain.SubsetDataset(source, [10])

    def test_sequences(self):
        """Lists of mappings, and whatever else has items."""
        class Items:
            def __len__(self):
                return 7

            def __getitem__(self, index):
                return {"x": np.float32([index, 1, 2, 3]), "labels": index % 3}

        for source in (Items(), [Items()[i] for i in range(7)]):
            batches = list(Ortrain.DataLoader(source, 4))
            self.assertEqual([batch["labels"].numpy().tolist() for batch in batches], [[0, 1, 2, 0], [1, 2, 0]])
            history = Ortrain.Trainer(training_session(), source, batch_size=4).fit()
            self.assertEqual(len(history.losses), 2)
        kept = [{"x": np.float32([1])}]
        self.assertEqual(Ortrain.TransformedDataset(kept, lambda item: {"x": item["x"].numpy() + 1})[0]["x"].numpy(), 2)
        self.assertEqual(kept[0]["x"], 1)
        with self.assertRaises(TypeError):
            Ortrain.DataLoader("text")

    def test_shared_inputs(self):
        """An input without a dimension for the batch is part of every batch; a last batch that does not fit names drop_last."""
        builder = Ortrain.GraphBuilder.new("masked")
        x = builder.add_input("x", Ortrain.DType.FLOAT32, "5, 4")
        mask = builder.add_input("mask", Ortrain.DType.FLOAT32, "4")
        builder.add_output(builder.linear(builder.add_op("Mul", None, [x.get_name(), mask.get_name()], ["masked"], None), "fc", 3, True), "logits")
        model, data, values = builder.build(), dataset(13), np.float32([1, 0, 2, 1])
        trainer = Ortrain.Trainer(training_session(model), data, batch_size=5, shared_inputs={"mask": values}, validation=data, drop_last=True)
        self.assertEqual(trainer.shared_inputs["mask"].numpy().tolist(), values.tolist())
        history = trainer.fit()
        self.assertEqual(len(history.losses), 2)
        tensors = data.get_tensors()
        whole = Ortrain.TensorDataset({"x": tensors["x"].numpy() * values, "labels": tensors["labels"].numpy()})
        trainer.shared_inputs = {"mask": np.ones(4, np.float32)}
        loss = trainer.evaluate(whole)[1]
        trainer.shared_inputs = Ortrain.TensorDict({"mask": values})
        self.assertEqual(trainer.evaluate(data)[1], loss)
        trainer.drop_last = False
        with self.assertRaisesRegex(GLib.Error, "the last batch has fewer items than the others, and drop-last leaves it out"):
            trainer.fit()
        trainer.shared_inputs = {"mask": values, "x": values}
        with self.assertRaisesRegex(GLib.Error, "The items of the dataset have a tensor 'x', and so have the shared inputs"):
            trainer.fit()
        trainer.shared_inputs = None
        self.assertIsNone(trainer.shared_inputs)
        with self.assertRaisesRegex(GLib.Error, "'mask' is missing"):
            trainer.evaluate(data)

    def test_resume(self):
        """A training that goes on in the middle of an epoch sees the items that it would have seen."""
        rng = np.random.default_rng(0)
        data = {"image": rng.random((40, 1, 2, 2)).astype(np.float32), "labels": rng.integers(0, 3, 40)}

        def flat(item, seed):
            noise = np.random.default_rng(seed).normal(0, 0.1, 4)
            return {"x": (item["image"].numpy().ravel() + noise).astype(np.float32), "labels": item["labels"]}

        dataset = Ortrain.TransformedDataset(data, [Ortrain.RandomCrop(2, 2, 1), Ortrain.RandomHorizontalFlip(), flat], seed=2)
        whole = training_session()
        Ortrain.Trainer(whole, dataset, batch_size=8, epochs=3).fit()
        where, parts = os.path.join(folder, "resumed"), training_session()
        options = dict(batch_size=8, checkpoint_dir=where, checkpoint_steps=1, restore_best=False)
        trainer = Ortrain.Trainer(parts, dataset, epochs=3, **options)
        trainer.connect("progress", lambda trainer, progress: progress.epoch == 2 and progress.step == 3 and trainer.stop())
        trainer.fit()
        parts = training_session()
        Ortrain.Trainer(parts, dataset, epochs=3, resume=True, **options).fit()
        for name, value in whole.get_parameters().items():
            np.testing.assert_array_equal(value.numpy(), parts.get_parameters()[name].numpy())


TURNED = (
    "/9j/4AAQSkZJRgABAQAAAQABAAD/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoM"
    "DAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUVDA8XGBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU"
    "FBQUFBQUFBQUFBQUFBT/wAARCAAIABADAREAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAABwj/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAA"
    "AAAAAAAAAAAACQf/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCdEMKmAjjB0f/Z"
)


class ImageFolders(unittest.TestCase):
    def make(self, name, classes=("b", "a", "c d"), n=4):
        where = os.path.join(folder, name)
        for k, one in enumerate(classes):
            os.makedirs(os.path.join(where, one))
            for i in range(n):
                save_png(os.path.join(where, one, f"{i}.png"), 6, 4, bytes([50 * k, 10 * i, 255]) * 24)
        return where

    def test_items(self):
        where = self.make("pictures")
        images = Ortrain.ImageFolder(where)
        self.assertEqual((len(images), images.classes, images.get_classes()), (12, ["a", "b", "c d"], ["a", "b", "c d"]))
        self.assertEqual(images.get_item_path(5), os.path.join(where, "b", "1.png"))
        self.assertIsNone(images.get_item_path(12))
        item = images[5]
        self.assertEqual((item["image"].shape, item["labels"].shape, int(item["labels"])), ((3, 4, 6), (), 1))
        np.testing.assert_array_equal(item["image"].numpy()[:, 2, 3], np.float32([0, 10, 255]) / np.float32(255))
        images.set_width(3)
        images.set_height(2)
        images.set_channels(1)
        self.assertEqual((images.get_width(), images.get_height(), images.get_channels()), (3, 2, 1))
        self.assertEqual(images[0]["image"].shape, (1, 2, 3))
        self.assertTrue(Ortrain.read_image(images.get_item_path(0), 3, 2, 1).equal(images[0]["image"]))
        images.set_max_pixels(23)
        self.assertEqual(images.get_max_pixels(), 23)
        with self.assertRaises(GLib.Error) as caught:
            images[7]
        self.assertTrue(caught.exception.matches(Ortrain.data_error_quark(), Ortrain.DataError.INVALID))
        self.assertIn("b/3.png: The picture has 6 x 4 pixels, the limit is 23 pixels", caught.exception.message)

    def test_training(self):
        where = self.make("training")
        images = Ortrain.ImageFolder(where, "x", "labels", width=2, height=2, channels=1)
        self.assertTrue(images.is_thread_safe())
        flat = Ortrain.TransformedDataset(images, [lambda item: {"x": item["x"].numpy().ravel(), "labels": item["labels"]}])
        trainer = Ortrain.Trainer(training_session(), flat, batch_size=4, epochs=2)
        self.assertEqual(len(trainer.fit().losses), 6)
        part = self.make("validation", ["c d"])
        given = Ortrain.ImageFolder(part, classes=images.classes)
        self.assertEqual((int(given[0]["labels"]), given.classes), (2, ["a", "b", "c d"]))
        self.assertEqual(int(Ortrain.ImageFolder.new(part, "image", "labels", None)[0]["labels"]), 0)
        for wrong, said in (lambda: Ortrain.ImageFolder(where, classes=["a", "b"]), "'c d' is not one of the 2 classes, 'a', 'b'"), \
                (lambda: Ortrain.ImageFolder(os.path.join(where, "a")), "There are no folders here"), \
                (lambda: Ortrain.read_image(__file__, 0, 0, 3), "test_data.py: "):
            with self.assertRaises(GLib.Error) as caught:
                wrong()
            self.assertIn(said, caught.exception.message)
        with self.assertRaises(TypeError):
            Ortrain.ImageFolder(where, classes="ab")

    def test_orientation(self):
        """A JPEG of 16 x 8 pixels, red and then blue, which its EXIF data say to turn a quarter."""
        path = os.path.join(folder, "turned.jpg")
        with open(path, "wb") as file:
            file.write(base64.b64decode(TURNED))
        image = Ortrain.read_image(path, 0, 0, 3).numpy()
        self.assertEqual(image.shape, (3, 16, 8))
        self.assertGreater(image[0, 2, 4], 0.9)         # red is above
        self.assertGreater(image[2, 13, 4], 0.9)
        with open(path, "wb") as file:
            file.write(base64.b64decode(TURNED)[:-20])
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.read_image(path, 0, 0, 3)
        self.assertIn("turned.jpg: ", caught.exception.message)


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


class Separators(unittest.TestCase):
    def test_no_separator(self):
        """A separator that cannot be one is an error of the table, not a warning."""
        path = os.path.join(folder, "separators.csv")
        with open(path, "w") as file:
            file.write("x;y\n1;2\n3;4\n")
        for separator in ("", ";;", "\n", '"', "€"):
            table = Ortrain.CsvFormat(separator=separator)
            table.add_input("x", Ortrain.DType.FLOAT32, None)
            with self.assertRaisesRegex(Ortrain.DataError, "The separator of a table is one ASCII character"):
                Ortrain.TensorDataset.new_from_csv(path, table)


if __name__ == "__main__":
    main()
