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
