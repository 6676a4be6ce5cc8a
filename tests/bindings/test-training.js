// SPDX-License-Identifier: LGPL-2.1-or-later
import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import Ortrain from 'gi://Ortrain?version=1.0';
import {
    assert, batch, close, equal, folder, linearModel, logitsOf, mainThread, rejects, run, thread, throws, trainingSession,
} from './tap.js';

const PHASES = ['pre-forward', 'post-forward', 'pre-backward', 'post-backward', 'pre-update', 'post-update'];
const path = name => GLib.build_filenamev([folder, name]);

function crossEntropy(rows) {
    const losses = rows.map((row, i) => Math.log(row.reduce((sum, z) => sum + Math.exp(z), 0)) - row[i % 3]);
    return losses.reduce((a, b) => a + b) / losses.length;
}

function dataset(n = 48) {
    const {x} = batch(n);
    const rows = x.toTypedArray();
    const labels = BigInt64Array.from({length: n}, (_, i) => rows[4 * i] > 0 ? 1n : 0n);
    return Ortrain.TensorDataset.new(Ortrain.TensorDict.from({x, labels: Ortrain.Tensor.from(labels)}));
}

const Numbers = GObject.registerClass(class Numbers extends Ortrain.Dataset {
    vfunc_get_length() {
        equal(thread(), mainThread);
        return 8;
    }

    vfunc_get_item(index) {
        equal(thread(), mainThread);
        return Ortrain.TensorDict.from({
            x: [1, 2, 3, Number(index)], labels: Ortrain.Tensor.from([Number(index) % 3], [], Ortrain.DType.INT64),
        });
    }
});

const Halves = GObject.registerClass(class Halves extends Ortrain.LrSchedule {
    vfunc_evaluate(step) {
        equal(thread(), mainThread);
        return [true, 0.5 ** Number(step)];
    }
});

const Counting = GObject.registerClass(class Counting extends Ortrain.Metric {
    vfunc_reset() {
        this.n = (this.n ?? 0) + 1;
    }

    vfunc_update() {
        return true;
    }

    vfunc_compute() {
        return [true, this.n];
    }
});

const Largest = GObject.registerClass(class Largest extends Ortrain.Metric {
    vfunc_reset() {
        this.largest = -Infinity;
    }

    vfunc_update(outputs, _batch) {
        equal(thread(), mainThread);
        this.largest = Math.max(this.largest, outputs.get('logits').get_scalar(0));
        return true;
    }

    vfunc_compute() {
        return [true, -Math.abs(this.largest)];
    }
});

const Broken = GObject.registerClass(class Broken extends Ortrain.LrSchedule {
    vfunc_evaluate(step) {
        if (Number(step) === 1)
            throw new Error('no such step');
        return [true, Number(step) === 0 ? 1 : Infinity];
    }
});

const Signs = GObject.registerClass(class Signs extends Ortrain.Optimizer {
    vfunc_get_state_names() {
        return ['count'];
    }

    vfunc_update(name, parameter, gradient, state, step, learningRate, weightDecay, gradientScale) {
        equal(thread(), mainThread);
        const g = gradient.toTypedArray(), count = state.get('count');
        equal(count.toTypedArray().every(n => n === Number(step) - 1), true);
        if (name === this.failing)
            throw new Error('no such sign');
        const write = (tensor, numbers) => tensor.set_bytes(new GLib.Bytes(new Uint8Array(Float32Array.from(numbers).buffer)));
        write(parameter, parameter.toTypedArray().map((w, i) => w - learningRate * Math.sign(g[i] * gradientScale)));
        write(count, count.toTypedArray().map(n => n + 1));
        return true;
    }
});

