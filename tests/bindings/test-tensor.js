// SPDX-License-Identifier: LGPL-2.1-or-later
import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import Ortrain from 'gi://Ortrain?version=1.0';
import {assert, equal, folder, mainThread, run, thread, throws} from './tap.js';

const Squares = GObject.registerClass(class Squares extends Ortrain.Dataset {
    vfunc_get_length() {
        return 10;
    }

    vfunc_get_item(index) {
        equal(thread(), mainThread);
        return Ortrain.TensorDict.from({
            x: Ortrain.Tensor.from([Number(index), Number(index) ** 2]),
            labels: Ortrain.Tensor.from([Number(index) % 3], [], Ortrain.DType.INT64),
        });
    }
});

const path = name => GLib.build_filenamev([folder, name]);
const firsts = batch => [...batch.get('x').toTypedArray()].filter((_, i) => i % 2 === 0);

run({
    'typed arrays'() {
        for (const [Type, name] of [[Float32Array, 'FLOAT32'], [Float64Array, 'FLOAT64'], [Int8Array, 'INT8'],
            [Uint8Array, 'UINT8'], [Int16Array, 'INT16'], [Int32Array, 'INT32'], [Uint32Array, 'UINT32']]) {
            const tensor = Ortrain.Tensor.from(Type.from([1, 2, 3, 4, 5, 6]), [2, 3]);
            equal(tensor.dtype, Ortrain.DType[name]);
            equal(tensor.shape, [2, 3]);
            assert(tensor.toTypedArray() instanceof Type);
            equal([...tensor.toTypedArray()], [1, 2, 3, 4, 5, 6]);
        }
        const big = Ortrain.Tensor.from(BigInt64Array.from([1n, -2n]));
        equal(big.dtype, Ortrain.DType.INT64);
        equal([...big.toTypedArray()].map(Number), [1, -2]);
        equal([...Ortrain.Tensor.from([1, 2.5]).toTypedArray()], [1, 2.5]);
        equal(Ortrain.Tensor.from([1, 0], undefined, Ortrain.DType.INT64).dtype, Ortrain.DType.INT64);
    },

    'properties and text'() {
        const tensor = Ortrain.Tensor.from([1, 2, 3, 4], [2, 2]);
        equal([tensor.rank, tensor.n_elements, tensor.n_bytes], [2, 4, 16]);
        assert(`${tensor}`.includes('float32'));
        equal(tensor.get_scalar(3), 4);
        equal(tensor.get_dim(1), 2);
    },

    'operations'() {
        const tensor = Ortrain.Tensor.from([1, 5, 2, 9, 0, 3], [2, 3]);
        equal([...tensor.argmax(1).toTypedArray()].map(Number), [1, 0]);
        equal(tensor.reshape([3, 2]).shape, [3, 2]);
        equal([...tensor.slice_rows(1, 2).toTypedArray()], [9, 0, 3]);
        assert(tensor.copy().equal(tensor));
        throws(Ortrain.TensorError, Ortrain.TensorError.SHAPE, () => tensor.reshape([4, 2]));
    },

    'release'() {
        const tensor = Ortrain.Tensor.new(Ortrain.DType.FLOAT32, [4]);
        tensor.release();
        throws(Ortrain.TensorError, Ortrain.TensorError.RELEASED, () => tensor.copy());
    },

    'storage'() {
        const storage = Ortrain.Storage.new(64);
        equal([storage.n_bytes, storage.writable], [64, true]);
        const tensor = Ortrain.Tensor.new_for_storage(Ortrain.DType.FLOAT32, [8], storage, 32);
        equal(tensor.storage === storage, true);
    },

    'files'() {
        const tensor = Ortrain.Tensor.from([1, 2, 3]);
        tensor.save_npy(path('a.npy'));
        assert(Ortrain.Tensor.new_from_npy(path('a.npy')).equal(tensor));
        Ortrain.TensorDict.from({b: tensor, a: tensor}).save_npz(path('a.npz'));
        equal(Ortrain.TensorDict.new_from_npz(path('a.npz')).get_names(), ['b', 'a']);
    },

    'dictionary of tensors'() {
        const dict = Ortrain.TensorDict.from({b: [1, 2], a: Ortrain.Tensor.from([3])});
        equal([dict.size, dict.get_names(), dict.names], [2, ['b', 'a'], ['b', 'a']]);
        assert(dict instanceof Gio.ListModel);
        equal([...dict].map(tensor => tensor.shape), [[2], [1]]);
        equal(Object.keys(dict.toObject()), ['b', 'a']);
        equal([...dict.toObject().b.toTypedArray()], [1, 2]);
        equal(dict.get('c'), null);
        const changes = [];
        dict.connect('items-changed', (_dict, ...change) => changes.push(change));
        dict.set('c', Ortrain.Tensor.from([1]));
        equal(changes, [[2, 0, 1]]);
        equal(dict.remove('b'), true);
        assert(`${dict}`.includes('float32'));
    },

    'a dataset in JavaScript'() {
        const dataset = new Squares();
        equal(Number(dataset.get_length()), 10);
        equal([...dataset.get_batch([2, 5]).get('x').toTypedArray()], [2, 4, 5, 25]);
        const seen = [];
        for (const batch of Ortrain.DataLoader.new(dataset, 4))
            seen.push(firsts(batch));
        equal(seen, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]);
    },

    'loader'() {
        const x = Ortrain.Tensor.from(Float32Array.from({length: 20}, (_, i) => i), [10, 2]);
        const table = GLib.build_filenamev([GLib.get_tmp_dir(), `ortrain-${GLib.uuid_string_random()}.csv`]);
        GLib.file_set_contents(table, 'a,kind\n1,pear\n2,apple\n');
        const format = new Ortrain.CsvFormat({header: Ortrain.CsvHeader.YES});
        format.add_input('x', Ortrain.DType.FLOAT32, null);
        format.add_target('kind', Ortrain.DType.INT64, ['kind']);
        Ortrain.TensorDataset.new_from_csv(table, format);
        equal(format.get_classes(), ['apple', 'pear']);
        GLib.unlink(table);
        const dataset = Ortrain.TensorDataset.new(Ortrain.TensorDict.from({x}));
        const loader = Ortrain.DataLoader.new(dataset, 4);
        equal([loader.batch_size, Number(loader.n_batches), loader.shuffle], [4, 3, false]);
        loader.shuffle = true;
        loader.seed = 3;
        loader.next();
        const state = loader.get_state();
        const expected = firsts(loader.next());
        const other = Ortrain.DataLoader.new(dataset, 4);
        other.set_state(state);
        equal(firsts(other.next()), expected);
        equal(Number(dataset.slice(2, 5).get_length()), 3);
    },

    'prefetch and epochs'() {
        const x = Ortrain.Tensor.from(Float32Array.from({length: 20}, (_, i) => i), [10, 2]);
        const data = new Ortrain.TensorDataset({tensors: {x}});
        equal([data.is_thread_safe(), new Squares().is_thread_safe()], [true, false]);
        const [without, ahead] = [0, 3].map(prefetch => {
            const loader = new Ortrain.DataLoader({dataset: data, batch_size: 3, shuffle: true, prefetch});
            equal(loader.get_prefetch(), prefetch);
            return [...loader, ...loader].map(firsts);
        });
        equal(ahead, without);
        const batch = Ortrain.TensorDict.new();
        equal(data.fill_epoch_batch(1, [4, 2], batch), true);
        equal(firsts(batch), [8, 4]);
    },

    'transforms'() {
        const image = Ortrain.Tensor.from(Float32Array.from({length: 96}, (_, i) => i), [2, 1, 6, 8]);
        const data = new Ortrain.TensorDataset({tensors: {image}});
        const seeds = [];
        const dataset = new Ortrain.TransformedDataset({dataset: data, seed: 3, transforms: [
            new Ortrain.CenterCrop({width: 4, height: 2}), new Ortrain.Normalize({mean: [1], std: [2]}),
            (item, seed) => {
                seeds.push(seed);
                return {y: item.get('image')};
            },
            item => item.set('z', item.get('y')),
        ]});
        equal(dataset.transforms.get_item(1).get_mean(), [1]);
        const item = dataset.get_item(1);
        equal(item.get_names(), ['y', 'z']);
        equal(item.get('z').shape, [1, 2, 4]);
        equal([...item.get('y').toTypedArray()].slice(0, 2), [(48 + 18 - 1) / 2, (48 + 19 - 1) / 2]);
        equal([...new Ortrain.DataLoader({dataset, batch_size: 2})][0].get('y').shape, [2, 1, 2, 4]);
        equal([dataset.is_thread_safe(), dataset.transforms.get_n_items(), Number(dataset.seed)], [false, 4, 3]);
        equal([seeds[0] === seeds[2], seeds[1] !== seeds[2], seeds.every(Number.isSafeInteger)], [true, true, true]);
        equal(Ortrain.Resize.new_for_shorter_side(3).apply(data.get_item(0), 0), true);
        let said = '';
        try {
            new Ortrain.TransformedDataset({dataset: data, transforms: [() => {
                throw new Error('no item');
            }]}).get_item(0);
        } catch (error) {
            said = error.message;
        }
        equal(said, 'Item 0, FunctionTransform: no item');

        const pair = Ortrain.TensorDict.from({a: Ortrain.Tensor.from(new Uint8Array([0, 51]), [1, 1, 2])});
        const random = [new Ortrain.RandomCrop({width: 2, height: 1, padding: 0}),
            new Ortrain.RandomHorizontalFlip({probability: 1, input: 'a'}), new Ortrain.ToFloat(),
            new Ortrain.FunctionTransform({function: changed => changed.set('b', changed.get('a'))})];
        equal(random.map(transform => transform.is_thread_safe()), [true, true, true, false]);
        equal(random.map(transform => transform instanceof Ortrain.Transform && transform.apply(pair, 5)), [true, true, true, true]);
        equal([random[0].padding, random[1].get_input(), random[1] instanceof Ortrain.ImageTransform], [0, 'a', true]);
        equal([...pair.get('b').toTypedArray()].map(x => x.toFixed(3)), ['0.200', '0.000']);
        const Negate = GObject.registerClass(class Negate extends Ortrain.Transform {
            vfunc_apply(changed, seed) {
                changed.set('x', Ortrain.Tensor.from([seed]));
                return true;
            }
        });
        equal(firsts(Ortrain.TransformedDataset.new(new Squares(), [new Negate()]).get_batch([1]))[0] >= 0, true);
    },

    'pictures in folders'() {
        const where = path('pictures');
        for (const name of ['b', 'a']) {
            GLib.mkdir_with_parents(`${where}/${name}`, 0o777);
            // a GIF of one pixel
            const pixel = GLib.base64_decode('R0lGODdhAQABAPAAAP8AAAAAACwAAAAAAQABAAACAkQBADs=');
            GLib.file_set_contents(`${where}/${name}/1.gif`, pixel);
        }
        const images = new Ortrain.ImageFolder({path: where, width: 2, height: 3});
        equal(images.classes, ['a', 'b']);
        equal(images.get_item_path(1), `${where}/b/1.gif`);
        const batch = images.get_batch([0, 1]);
        equal(batch.get('image').shape, [2, 3, 3, 2]);
        equal([...batch.get('labels').toTypedArray()].map(Number), [0, 1]);
        equal([...batch.get('image').toTypedArray()].slice(4, 8), [1, 1, 0, 0]);
        equal(Ortrain.read_image(images.get_item_path(0), 0, 0, 1).shape, [1, 1, 1]);
        GLib.mkdir_with_parents(`${where}/c`, 0o777);
        throws(Ortrain.DataError, Ortrain.DataError.EMPTY, () => new Ortrain.ImageFolder({path: where}));
        throws(Ortrain.DataError, Ortrain.DataError.MISMATCH,
            () => new Ortrain.ImageFolder({path: where, image_name: 'x', classes: ['b']}));
    },

    'subsets'() {
        const part = new Ortrain.SubsetDataset({dataset: new Squares(), indices: [7, 3]});
        equal(firsts(part.get_batch([0, 1])), [7, 3]);
        equal([Number(part.get_length()), Number(part.get_source_index(1)), part.dataset instanceof Squares], [2, 3, true]);
    },

    'tokens'() {
        const tokens = Ortrain.Tensor.from(BigInt64Array.from({length: 13}, (_, i) => BigInt(i)));
        const dataset = Ortrain.TokenDataset.new(tokens, 4, 'input_ids', 'labels');
        equal(Number(dataset.get_length()), 3);
        equal([...dataset.get_item(1).get('labels').toTypedArray()].map(Number), [5, 6, 7, 8]);
    },

    'checkpoint'() {
        const where = path('checkpoint');
        throws(Ortrain.CheckpointError, Ortrain.CheckpointError.NOT_FOUND, () => Ortrain.Checkpoint.load(where));
        const checkpoint = Ortrain.Checkpoint.new();
        checkpoint.set_tensors('parameters', Ortrain.TensorDict.from({w: [1, 2, 3]}));
        checkpoint.set_value('step', GLib.Variant.new_uint64(7));
        checkpoint.save(where, null);
        const again = Ortrain.Checkpoint.load(where);
        equal([...again.get_tensors('parameters').get('w').toTypedArray()], [1, 2, 3]);
        equal(again.get_value('step').deepUnpack(), 7);
    },

    async 'checkpoint, awaited'() {
        const checkpoint = Ortrain.Checkpoint.new();
        checkpoint.set_tensors('parameters', Ortrain.TensorDict.from({w: [4]}));
        await checkpoint.save_async(path('awaited'), null);
        const again = await Ortrain.Checkpoint.load_async(path('awaited'), null);
        equal(again.get_tensors('parameters').get('w').get_scalar(0), 4);
    },

    'version'() {
        assert(Ortrain.check_version(1, 0, 0));
        assert(Ortrain.get_version().startsWith(`${Ortrain.get_major_version()}.`));
    },
});
