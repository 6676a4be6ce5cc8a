// SPDX-License-Identifier: LGPL-2.1-or-later
// What the GJS tests share: TAP, and small models.
import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import Ortrain from 'gi://Ortrain?version=1.0';
import System from 'system';

export const folder = GLib.dir_make_tmp('ortrain-gjs-XXXXXX');
export const thread = () => GLib.file_read_link('/proc/thread-self');
export const mainThread = thread();

export function assert(condition, message = 'not so') {
    if (!condition)
        throw new Error(message);
}

export function equal(found, expected) {
    const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
    if (a !== b)
        throw new Error(`${a} is not ${b}`);
}

export function close(found, expected, tolerance = 1e-5) {
    if (!(Math.abs(found - expected) <= tolerance))
        throw new Error(`${found} is not close to ${expected}`);
}

// The error that a function (also an asynchronous one) ends with: throws (domain, code, function).
export function throws(domain, code, f) {
    try {
        f();
    } catch (error) {
        assert(error instanceof GLib.Error && error.matches(domain, code), `another error: ${error}`);
        return error.message;
    }
    throw new Error('no error');
}

export async function rejects(domain, code, promise) {
    try {
        await promise;
    } catch (error) {
        assert(error instanceof GLib.Error && error.matches(domain, code), `another error: ${error}`);
        return error.message;
    }
    throw new Error('no error');
}

export function run(tests) {
    const loop = new GLib.MainLoop(null, false);
    let status = 0;
    const all = async () => {
        const names = Object.keys(tests);
        print(`1..${names.length}`);
        for (const [i, name] of names.entries()) {
            try {
                await tests[name]();
                print(`ok ${i + 1} ${name}`);
            } catch (error) {
                status = 1;
                print(`not ok ${i + 1} ${name}`);
                print(`${error}\n${error.stack}`.replace(/^/gm, '# '));
            }
        }
    };
    all().finally(() => loop.quit());
    loop.run();
    for (const info of Gio.File.new_for_path(folder).enumerate_children('standard::*', 0, null))
        remove(Gio.File.new_for_path(folder).get_child(info.get_name()));
    GLib.rmdir(folder);
    System.exit(status);
}

function remove(file) {
    if (file.query_file_type(Gio.FileQueryInfoFlags.NOFOLLOW_SYMLINKS, null) === Gio.FileType.DIRECTORY) {
        for (const info of file.enumerate_children('standard::*', Gio.FileQueryInfoFlags.NOFOLLOW_SYMLINKS, null))
            remove(file.get_child(info.get_name()));
    }
    file.delete(null);
}

// x [batch, 4] → logits [batch, 3]; the parameters are fc.weight [3, 4] and fc.bias [3].
export function linearModel(seed = 1) {
    const builder = Ortrain.GraphBuilder.new('linear');
    builder.set_seed(seed);
    const x = builder.add_input('x', Ortrain.DType.FLOAT32, 'batch, 4');
    builder.add_output(builder.linear(x, 'fc', 3, true), 'logits');
    return builder.build();
}

export function batch(n = 8) {
    const x = Float32Array.from({length: 4 * n}, (_, i) => Math.sin(i * i));
    const labels = BigInt64Array.from({length: n}, (_, i) => BigInt(i % 3));
    return {x: Ortrain.Tensor.from(x, [n, 4]), labels: Ortrain.Tensor.from(labels)};
}

export function trainingSession(optimizer, properties = {}) {
    const options = new Ortrain.TrainingOptions({optimizer: optimizer ?? new Ortrain.Sgd({learning_rate: 0.1}), ...properties});
    options.add_loss(Ortrain.CrossEntropyLoss.new('logits', 'labels'));
    return Ortrain.TrainingSession.new(linearModel(), options);
}

// Rows of x · weightᵀ + bias, in double precision.
export function logitsOf(graph, x) {
    const w = graph.find_value('fc.weight').get_tensor().toTypedArray();
    const b = graph.find_value('fc.bias').get_tensor().toTypedArray();
    const rows = [];
    for (let i = 0; i < x.length / 4; i++)
        rows.push([0, 1, 2].map(j => [0, 1, 2, 3].reduce((sum, k) => sum + x[4 * i + k] * w[4 * j + k], b[j])));
    return rows;
}
