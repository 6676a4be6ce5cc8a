// SPDX-License-Identifier: LGPL-2.1-or-later
// What properties, methods and Tensor.from () take: all is converted, or throws with text; nothing becomes 0 or NaN.
import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import Ortrain from 'gi://Ortrain?version=1.0';
import {assert, batch, close, equal, folder, linearModel, run, throws, trainingSession} from './tap.js';

// The error of a class, with words in its text.
function fails(type, words, f) {
    try {
        f();
    } catch (error) {
        assert(error instanceof type, `another error: ${error}`);
        assert(error.message.includes(words), `${error.message}: without ${words}`);
        assert(!/undefined is not|is not a function/.test(error.message), error.message);
        return;
    }
    throw new Error(`no error: ${words}`);
}

async function rejected(words, promise) {
    try {
        await promise;
    } catch (error) {
        assert(error.message.includes(words), `${error.message}: without ${words}`);
        return error;
    }
    throw new Error('no error');
}

const numbers = (...args) => {
    const tensor = Ortrain.Tensor.from(...args);
    return [tensor.shape, Object.keys(Ortrain.DType).find(key => Ortrain.DType[key] === tensor.dtype), Array.from(tensor.toTypedArray(), Number)];
};

const Returning = GObject.registerClass(class Returning extends Ortrain.LrSchedule {
    vfunc_evaluate() {
        return this.returned;
    }
});

const Stateful = GObject.registerClass(class Stateful extends Ortrain.LrSchedule {
    vfunc_evaluate() {
        return 1;
    }

    vfunc_save_state() {
        return this.saved;
    }

    vfunc_load_state() {
        return this.loaded;
    }
});

const Items = GObject.registerClass(class Items extends Ortrain.Dataset {
    vfunc_get_length() {
        return this.length ?? 4;
    }

    vfunc_get_item() {
        return this.item;
    }
});

const Count = GObject.registerClass(class Count extends Ortrain.Metric {
    vfunc_reset() {
    }

    vfunc_update() {
        return this.updated;
    }

    vfunc_compute() {
        return this.computed;
    }
});

const Mean = GObject.registerClass(class Mean extends Ortrain.Loss {
    vfunc_build(graph, output) {
        graph.add_node('ReduceMean', null, 'mean', [output.get_name()], ['the_mean']).set_attribute('keepdims', GLib.Variant.new_int64(0));
        graph.infer();
        return this.convert(graph.find_value('the_mean'));
    }
});

