// SPDX-License-Identifier: LGPL-2.1-or-later
using Ortrain;
using Common;

class Squares : Dataset {
    public Squares () {
        Object ();
    }

    public override uint64 get_length () {
        return 10;
    }

    public override TensorDict get_item (uint64 index) throws Error {
        on_main_thread ();
        var item = new TensorDict ();
        item.set ("x", new Tensor.floats ({ 2 }, { index, index * index }));
        return item;
    }
}

void test_tensor () throws Error {
    var tensor = new Tensor.floats ({ 2, 3 }, { 1, 5, 2, 9, 0, 3 });
    assert (tensor.dtype == DType.FLOAT32 && tensor.rank == 2 && tensor.n_elements == 6 && tensor.n_bytes == 24);
    assert (tensor.get_dims ().length == 2 && tensor.get_dims ()[1] == 3);
    var argmax = tensor.argmax (1);
    assert (argmax.get_scalar (0) == 1 && argmax.get_scalar (1) == 0);
    assert (tensor.slice_rows (1, 2).get_scalar (0) == 9);
    assert (tensor.copy ().equal (tensor));
    assert (tensor.cast (DType.INT64).dtype == DType.INT64);
    assert ("float32" in tensor.to_string ());
    assert (fails (() => tensor.reshape ({ 4, 2 })) is TensorError.SHAPE);

    // The tensor's memory, without a copy
    float* view = (float*) tensor.get_address ();
    view[4] = 7;
    assert (tensor.get_scalar (4) == 7);

    tensor.save_npy (path ("a.npy"));
    assert (new Tensor.from_npy (path ("a.npy")).equal (tensor));
    tensor.release ();
    assert (fails (() => tensor.copy ()) is TensorError.RELEASED);
}

void test_storage () throws Error {
    var storage = new Storage (64);
    assert (storage.n_bytes == 64 && storage.writable);
    var tensor = new Tensor.for_storage (DType.FLOAT32, { 8 }, storage, 32);
    assert (tensor.get_address () == storage.get_address () + 32 && tensor.storage == storage);
}

void test_dict () throws Error {
    var dict = new TensorDict ();
    dict.set ("b", new Tensor.scalar (2));
    dict.set ("a", new Tensor.ints ({ 2 }, { 3, 4 }));
    assert (dict.size == 2 && dict.names[0] == "b" && dict.get_name (1) == "a" && dict.contains ("a"));
    assert (((Tensor) dict.get_item (1)).get_scalar (0) == 3);
    assert (dict["b"].get_scalar (0) == 2 && dict["c"] == null);
    dict["c"] = new Tensor.scalar (1);
    assert (dict.remove ("b") && !dict.remove ("b"));
    dict.save_npz (path ("d.npz"));
    assert (new TensorDict.from_npz (path ("d.npz"))["a"].get_scalar (1) == 4);
    dict.save_safetensors (path ("d.safetensors"));
    assert (new TensorDict.from_safetensors (path ("d.safetensors")).size == 2);
}

void test_dataset () throws Error {
    var loader = new DataLoader (new Squares (), 4);
    double sum = 0;
    var n = 0;
    for (var items = loader.next (); items != null; items = loader.next (), n++)
        for (var i = 0; i < items["x"].get_dim (0); i++)
            sum += items["x"].get_scalar (2 * i + 1);
    assert (n == 3 && sum == 285);

    FileUtils.set_contents (path ("table.csv"), "a,kind\n1,pear\n2,apple\n");
    var format = new CsvFormat ();
    format.add_input ("x", FLOAT32, null);
    format.add_target ("kind", INT64, null);
    var table = new TensorDataset.from_csv (path ("table.csv"), format);
    assert (table.tensors["kind"].get_scalar (0) == 1 && format.classes[0] == "apple" && format.header == CsvHeader.AUTO);
    var data = new TensorDataset (batch (10));
    assert (data.get_length () == 10 && data.get_item (3)["x"].get_dim (0) == 4 && data.slice (2, 5).get_length () == 3);
    var shuffled = new DataLoader (data, 4);
    shuffled.shuffle = true;
    shuffled.seed = 3;
    assert (shuffled.n_batches == 3);
    shuffled.next ();
    var state = shuffled.get_state ();
    var expected = shuffled.next ();
    var other = new DataLoader (data, 4);
    other.set_state (state);
    assert (other.next ()["x"].equal (expected["x"]));

    var tokens = new TokenDataset (new Tensor.ints ({ 5 }, { 0, 1, 2, 3, 4 }), 2, "input_ids", "labels");
    assert (tokens.get_length () == 2 && tokens.get_item (1)["labels"].get_scalar (1) == 4);
}