run({
    'loss against arithmetic'() {
        const session = trainingSession(), feeds = batch();
        const expected = crossEntropy(logitsOf(session.model.get_graph(), feeds.x.toTypedArray()));
        close(session.train_step(feeds), expected);
        session.optimizer_step();
        equal([Number(session.step), Number(session.n_train_steps)], [1, 1]);
        assert(session.train_step(feeds) < expected);
        equal(session.get_gradients().get('fc.weight').shape, [3, 4]);
    },

    'evaluation'() {
        const session = trainingSession(), feeds = batch();
        equal(session.eval_step({x: feeds.x}).get_names(), ['logits']);
        const outputs = session.eval_step(feeds);
        close(outputs.get('loss').get_scalar(0), session.train_step(feeds));
    },

    'phase signals, on this thread'() {
        const session = trainingSession(), seen = [];
        for (const phase of PHASES) {
            session.connect(phase, (_session, report) => {
                assert(report instanceof Ortrain.MemoryReport);
                seen.push([phase, report.phase, Number(report.step), thread()]);
            });
        }
        session.train_step(batch());
        session.optimizer_step();
        equal(seen, PHASES.map(phase => [phase, phase.replace('-', '_'), 1, mainThread]));
    },

    async 'phase signals of asynchronous steps, on this thread'() {
        const session = trainingSession(), seen = [];
        for (const phase of PHASES)
            session.connect(phase, () => seen.push([phase, thread()]));
        const loss = await session.train_step_async(batch(), null);
        equal(thread(), mainThread);
        assert(loss > 0);
        await session.optimizer_step_async(null);
        equal(seen, PHASES.map(phase => [phase, mainThread]));
    },

    async 'cancellation'() {
        const session = trainingSession(), cancellable = new Gio.Cancellable();
        cancellable.cancel();
        await rejects(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED, session.train_step_async(batch(), cancellable));
        assert(session.train_step(batch()) > 0);
    },

    async 'other asynchronous pairs'() {
        const options = new Ortrain.TrainingOptions({optimizer: new Ortrain.Sgd()});
        options.add_loss(Ortrain.CrossEntropyLoss.new('logits', 'labels'));
        const session = await Ortrain.TrainingSession.new_async(linearModel(), options, null);
        const outputs = await session.eval_step_async(batch(), null);
        equal(outputs.get('logits').shape, [8, 3]);
        await session.save_checkpoint_async(path('awaited'), null);
        await session.load_checkpoint_async(path('awaited'), null);
        await session.export_async(path('awaited.onnx'), null);
        assert(GLib.file_test(path('awaited.onnx'), GLib.FileTest.EXISTS));
        await Ortrain.Checkpoint.load(path('awaited')).export_async(path('exported.onnx'), null);
        await Ortrain.Model.new_from_file(path('exported.onnx')).save_async(path('saved.onnx'), null);
        const inference = await Ortrain.InferenceSession.new_async(Ortrain.Model.new_from_file(path('saved.onnx')), null, null);
        close(inference.run({x: batch().x}).get('logits').get_scalar(2), outputs.get('logits').get_scalar(2));
        const trainer = Ortrain.Trainer.new(session, dataset());
        equal(await trainer.evaluate_async(dataset(), null), trainer.evaluate(dataset(), null).slice(1));
    },

    async 'every asynchronous pair, cancelled'() {
        const session = trainingSession(), cancellable = new Gio.Cancellable();
        session.train_step(batch());
        session.save_checkpoint(path('whole'));
        cancellable.cancel();
        const options = new Ortrain.TrainingOptions();
        options.add_loss(Ortrain.CrossEntropyLoss.new('logits', 'labels'));
        for (const start of [
            () => Ortrain.TrainingSession.new_async(linearModel(), options, cancellable),
            () => session.train_step_async(batch(), cancellable),
            () => session.optimizer_step_async(cancellable),
            () => session.eval_step_async(batch(), cancellable),
            () => session.export_async(path('no.onnx'), cancellable),
            () => session.save_checkpoint_async(path('no'), cancellable),
            () => session.load_checkpoint_async(path('whole'), cancellable),
            () => Ortrain.Checkpoint.load_async(path('whole'), cancellable),
            () => Ortrain.Checkpoint.new().save_async(path('no'), cancellable),
            () => Ortrain.Trainer.new(session, dataset()).fit_async(cancellable),
            () => Ortrain.Trainer.new(session, dataset()).evaluate_async(dataset(), cancellable),
            () => Ortrain.InferenceSession.new_async(linearModel(), null, cancellable),
            () => Ortrain.Checkpoint.load(path('whole')).export_async(path('no.onnx'), cancellable),
            () => linearModel().save_async(path('no.onnx'), cancellable),
        ])
            await rejects(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED, start());
        assert(!GLib.file_test(path('no.onnx'), GLib.FileTest.EXISTS) && !Ortrain.Checkpoint.exists(path('no')));
        session.optimizer_step();       // as it was: the gradients are there still
        equal(Number(session.step), 1);
    },

    'an update that would not be finite'() {
        const session = trainingSession(null, {max_grad_norm: 1, stop_on_nan: false}), feeds = batch();
        let seen = 0;
        session.connect('overflow', () => {
            equal(thread(), mainThread);
            seen++;
        });
        feeds.x = Ortrain.Tensor.from(Float32Array.from({length: 32}, () => NaN), [8, 4]);
        const before = session.get_parameters().get('fc.weight').copy();
        session.train_step(feeds);
        session.optimizer_step();
        equal([Number(session.step), seen], [0, 1]);
        assert(session.get_parameters().get('fc.weight').equal(before));
    },

    'a scale of the loss that is too large'() {
        const scaler = new Ortrain.LossScaler({initial_scale: 2 ** 24, growth_interval: 5});
        const session = trainingSession(null, {precision: Ortrain.Precision.FP16, loss_scaler: scaler});
        const before = session.get_parameters().get('fc.weight').copy();
        let seen = 0;
        session.connect('overflow', () => {
            equal(thread(), mainThread);
            seen++;
        });
        session.train_step(batch());
        session.optimizer_step();
        equal([Number(session.step), Number(session.n_overflows), session.loss_scale, seen], [0, 1, 2 ** 23, 1]);
        assert(session.get_parameters().get('fc.weight').equal(before));
        for (let i = 0; i < 19; i++) {
            session.train_step(batch());
            session.optimizer_step();
        }
        equal(Number(session.step) + seen, 20);
        assert(seen > 5 && seen < 15 && !session.get_parameters().get('fc.weight').equal(before));
    },

    'misuse'() {
        const session = trainingSession();
        throws(Ortrain.SessionError, Ortrain.SessionError.STATE, () => session.optimizer_step());
        const options = new Ortrain.TrainingOptions();
        options.set_trainable(['nothing.*']);
        options.add_loss(Ortrain.CrossEntropyLoss.new('logits', 'labels'));
        assert(throws(Ortrain.SessionError, Ortrain.SessionError.OPTION,
            () => Ortrain.TrainingSession.new(linearModel(), options)).includes('nothing'));
    },

    'memory report'() {
        const session = trainingSession();
        let line = '';
        session.connect('post-backward', (_session, report) => {
            line = `${report}`;
            equal(report.max_allocated, Number(session.memory_plan.peak_bytes));
            for (const field of ['rank', 'allocated', 'cached', 'max_cached', 'inactive', 'max_inactive', 'param', 'grad', 'buffer'])
                assert(report[field] >= 0, field);
        });
        session.train_step(batch());
        assert(/^rank-0 step 1 memory \(MiB\) \| phase: post_backward \| allocated: \d+ \| max allocated: \d+ \|/.test(line), line);
    },

    'recompute clusters'() {
        const session = trainingSession();
        session.plan(Ortrain.TensorDict.from(batch()));
        const rows = [...session.get_recompute_clusters()];
        assert(rows.length > 0 && rows.every(row => row instanceof Ortrain.RecomputeCluster && row.id.endsWith('+')));
        equal(rows[0].evaluate('batch=8'), [true, Number(rows[0].saving_bytes)]);
        assert(session.format_recompute_table(true).includes(rows[0].configuration));
        equal(JSON.parse(session.recompute_to_json()).clusters.length, rows.length);
    },

    'memory plan'() {
        const session = trainingSession();
        const plan = session.plan(Ortrain.TensorDict.from(batch()));
        assert(plan instanceof Ortrain.MemoryPlan);
        const blocks = [...plan.blocks];
        assert(blocks.length > 3 && blocks.every(block => block instanceof Ortrain.MemoryBlock && block.first <= block.last));
        const steps = [...plan.steps];
        assert(steps.length === plan.n_steps && steps.every(step => step instanceof Ortrain.MemoryStep && step.milliseconds > 0));
        equal(Math.max(...steps.map(step => Number(step.live_bytes))), Number(steps[plan.peak_step].live_bytes));
        const weight = blocks.find(block => block.name === 'fc.weight');
        equal([Number(weight.bytes), weight.category], [48, 'parameter']);
        equal(JSON.parse(plan.to_json()).peak_bytes, Number(plan.peak_bytes));
        assert(plan.to_svg().includes('<svg') && `${plan}`.includes('peak'));
        plan.save_svg(path('plan.svg'));
        plan.save_html(path('plan.html'));
        plan.save_json(path('plan.json'));
    },

    'plan-changed'() {
        const session = trainingSession(), plans = [];
        session.connect('plan-changed', (_session, plan) => plans.push([plan instanceof Ortrain.MemoryPlan, thread()]));
        for (const n of [8, 8, 5])
            session.train_step(batch(n));
        equal(plans, [[true, mainThread], [true, mainThread]]);
    },

    'a loss that is not a number'() {
        const session = trainingSession();
        let seen = 0;
        session.connect('not-finite', () => seen++);
        const feeds = batch();
        feeds.x = Ortrain.Tensor.from(Float32Array.from({length: 32}, () => NaN), [8, 4]);
        const told = throws(Ortrain.SessionError, Ortrain.SessionError.NOT_FINITE, () => session.train_step(feeds));
        assert(told.includes("the input 'x' holds nan at index [0, 0]"), told);
        equal(seen, 1);
        const lenient = trainingSession(null, {stop_on_nan: false});
        assert(Number.isNaN(lenient.train_step(feeds)));
    },

    'a schedule that throws'() {
        const session = trainingSession(null, {schedule: new Broken()});
        session.train_step(batch());
        session.optimizer_step();
        session.train_step(batch());
        try {
            session.optimizer_step();
            assert(false);
        } catch (error) {
            assert(error.message.includes('at step 1') && error.message.includes('no such step'), error.message);
        }
        equal(Number(session.step), 1);
        throws(Ortrain.SessionError, Ortrain.SessionError.NOT_FINITE, () => new Broken().evaluate(2));
    },

    'errors'() {
        const session = trainingSession(), {x, labels} = batch();
        assert(throws(Ortrain.SessionError, Ortrain.SessionError.FEED, () => session.train_step({x})).includes('labels'));
        throws(Ortrain.SessionError, Ortrain.SessionError.FEED, () => session.train_step({x: labels, labels}));
        const far = Ortrain.Tensor.from(BigInt64Array.from({length: 8}, () => 99n));
        throws(Ortrain.SessionError, Ortrain.SessionError.INDEX, () => session.train_step({x, labels: far}));
        assert(session.train_step({x, labels}) > 0);
    },

    'labels in an array of JavaScript'() {
        const session = trainingSession(), {x} = batch(2);
        const refused = labels => throws(Ortrain.SessionError, Ortrain.SessionError.FEED, () => session.train_step({x, labels}));
        const plain = [0, 2], column = [[0n], [2n]], rows = [[1, 0, 0], [0, 0.5, 0.5]];
        let told = refused(plain);
        assert(told.includes('JavaScript: [0n, 1n], or Int32Array.from(labels)'), told);
        assert(session.train_step({x, labels: [0n, 2n]}) > 0 && session.train_step({x, labels: Int32Array.from(plain)}) > 0);
        told = refused(column);
        assert(told.includes('JavaScript: labels.flat()'), told);
        assert(session.train_step({x, labels: column.flat()}) > 0);
        told = refused(rows);
        assert(told.includes('JavaScript: Int32Array.from(labels, row => row.indexOf(Math.max(...row)))'), told);
        assert(session.train_step({x, labels: Int32Array.from(rows, row => row.indexOf(Math.max(...row)))}) > 0);
    },

    'optimizers'() {
        for (const optimizer of [new Ortrain.Sgd({learning_rate: 0.5, momentum: 0.9}), new Ortrain.Adam({learning_rate: 0.05}),
            new Ortrain.AdamW({learning_rate: 0.05}), new Ortrain.Lamb({learning_rate: 0.05}), new Ortrain.Adagrad({learning_rate: 0.3})]) {
            assert(optimizer instanceof Ortrain.Optimizer);
            const session = trainingSession(optimizer), feeds = batch(), losses = [];
            for (let i = 0; i < 30; i++) {
                losses.push(session.train_step(feeds));
                session.optimizer_step();
            }
            assert(losses[29] < losses[0], `${optimizer}`);
        }
        equal(Ortrain.AdamW.new(0.25).learning_rate, 0.25);
    },

    'an optimizer of our own'() {
        const optimizer = new Signs({learning_rate: 0.25}), session = trainingSession(optimizer), feeds = batch();
        for (let step = 0; step < 3; step++) {
            session.train_step(feeds);
            const before = session.get_parameters().toObject(), gradients = session.get_gradients().toObject();
            optimizer.failing = 'fc.bias';
            try {
                session.optimizer_step();
                assert(false);
            } catch (error) {
                assert(error.message.includes("'fc.bias'") && error.message.includes('no such sign'), error.message);
            }
            equal(Number(session.step), step);
            optimizer.failing = null;
            session.optimizer_step();
            const after = session.get_parameters().toObject();
            for (const name in before) {
                const g = gradients[name].toTypedArray(), w = before[name].toTypedArray(), moved = after[name].toTypedArray();
                moved.forEach((x, i) => close(x, w[i] - 0.25 * Math.sign(g[i])));
            }
        }
    },

    'live properties and groups'() {
        const optimizer = new Ortrain.Sgd({learning_rate: 0.1});
        const group = optimizer.add_group('*.bias', 0.5, -1);
        assert(group instanceof Ortrain.ParameterGroup && group.matches('fc.bias') && !group.matches('fc.weight'));
        equal(optimizer.groups.get_n_items(), 1);
        let notified = 0;
        optimizer.connect('notify::learning-rate', () => notified++);
        const session = trainingSession(optimizer);
        session.train_step(batch());
        optimizer.learning_rate = 0.25;
        equal([notified, session.get_current_learning_rate()], [1, 0.25]);
    },

    'properties of each class'() {
        const table = [
            [Ortrain.Sgd, {momentum: 0.5, nesterov: true, weight_decay: 0.25, learning_rate: 0.75}],
            [Ortrain.Adam, {beta1: 0.5, beta2: 0.75, epsilon: 0.125, weight_decay: 0.25, bias_correction: false}],
            [Ortrain.AdamW, {beta1: 0.5, beta2: 0.75, epsilon: 0.125, weight_decay: 0.25, bias_correction: false, mode: Ortrain.AdamwMode.DECAY_LAST}],
            [Ortrain.Lamb, {beta1: 0.5, beta2: 0.75, epsilon: 0.125, weight_decay: 0.25, bias_correction: true, ratio_min: 0.5, ratio_max: 2}],
            [Ortrain.Adagrad, {epsilon: 0.125, initial_accumulator: 0.5, learning_rate_decay: 0.25, weight_decay: 0.25}],
            [Ortrain.ConstantSchedule, {factor: 0.5}],
            [Ortrain.LinearSchedule, {total_steps: 10, end_factor: 0.5}],
            [Ortrain.CosineSchedule, {total_steps: 10, cycles: 1.5, end_factor: 0.5}],
            [Ortrain.PolynomialSchedule, {total_steps: 10, power: 3, end_factor: 0.5}],
            [Ortrain.StepSchedule, {step_size: 7, gamma: 0.5}],
            [Ortrain.OneCycleSchedule, {total_steps: 10, rise: 0.5, initial_divisor: 8, final_divisor: 16}],
            [Ortrain.PlateauSchedule, {gamma: 0.5, patience: 3, threshold: 0.25, least_factor: 0.125}],
            [Ortrain.WarmUpSchedule, {steps: 7, start_factor: 0.5}],
            [Ortrain.EpochSchedule, {updates_per_epoch: 7}],
            [Ortrain.CrossEntropyLoss, {axis: 1, ignore_index: 7, label_smoothing: 0.25, weight: 2, output: 'a', target: 'b'}],
            [Ortrain.HuberLoss, {delta: 0.25}],
            [Ortrain.NllLoss, {axis: 1, ignore_index: 7, weight: 2, output: 'a', target: 'b'}],
            [Ortrain.ParameterGroup, {learning_rate_multiplier: 0.5, weight_decay: 0.25}],
            [Ortrain.ModelLimits, {max_depth: 9, max_function_depth: 9, max_graph_depth: 9, max_items: 9, max_model_bytes: 9,
                max_name_bytes: 9, max_nodes: 9, max_rank: 9, max_tensor_bytes: 9, max_tensors: 9, allow_links: true, allow_external_data: false}],
            [Ortrain.TrainingOptions, {max_grad_norm: 0.5, accumulation_steps: 3, seed: 9, threads: 2, rank: 1, deterministic: true,
                print_memory: true, batch_norm: Ortrain.BatchNormMode.FROZEN}],
        ];
        for (const [Class, values] of table) {
            const made = new Class(values), changed = new Class(), notified = [];
            changed.connect('notify', (_object, pspec) => notified.push(pspec.name.replace(/-/g, '_')));
            for (const [name, value] of Object.entries(values)) {
                assert(changed[name] !== value, `${Class.name}.${name} is ${value} by default`);
                changed[`set_${name}`](value);
                changed[`set_${name}`](value);      // told once
                for (const object of [made, changed])
                    equal([object[name], object[`get_${name}`]()], [value, value]);
            }
            equal(notified, Object.keys(values));
        }
        const after = Ortrain.ConstantSchedule.new(0.5), warmUp = Ortrain.WarmUpSchedule.new(4, after);
        assert(warmUp.after === after);
        const weights = Ortrain.Tensor.from([1, 2, 3]), loss = new Ortrain.CrossEntropyLoss({class_weights: weights});
        assert(loss.class_weights === weights);
    },

    'a loss with weights, smoothing and an index that is ignored'() {
        const {x} = batch(), weights = [1, 2, 4];
        const labels = Ortrain.Tensor.from(BigInt64Array.from([0n, 1n, 2n, 9n, 0n, 9n, 2n, 1n]));
        const options = new Ortrain.TrainingOptions();
        options.add_loss(new Ortrain.CrossEntropyLoss({
            output: 'logits', target: 'labels', ignore_index: 9, label_smoothing: 0.25, class_weights: Ortrain.Tensor.from(weights),
        }));
        let sum = 0, total = 0;
        logitsOf(linearModel().get_graph(), x.toTypedArray()).forEach((row, i) => {
            const label = [0, 1, 2, 9, 0, 9, 2, 1][i], top = Math.log(row.reduce((s, z) => s + Math.exp(z), 0));
            if (label === 9)
                return;
            const each = row.map((z, k) => weights[k] * (top - z));
            sum += 0.75 * each[label] + 0.25 / 3 * each.reduce((a, b) => a + b);
            total += weights[label];
        });
        close(Ortrain.TrainingSession.new(linearModel(), options).train_step({x, labels}), sum / total);
    },

    'schedules'() {
        const factor = (schedule, step) => {
            assert(schedule instanceof Ortrain.LrSchedule);
            const [found, value] = schedule.evaluate(step);
            assert(found);
            return value;
        };
        close(factor(Ortrain.ConstantSchedule.new(0.5), 3), 0.5);
        close(factor(Ortrain.LinearSchedule.new(100), 25), 0.75);
        close(factor(Ortrain.CosineSchedule.new(100), 50), 0.5);
        close(factor(Ortrain.PolynomialSchedule.new(100, 2), 50), 0.25);
        close(factor(Ortrain.StepSchedule.new(10, 0.1), 25), 0.01);
        close(factor(Ortrain.WarmUpSchedule.new(10, null), 50), 1);
        close(factor(new Ortrain.OneCycleSchedule({total_steps: 100}), 30), 1, 0.01);
        const plateau = Ortrain.PlateauSchedule.new(0.1, 1);
        for (let i = 0; i < 4; i++)
            plateau.observe(1);
        assert(factor(plateau, 0) < 1);
        equal(factor(new Halves(), 3), 0.125);   // a schedule in JavaScript
    },

    'losses'() {
        const t = Ortrain.Tensor.from(Float32Array.from({length: 24}, (_, i) => Math.cos(i) > 0 ? 1 : 0), [8, 3]);
        const {x} = batch();
        const mean = f => {
            const targets = t.toTypedArray();
            const values = logitsOf(linearModel().get_graph(), x.toTypedArray()).flat().map((y, i) => f(y, targets[i]));
            return values.reduce((a, b) => a + b) / values.length;
        };
        const found = loss => {
            assert(loss instanceof Ortrain.Loss);
            const options = new Ortrain.TrainingOptions();
            options.add_loss(loss);
            return Ortrain.TrainingSession.new(linearModel(), options).train_step({x, t});
        };
        close(found(Ortrain.MseLoss.new('logits', 't')), mean((y, v) => (y - v) ** 2));
        close(found(Ortrain.L1Loss.new('logits', 't')), mean((y, v) => Math.abs(y - v)));
        close(found(new Ortrain.HuberLoss({output: 'logits', target: 't', delta: 0.5})),
            mean((y, v) => Math.abs(y - v) < 0.5 ? (y - v) ** 2 / 2 : 0.5 * (Math.abs(y - v) - 0.25)));
        close(found(Ortrain.BceWithLogitsLoss.new('logits', 't')), mean((y, v) => Math.log(1 + Math.exp(y)) - v * y));
        equal(Ortrain.OutputLoss.new('mean').output, 'mean');
        equal(new Ortrain.CrossEntropyLoss({output: 'a', target: 'b', weight: 2}).weight, 2);
    },

    'options from JSON'() {
        GLib.file_set_contents(path('options.json'), JSON.stringify({
            optimizer: {type: 'adamw', learning_rate: 0.25}, schedule: {type: 'cosine', total_steps: 50},
            losses: [{type: 'mse', output: 'y', target: 't'}], frozen: ['*.bias'],
        }));
        const options = Ortrain.TrainingOptions.new_from_file(path('options.json'));
        assert(options.optimizer instanceof Ortrain.AdamW && options.losses.get_item(0) instanceof Ortrain.MseLoss);
        equal([options.optimizer.learning_rate, options.frozen], [0.25, ['*.bias']]);
        throws(Ortrain.SessionError, Ortrain.SessionError.OPTION, () => {
            GLib.file_set_contents(path('options.json'), '{"optimiser": {}}');
            options.load_file(path('options.json'));
        });
    },

    'checkpoint and export'() {
        const session = trainingSession(new Ortrain.Adam()), feeds = batch();
        session.train_step(feeds);
        session.optimizer_step();
        session.save_checkpoint(path('session'));
        const other = trainingSession(new Ortrain.Adam());
        other.load_checkpoint(path('session'));
        equal(Number(other.step), 1);
        equal(other.train_step(feeds), session.train_step(feeds));
        session.export(path('trained.onnx'));
        assert(Ortrain.Checkpoint.exists(path('session')));
        const outputs = Ortrain.InferenceSession.new(Ortrain.Model.new_from_file(path('trained.onnx')), null).run({x: feeds.x});
        close(outputs.get('logits').get_scalar(5), session.eval_step({x: feeds.x}).get('logits').get_scalar(5));
    },

    'trainer'() {
        const trainer = Ortrain.Trainer.new(trainingSession(new Ortrain.Adam({learning_rate: 0.05})), dataset());
        trainer.epochs = 3;
        trainer.batch_size = 16;
        const seen = [];
        trainer.connect('progress', (_trainer, progress) => {
            assert(progress instanceof Ortrain.Progress);
            seen.push([progress.fraction, thread()]);
        });
        trainer.connect('epoch-ended', (_trainer, record) => assert(record instanceof Ortrain.EpochRecord));
        const history = trainer.fit(null);
        assert(history instanceof Ortrain.TrainingHistory);
        equal([history.n_epochs, Number(history.n_steps)], [3, 9]);
        assert(history.losses instanceof Float64Array);
        equal([history.losses.length, history.losses.every(Number.isFinite)], [9, true]);
        equal(seen[seen.length - 1], [1, mainThread]);
        const records = [...history.epochs];
        assert(records.length === 3 && records[2].loss < records[0].loss);
        assert(`${history}`.length > 0);
    },

    'constructors take what they need as an object'() {
        const {x} = batch(48), labels = Ortrain.Tensor.from(Array.from({length: 48}, (_, i) => i % 3), [48], Ortrain.DType.INT64);
        const options = new Ortrain.TrainingOptions({optimizer: new Ortrain.Sgd({learning_rate: 0.1})});
        options.add_loss(new Ortrain.CrossEntropyLoss({output: 'logits', target: 'labels'}));
        linearModel().save(path('constructed.onnx'));
        const model = new Ortrain.Model({path: path('constructed.onnx')});
        const session = new Ortrain.TrainingSession({model, options});
        const data = new Ortrain.TensorDataset({tensors: {x, labels}});
        equal(Number(data.get_length()), 48);
        const trainer = new Ortrain.Trainer({session, dataset: {x, labels}, validation: data, epochs: 2, batch_size: 16});
        assert(trainer instanceof Ortrain.Trainer && trainer.get_session() === session);
        equal([trainer.epochs, trainer.batch_size], [2, 16]);
        equal([trainer.fit(null).n_epochs, Number(session.step)], [2, 6]);
        equal([...new Ortrain.DataLoader({dataset: data, batch_size: 20, drop_last: true})].length, 2);
        equal(new Ortrain.InferenceSession({model}).run({x}).get('logits').shape, [48, 3]);
        for (const [wrong, word] of [
            [() => new Ortrain.Trainer({session}), 'dataset'], [() => new Ortrain.Trainer(), 'session'],
            [() => new Ortrain.TrainingSession(), 'model'],
            [() => new Ortrain.Trainer({session, dataset: data, epoch: 2}), 'epoch'], [() => new Ortrain.Model('file'), 'path'],
        ]) {
            let message = '';
            try {
                wrong();
            } catch (error) {
                assert(error instanceof TypeError, `${error}`);
                message = error.message;
            }
            assert(message.includes(word), message);
        }
        throws(GLib.FileError, GLib.FileError.NOENT, () => new Ortrain.Model({path: path('nothing.onnx')}));
    },

    async 'metrics, of the library and in JavaScript'() {
        const trainer = Ortrain.Trainer.new(trainingSession(), dataset());
        const own = new Largest({name: 'largest'});
        const f1 = Ortrain.ClassificationMetric.new(Ortrain.ClassificationMeasure.F1, Ortrain.Average.MACRO, 'logits', 'labels');
        assert(f1 instanceof Ortrain.Metric);
        trainer.validation = dataset();
        trainer.add_metric(own);
        trainer.add_metric(f1);
        const [record] = [...(await trainer.fit_async(null)).epochs];
        equal(record.get_value_names(), ['largest', 'macro_f1']);
        equal([record.get_value('largest'), record.get_value('macro_f1')], [own.compute()[1], f1.compute()[1]]);
        assert(record.get_value('largest') < 0 && record.get_value('macro_f1') > 0);
        equal(f1.get_confusion_matrix().get_dim(0), 3);
        // the best epoch by a metric in JavaScript: less is better where it says so
        for (const [lower, best] of [[false, 3], [true, 1]]) {
            const score = new Counting({name: 'score', lower_is_better: lower});
            const by = new Ortrain.Trainer({session: trainingSession(), dataset: dataset(), validation: dataset(), epochs: 3, monitor: 'score'});
            by.add_metric(score);
            const history = by.fit(null);
            equal([history.best_epoch, history.best_value, score.lower_is_better], [best, best, lower]);
        }
        equal(Ortrain.RegressionMetric.new(Ortrain.RegressionMeasure.R2, 'y', 't').name, 'r2');
    },

    async 'trainer, awaited, with progress on this thread'() {
        const trainer = Ortrain.Trainer.new(trainingSession(), dataset());
        trainer.epochs = 2;
        const threads = new Set(), names = [];
        trainer.connect('progress', () => threads.add(thread()));
        trainer.connect('started', (self, summary) => names.push(...summary.split('\n').map(line => line.split(' ')[0])));
        const history = await trainer.fit_async(null);
        equal([history.n_epochs, [...threads]], [2, [mainThread]]);
        equal(names, ['model', 'parameters', 'data', 'optimizer', 'memory']);
    },

    async 'trainer, awaited, with a dataset and a schedule in JavaScript'() {
        const session = trainingSession(null, {schedule: new Halves()});
        await session.train_step_async(batch(), null);
        await session.optimizer_step_async(null);
        const trainer = Ortrain.Trainer.new(session, new Numbers());
        trainer.epochs = 2;
        trainer.batch_size = 4;
        const history = await trainer.fit_async(null);
        equal([history.n_epochs, Number(history.n_steps)], [2, 4]);
        equal(session.get_current_learning_rate(), 0.1 * 0.5 ** 5);
    },

    'objects say what they are'() {
        equal(`${new Ortrain.Sgd({learning_rate: 0.1, momentum: 0.9})}`,
            'Ortrain.Sgd {learning_rate: 0.1, state_precision: F32, momentum: 0.9, nesterov: false, weight_decay: 0}');
        const trainer = new Ortrain.Trainer({session: trainingSession(), dataset: dataset(), batch_size: 4});
        let record;
        trainer.connect('epoch-ended', (_self, ended) => (record = `${ended}`));
        trainer.fit(null);
        assert(/^Ortrain\.EpochRecord \{epoch: 1, loss: [\d.]+, /.test(record), record);
        assert(`${trainer}`.startsWith('Ortrain.Trainer {'), `${trainer}`);
    },

    async 'trainer, stopped by handlers, behind an update or an epoch'() {
        const trainer = new Ortrain.Trainer({session: trainingSession(), dataset: dataset(), epochs: 5, batch_size: 4});
        trainer.show_progress = Ortrain.ShowProgress.NEVER;
        let handler = trainer.connect('progress', (self, progress) => Number(progress.step) === 1 && self.stop());
        const history = trainer.fit(null);
        equal([history.stopped_early, Number(history.n_steps), history.n_epochs], [true, 1, 0]);
        trainer.disconnect(handler);
        handler = trainer.connect('epoch-ended', (self, record) => record.epoch === 2 && self.stop());
        trainer.epochs = 1000000;
        const more = await trainer.fit_async(null);
        assert(more.n_epochs >= 2 && more.n_epochs < 1000000);      // a handler of a training in a thread comes when it comes
        equal(more.stopped_early, true);
    },

    async 'trainer, cancelled'() {
        const trainer = Ortrain.Trainer.new(trainingSession(), dataset()), cancellable = new Gio.Cancellable();
        trainer.epochs = 100000;
        GLib.timeout_add(GLib.PRIORITY_DEFAULT, 50, () => {
            cancellable.cancel();
            return GLib.SOURCE_REMOVE;
        });
        await rejects(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED, trainer.fit_async(cancellable));
        assert(trainer.get_session().train_step(batch()) > 0);
    },
});