run({
    enumerations() {
        const options = new Ortrain.TrainingOptions({precision: 'bf16', offload: 'on', batch_norm: 'frozen'});
        equal([options.precision, options.offload, options.batch_norm], [Ortrain.Precision.BF16, Ortrain.Offload.ON, Ortrain.BatchNormMode.FROZEN]);
        options.precision = 'fp16';
        equal(options.precision, Ortrain.Precision.FP16);
        options.set_precision('f32');
        equal(options.precision, Ortrain.Precision.F32);
        options.batchNorm = 'train';
        options['batch-norm'] = 'frozen';
        equal(options.batch_norm, Ortrain.BatchNormMode.FROZEN);
        options.precision = Ortrain.Precision.BF16;
        fails(RangeError, 'TrainingOptions.precision is one of f32, bf16, fp16, not "bf61"; did you mean bf16?', () => (options.precision = 'bf61'));
        fails(RangeError, 'did you mean bf16?', () => (options.precision = 'BF16'));
        fails(RangeError, 'is one of f32, bf16, fp16, not 99', () => (options.precision = 99));
        for (const bad of [null, undefined, true, {}, [], 1n, NaN])
            fails(bad !== bad ? RangeError : TypeError, 'precision is one of', () => (options.precision = bad));
        fails(RangeError, 'precision is one of', () => new Ortrain.TrainingOptions({precision: 'half'}));
        fails(RangeError, 'TrainingOptions.set_precision (): precision is one of', () => options.set_precision('half'));
        equal(options.precision, Ortrain.Precision.BF16);
        equal(Ortrain.Tensor.from([1.5, 2.5]).cast('int64').dtype, Ortrain.DType.INT64);
        fails(RangeError, 'did you mean float32?', () => Ortrain.Tensor.from([1]).cast('flaot32'));
        equal(Ortrain.Tensor.new('float16', [2]).dtype, Ortrain.DType.FLOAT16);
        equal(Ortrain.GraphBuilder.new('g').add_input('x', 'float64', 'n').dtype, Ortrain.DType.FLOAT64);
    },

    numbers() {
        const adam = new Ortrain.AdamW({learning_rate: 0.5});
        for (const [bad, type] of [[-1, RangeError], [NaN, RangeError], ['0.1', TypeError], [null, TypeError], [undefined, TypeError], [{}, TypeError], [[1], TypeError], [true, TypeError], [2n ** 2000n, RangeError]]) {
            fails(type, 'AdamW.learning_rate', () => (adam.learning_rate = bad));
            fails(type, 'AdamW.learning_rate', () => new Ortrain.AdamW({learning_rate: bad}));
        }
        fails(RangeError, 'AdamW.learning_rate cannot be -1; the nearest that it takes is 0', () => new Ortrain.AdamW({learningRate: -1}));
        equal(adam.learning_rate, 0.5);
        fails(TypeError, 'needs a number, not "0.1"', () => adam.set_learning_rate('0.1'));
        const options = new Ortrain.TrainingOptions({threads: 2n, seed: 2n ** 60n});
        equal([options.threads, Number(options.seed)], [2, 2 ** 60]);
        for (const [bad, type] of [[1.5, TypeError], [-1, RangeError], [2 ** 40, RangeError], [NaN, RangeError], [Infinity, RangeError], ['2', TypeError], [null, TypeError], [{}, TypeError], [false, TypeError]]) {
            fails(type, 'threads', () => (options.threads = bad));
            fails(type, 'threads', () => options.set_threads(bad));
        }
        equal(options.threads, 2);
        const builder = Ortrain.GraphBuilder.new('numbers'), x = builder.add_input('x', 'float32', 'n, 4');
        assert(builder.linear(x, 'fc', 3n, true) !== null);
        fails(TypeError, 'GraphBuilder.linear (): n_features needs an integer, not 3.5', () => builder.linear(x, 'a', 3.5, true));
        fails(TypeError, 'n_features needs an integer, not "3"', () => builder.linear(x, 'a', '3', true));
        fails(TypeError, 'name needs a string, not 3', () => builder.linear(x, 3, 3, true));
        fails(TypeError, 'bias is missing', () => builder.linear(x, 'a', 3));
        for (const bad of ['no', null, {}, 2])
            fails(TypeError, 'bias needs true or false', () => builder.linear(x, 'a', 3, bad));
        fails(TypeError, 'dims[1] needs an integer, not "b"', () => Ortrain.Tensor.new('float32', [1, 'b']));
        fails(TypeError, 'dims needs an array, not 5', () => Ortrain.Tensor.new('float32', 5));
        fails(TypeError, 'dims[0] needs an integer, not 1.5', () => Ortrain.Tensor.from([1, 2]).reshape([1.5]));
        fails(TypeError, 'needs an integer', () => Ortrain.Tensor.from([1, 2]).get_scalar('1'));
    },

    booleansStringsAndObjects() {
        const options = new Ortrain.TrainingOptions();
        for (const bad of ['no', 'false', null, undefined, {}, 2, NaN]) {
            fails(TypeError, 'TrainingOptions.deterministic needs true or false', () => (options.deterministic = bad));
            fails(TypeError, 'deterministic needs true or false', () => new Ortrain.TrainingOptions({deterministic: bad}));
        }
        equal(options.deterministic, false);
        const loss = new Ortrain.CrossEntropyLoss({output: 'a', target: 'b', class_weights: [1, 2]});
        equal(Array.from(loss.class_weights.toTypedArray()), [1, 2]);
        for (const bad of [5, {}, ['a'], true])
            fails(TypeError, 'CrossEntropyLoss.output needs a string', () => (loss.output = bad));
        fails(TypeError, 'TrainingOptions.optimizer needs an Ortrain.Optimizer, not "adam"', () => (options.optimizer = 'adam'));
        fails(TypeError, 'needs an Ortrain.Optimizer', () => new Ortrain.TrainingOptions({optimizer: loss}));
        options.trainable = ['*.bias'];
        equal(options.trainable, ['*.bias']);
        fails(TypeError, 'trainable needs an array, not "*.bias"', () => (options.trainable = '*.bias'));
        fails(TypeError, 'trainable[1] needs a string, not 2', () => (options.trainable = ['a', 2]));
        options.schedule = null;
    },

    setProperty() {
        const options = new Ortrain.TrainingOptions();
        options.set_property('precision', 'bf16');
        options.set_property('max-grad-norm', 2);
        equal([options.precision, options.max_grad_norm], [Ortrain.Precision.BF16, 2]);
        options.set({precision: 'fp16', threads: 2});
        equal([options.precision, options.threads], [Ortrain.Precision.FP16, 2]);
        fails(TypeError, 'threads needs an integer, not "x"', () => options.set_property('threads', 'x'));
        fails(TypeError, 'no property precison; did you mean precision?', () => options.set_property('precison', 1));
        fails(RangeError, 'learning_rate cannot be -1', () => new Ortrain.Sgd().set_property('learning-rate', -1));
        fails(RangeError, 'precision is one of', () => options.set({precision: 'half'}));
    },

    objects() {
        for (const bad of [null, 5, 'model.onnx', {}, new Ortrain.Sgd()]) {
            fails(TypeError, 'model', () => Ortrain.InferenceSession.new(bad, null));
            fails(TypeError, 'model', () => new Ortrain.InferenceSession({model: bad}));
        }
        fails(TypeError, 'needs an Ortrain.Loss, not an object (Object)', () => new Ortrain.TrainingOptions().add_loss({}));
        fails(TypeError, 'needs an Ortrain.Tensor', () => Ortrain.Tensor.from([1]).equal(new Ortrain.Sgd()));
        fails(TypeError, 'data[0] needs an integer, not "a"', () => Ortrain.Tensor.new_for_data('uint8', [1], ['a']));
        fails(RangeError, 'data[1] needs an integer from 0 to 255, not 300', () => Ortrain.Tensor.new_for_data('uint8', [2], [1, 300]));
        fails(TypeError, 'data needs an array, not "ab"', () => Ortrain.Tensor.new_for_data('uint8', [2], 'ab'));
        equal(Array.from(Ortrain.Tensor.new_for_data('uint8', [2], [1, 2]).toTypedArray()), [1, 2]);
        equal(Array.from(Ortrain.Tensor.new_for_data('uint8', [2], new Uint8Array([1, 2])).toTypedArray()), [1, 2]);
        const cyclic = [];
        cyclic.push(cyclic);
        fails(TypeError, 'nested more than 16 deep', () => Ortrain.Tensor.from(cyclic));
    },

    unknownNames() {
        fails(TypeError, 'Ortrain.AdamW has no property learning_rat; did you mean learning_rate?', () => new Ortrain.AdamW({learning_rat: 1}));
        fails(TypeError, 'Ortrain.TrainingOptions has no property presicion; did you mean precision?', () => new Ortrain.TrainingOptions({presicion: 'bf16'}));
        fails(TypeError, 'Ortrain.WarmUpSchedule has no property warmUp; there are after, start_factor, steps', () => new Ortrain.WarmUpSchedule({warmUp: 5}));
        fails(TypeError, 'transforms needs an array of transforms or functions, not 5', () => new Ortrain.TransformedDataset({dataset: batch(), transforms: 5}));
        fails(TypeError, 'a transform is an Ortrain.Transform or a function, not 5', () => new Ortrain.TransformedDataset({dataset: batch(), transforms: [5]}));
        assert(new Ortrain.TransformedDataset({dataset: batch(), transforms: item => item}).get_length() === 8);
        fails(TypeError, 'path needs a string, not 5', () => new Ortrain.ImageFolder({path: 5}));
        fails(TypeError, 'path needs a string, not 5', () => new Ortrain.Model({path: 5}));
        fails(TypeError, 'has no property zzz', () => new Ortrain.Sgd({zzz: 1}));
        fails(TypeError, 'takes an object of properties, not 0.1', () => new Ortrain.Sgd(0.1));
        const session = trainingSession();
        fails(TypeError, 'Ortrain.Trainer has no property epoch; did you mean epochs?', () => new Ortrain.Trainer({session, dataset: batch(), epoch: 3}));
        fails(TypeError, 'Ortrain.Trainer has no property datset', () => new Ortrain.Trainer({session, dataset: batch(), datset: 3}));
        fails(TypeError, 'lacks dataset', () => new Ortrain.Trainer({session}));
        fails(RangeError, 'Trainer.epochs', () => new Ortrain.Trainer({session, dataset: batch(), epochs: -3}));
    },

    nestedArrays() {
        equal(numbers([[1, 2], [3, 4]]), [[2, 2], 'FLOAT32', [1, 2, 3, 4]]);
        equal(numbers([[[1], [2]], [[3], [4]]]), [[2, 2, 1], 'FLOAT32', [1, 2, 3, 4]]);
        equal(numbers([[true, false], [false, true]]), [[2, 2], 'BOOL', [1, 0, 0, 1]]);
        equal(numbers([new Float32Array([1, 2]), new Float32Array([3, 4])]), [[2, 2], 'FLOAT32', [1, 2, 3, 4]]);
        equal(numbers([[1, 2], [3, 4]], [4]), [[4], 'FLOAT32', [1, 2, 3, 4]]);
        equal(numbers([[1, 2], [3, 4]], undefined, 'int64'), [[2, 2], 'INT64', [1, 2, 3, 4]]);
        equal(numbers(5), [[], 'FLOAT32', [5]]);
        equal(numbers([]), [[0], 'FLOAT32', []]);
        equal(numbers([[], []]), [[2, 0], 'FLOAT32', []]);
        equal(numbers(new Set([1, 2])), [[2], 'FLOAT32', [1, 2]]);
        fails(TypeError, 'ragged: [0] has the shape [2], [1] has [1]', () => numbers([[1, 2], [3]]));
        fails(TypeError, 'ragged: [0][0] has the shape [], [0][1] has [1]', () => numbers([[1, [2]]]));
        fails(TypeError, 'ragged', () => numbers([1, [2]]));
        fails(TypeError, 'ragged', () => numbers([[], [1]]));
        const dict = Ortrain.TensorDict.from({x: [[1, 2], [3, 4]], n: 3n});
        equal([dict.get('x').shape, dict.get('n').shape, dict.get('n').dtype], [[2, 2], [], Ortrain.DType.INT64]);
    },

    bigIntegers() {
        equal(numbers([1n, -2n]), [[2], 'INT64', [1, -2]]);
        equal(numbers(new BigInt64Array([1n, 2n])), [[2], 'INT64', [1, 2]]);
        equal(numbers(new BigUint64Array([1n])), [[1], 'UINT64', [1]]);
        equal(numbers([1n, 2]), [[2], 'INT64', [1, 2]]);
        equal(numbers([[1n], [2n]], [2], 'float32'), [[2], 'FLOAT32', [1, 2]]);
        assert(Ortrain.Tensor.from([2n ** 63n]).toTypedArray()[0] === 2n ** 63n);
        equal(Ortrain.Tensor.from([2n ** 63n]).dtype, Ortrain.DType.UINT64);
        assert(Ortrain.Tensor.from([-(2n ** 63n)]).toTypedArray()[0] === -(2n ** 63n));
        fails(RangeError, 'uint64 is from 0 to 18446744073709551615', () => numbers([2n ** 64n]));
        fails(RangeError, 'int64 is from', () => numbers([2n ** 63n], [1], 'int64'));
        fails(RangeError, 'uint64 is from 0', () => numbers([2n ** 63n, -1n]));
        fails(TypeError, 'different kinds', () => numbers([1n, 2.5]));
        fails(RangeError, 'too large for float32', () => numbers([2n ** 200n], [1], 'float32'));
    },

    elements() {
        for (const [bad, words] of [['a', '"a"'], [undefined, 'undefined'], [null, 'null'], [{}, 'an object (Object)'], [() => 1, 'a function']]) {
            fails(TypeError, `element [1] is ${words}; a number, a bigint or a boolean is needed`, () => numbers([1, bad]));
            fails(TypeError, words, () => numbers([[1], [bad]]));
            fails(TypeError, `the value is ${words}`, () => numbers(bad));
            fails(TypeError, 'x: ', () => Ortrain.TensorDict.from({x: [1, bad]}));
        }
        fails(TypeError, 'of different kinds: number, boolean', () => numbers([1, true]));
        equal(numbers([NaN, Infinity])[1], 'FLOAT32');          // they were meant
        for (const [value, dtype] of [[1.5, 'int64'], [300, 'uint8'], [-1, 'uint32'], [NaN, 'int32'], [2 ** 40, 'int32'], [128, 'int8'], [1e39, 'float32'], [70000, 'float16'], [3.4e38 * 1.01, 'bfloat16']])
            fails(RangeError, '', () => numbers([value], [1], dtype));
        fails(TypeError, 'bool', () => numbers([2], [1], 'bool'));
        equal(numbers([1, 0], [2], 'bool'), [[2], 'BOOL', [1, 0]]);
        equal(Ortrain.Tensor.from([1, -2.5], [2], 'float16').to_string(), 'float16[2] 1 -2.5');
        equal(Ortrain.Tensor.from([1, -2.5], [2], 'bfloat16').to_string(), 'bfloat16[2] 1 -2.5');
        equal(Ortrain.Tensor.from(new Uint16Array([0x3c00]), [1], 'float16').to_string(), 'float16[1] 1');      // bits
        equal(numbers(new Float32Array([1, 2]), [2], 'int32'), [[2], 'INT32', [1, 2]]);         // elements, not bits
        equal(numbers(new Uint8ClampedArray([1, 2])), [[2], 'UINT8', [1, 2]]);
        equal(numbers(Ortrain.Tensor.from([1, 2]), [2, 1], 'int8'), [[2, 1], 'INT8', [1, 2]]);
        fails(TypeError, 'new Float32Array (buffer)', () => numbers(new ArrayBuffer(8)));
        fails(TypeError, 'new Float32Array (buffer)', () => numbers(new DataView(new ArrayBuffer(8))));
        fails(TypeError, 'shape[1] needs an integer', () => numbers([1, 2], [1, '2']));
        fails(TypeError, 'shape needs an array', () => numbers([1, 2], 2));
        fails(RangeError, 'dtype is one of', () => numbers([1], [1], 'complex'));
        fails(TypeError, 'no typed array', () => numbers([1], [1], 'complex64'));
        throws(Ortrain.TensorError, Ortrain.TensorError.SHAPE, () => Ortrain.Tensor.from([1, 2, 3], [2, 2]));
        for (const bad of [5, 'x', [1], true, new Float32Array(2)])
            fails(TypeError, 'an object of tensors is needed', () => trainingSession().train_step(bad));
    },

    binding() {
        const session = Ortrain.InferenceSession.new(linearModel(), null), binding = session.bind();
        fails(TypeError, 'needs an Ortrain.Tensor, whose memory is bound', () => binding.bind_output('logits', new Float32Array(24)));
        const out = Ortrain.Tensor.new('float32', [8, 3]);
        binding.bind_input('x', batch().x);
        binding.bind_output('logits', out);
        session.run_with_binding(binding);
        assert(out.equal(session.run({x: batch().x}).get('logits')));
    },

    async whatMayBeLeftOut() {
        const session = trainingSession(), trainer = new Ortrain.Trainer({session, dataset: batch(), show_progress: 'never', validation: batch()});
        equal(trainer.fit().get_n_epochs(), 1);
        equal((await trainer.fit_async()).get_n_epochs(), 1);
        equal((await trainer.fit_async(null)).get_n_epochs(), 1);
        const {x, labels} = batch();
        const [, loss] = trainer.evaluate({x, labels});
        close(loss, trainer.evaluate(Ortrain.TensorDataset.new(Ortrain.TensorDict.from({x, labels})), null)[1]);
        close((await trainer.evaluate_async({x, labels}))[0], loss);
        const other = trainingSession();
        close(other.train_step({x, labels}), await other.train_step_async({x, labels}));
        fails(TypeError, '', () => trainer.evaluate(5));
        fails(TypeError, 'Trainer.evaluate (): dataset is missing', () => trainer.evaluate());
    },

    async handlers() {
        const make = () => {
            const session = trainingSession();
            return [session, new Ortrain.Trainer({session, dataset: batch(64), batch_size: 8, epochs: 5, show_progress: 'never'})];
        };
        let [session, trainer] = make();
        trainer.connect('progress', () => {
            throw new RangeError('enough');
        });
        fails(RangeError, 'enough', () => trainer.fit());
        assert(session.step < 8 * 5, 'it went on');
        assert((await rejected('enough', trainer.fit_async())) instanceof RangeError);
        [session, trainer] = make();
        const id = session.connect('post-update', () => {
            throw new Error('stopped');
        });
        fails(Error, 'stopped', () => trainer.fit());
        assert(session.step <= 2, `${session.step} steps`);
        fails(Error, 'stopped', () => {
            session.train_step(batch());
            session.optimizer_step();
        });
        session.disconnect(id);
        const before = session.step;
        trainer.fit();              // it can be used
        assert(session.step >= before + 8);
        fails(TypeError, 'needs a function', () => trainer.connect('progress', 'x'));
        let n = 0;
        trainer.connect('progress', () => n++);
        trainer.fit();
        assert(n > 0);
    },

    returned() {
        const schedule = new Returning();
        for (schedule.returned of [0.5, [true, 0.5]])
            equal(schedule.evaluate(0), [true, 0.5]);
        for (schedule.returned of [undefined, null, '0.5', true, {}, [0.5], [true, 'a']])
            fails(Error, `vfunc_evaluate () returned ${schedule.returned === null ? 'null' : ''}`, () => schedule.evaluate(0));
        schedule.returned = 'half';
        fails(Error, 'returned "half"; the factor (a number), or [true, factor] is needed', () => schedule.evaluate(0));
        schedule.returned = NaN;
        throws(Ortrain.SessionError, Ortrain.SessionError.NOT_FINITE, () => schedule.evaluate(0));
        const items = new Items();
        items.item = {x: [1, 2, 3, 4], labels: 1n};
        equal(items.get_item(0).get('x').shape, [4]);
        equal(items.get_batch([0, 1]).get('labels').shape, [2]);
        for (items.item of [0.5, null, undefined, [1], 'x'])
            fails(Error, 'an object of tensors is needed', () => items.get_item(0));
        items.item = {x: ['a']};
        fails(Error, 'x: Tensor.from (): element [0] is "a"', () => items.get_item(0));
        for (items.length of [2.5, '3', -1])
            fails(TypeError, `returned ${JSON.stringify(items.length)}; the number of items is needed`, () => new Ortrain.Trainer({session: trainingSession(), dataset: items, show_progress: 'never'}).fit());
        const stateful = new Stateful(), session = trainingSession(null, {schedule: stateful}), where = GLib.build_filenamev([folder, 'state']);
        for (stateful.saved of [undefined, null, GLib.Variant.new_int32(5)])
            session.save_checkpoint(where);
        for (stateful.loaded of [undefined, true])
            session.load_checkpoint(where);
        stateful.loaded = 'yes';
        fails(TypeError, 'vfunc_load_state () returned "yes"; true or nothing is needed', () => session.load_checkpoint(where));
        for (stateful.saved of [{}, 5, 'x'])
            fails(TypeError, 'a GLib.Variant or null is needed', () => session.save_checkpoint(where));
        const metric = new Count({name: 'count'});
        const update = () => metric.update({y: [1]}, {x: [1]});
        for (metric.updated of [undefined, true])
            assert(update());
        for (metric.updated of [null, 0.5, 'yes'])
            fails(Error, 'true or nothing is needed', update);
        for (metric.computed of [0.25, [true, 0.25]])
            equal(metric.compute(), [true, 0.25]);
        metric.computed = 'best';
        fails(Error, 'vfunc_compute () returned "best"; a number, or [true, number] is needed', () => metric.compute());
        const apply = value => new Ortrain.FunctionTransform({function: () => value}).apply(Ortrain.TensorDict.from({x: [1]}), 0);
        for (const value of [undefined, true, {x: [2]}])
            assert(apply(value));
        for (const value of [0.5, 'x', [1], false])
            fails(Error, 'is needed', () => apply(value));
        const train = convert => {
            const loss = new Mean({output: 'logits'}), options = new Ortrain.TrainingOptions({optimizer: new Ortrain.Sgd()});
            loss.convert = convert;
            options.add_loss(loss);
            return Ortrain.TrainingSession.new(linearModel(), options).train_step({x: batch().x});
        };
        equal(train(value => value), train(value => [true, value]));
        fails(Error, 'vfunc_build () returned 0.5; the loss (an Ortrain.Value of the graph), or [true, loss] is needed', () => train(() => 0.5));
    },
});