class AddOne : Transform {
    public override bool apply (TensorDict item, uint64 seed) throws Error {
        item["x"] = new Tensor.floats ({}, { (float) item["x"].get_scalar (0) + 1 });
        return true;
    }
}

void test_transforms () throws Error {
    var data = new TensorDataset (batch (10));
    var loader = new DataLoader (data, 4);
    loader.prefetch = 3;
    assert (loader.prefetch == 3 && data.is_thread_safe () && !new Squares ().is_thread_safe ());
    assert (loader.next ()["x"].equal (new DataLoader (data, 4).next ()["x"]));

    var seeds = new uint64[0];
    var first = new FunctionTransform ((item, seed) => {
        seeds += seed;
        item["x"] = new Tensor.floats ({}, { (float) item["x"].get_scalar (0) });
        return true;
    });
    var dataset = new TransformedDataset (data, { first, new AddOne (), new AddOne () });
    assert (dataset.get_item (3)["x"].get_scalar (0) == (float) data.get_item (3)["x"].get_scalar (0) + 1 + 1);
    assert (seeds.length == 1 && dataset.transforms.get_n_items () == 3 && dataset.dataset == data);
    var refused = new TransformedDataset (data, { new FunctionTransform ((item, seed) => {
        throw new DataError.INVALID ("No");
    }) });
    assert (fails (() => refused.get_item (2)) is DataError.INVALID);

    var part = new SubsetDataset (data, { 7, 3 });
    assert (part.get_length () == 2 && part.get_source_index (1) == 3 && part.get_item (0)["x"].equal (data.get_item (7)["x"]));

    var image = new TensorDict ();
    image["image"] = new Tensor.floats ({ 1, 2, 2 }, { 1, 2, 3, 4 });
    var crop = new CenterCrop (1, 2);
    crop.apply (image, 0);
    var normalize = new Normalize ({ 1 }, { 2 });
    assert (normalize.get_mean ()[0] == 1 && crop.height == 2);
    normalize.apply (image, 0);
    assert (image["image"].get_dim (2) == 1 && image["image"].get_scalar (1) == 1);
    var resize = new Resize.for_shorter_side (2);
    var flip = new RandomHorizontalFlip (1);
    assert (resize.shorter_side == 2 && flip.probability == 1 && resize.apply (image, 0) && flip.apply (image, 0));
    ImageTransform halve = new ToFloat (0.5);
    halve.input = "image";
    halve.apply (image, 0);
    assert (image["image"].get_dim (1) == 4 && image["image"].get_scalar (7) == 0.5 && new RandomCrop (2, 2, 1).padding == 1);
}

void test_pictures () throws Error {
    DirUtils.create_with_parents (path ("pictures/red"), 0777);
    var pixel = Base64.decode ("R0lGODdhAQABAPAAAP8AAAAAACwAAAAAAQABAAACAkQBADs=");
    FileUtils.set_data (path ("pictures/red/1.gif"), pixel);
    var images = new ImageFolder (path ("pictures"), "image", "labels", null);
    images.width = 2;
    images.channels = 1;
    assert (images.classes[0] == "red" && images.get_length () == 1 && images.get_item_path (0) == path ("pictures/red/1.gif"));
    assert (images.get_item (0)["image"].get_dim (2) == 2 && images.get_item (0)["labels"].get_scalar (0) == 0);
    assert (read_image (path ("pictures/red/1.gif"), 0, 0, 3).get_scalar (0) == 1);
    assert (fails (() => new ImageFolder (path ("pictures/red"), "image", "labels", null)) is DataError.EMPTY);
}

void test_checkpoint () throws Error {
    assert (fails (() => Checkpoint.load (path ("nothing"))) is CheckpointError.NOT_FOUND);
    var checkpoint = new Checkpoint ();
    checkpoint.set_tensors ("parameters", batch ());
    checkpoint.set_value ("step", new Variant.uint64 (7));
    checkpoint.save (path ("c"));
    var again = Checkpoint.load (path ("c"));
    assert (Checkpoint.exists (path ("c")) && again.get_value ("step").get_uint64 () == 7);
    assert (again.get_tensors ("parameters")["x"].equal (batch ()["x"]));
}

int main (string[] args) {
    unowned string[] rest = args;
    start (ref rest);
    Test.add_func ("/vala/tensor", () => works (test_tensor));
    Test.add_func ("/vala/storage", () => works (test_storage));
    Test.add_func ("/vala/tensor-dict", () => works (test_dict));
    Test.add_func ("/vala/dataset", () => works (test_dataset));
    Test.add_func ("/vala/pictures", () => works (test_pictures));
    Test.add_func ("/vala/transforms", () => works (test_transforms));
    Test.add_func ("/vala/checkpoint", () => works (test_checkpoint));
    return run ();
}
