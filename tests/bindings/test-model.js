// SPDX-License-Identifier: LGPL-2.1-or-later
import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import Ortrain from 'gi://Ortrain?version=1.0';
import {assert, batch, close, equal, folder, linearModel, logitsOf, mainThread, rejects, run, thread, throws} from './tap.js';

const path = name => GLib.build_filenamev([folder, name]);

function check(outputs, model, x) {
    const found = outputs.get('logits').toTypedArray();
    logitsOf(model.get_graph(), x.toTypedArray()).flat().forEach((expected, i) => close(found[i], expected));
}

run({
    async 'models'() {
        linearModel().save(path('m.onnx'));
        const model = Ortrain.Model.new_from_file(path('m.onnx'));
        equal([model.path, model.n_nodes, Number(model.n_parameters)], [path('m.onnx'), 1, 15]);
        assert(`${model}`.includes('linear'));
        const other = await Ortrain.Model.new_from_file_async(path('m.onnx'), null);
        equal(other.n_nodes, 1);
        const cancellable = new Gio.Cancellable();
        cancellable.cancel();
        await rejects(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED, Ortrain.Model.new_from_file_async(path('m.onnx'), cancellable));
        GLib.file_set_contents(path('cut.onnx'), model.to_bytes().toArray().slice(0, 60));
        throws(Ortrain.ModelError, Ortrain.ModelError.INVALID, () => Ortrain.Model.new_from_file(path('cut.onnx')));
    },

    'limits'() {
        const limits = new Ortrain.ModelLimits({max_tensors: 1});
        equal(limits.max_rank, 16);
        throws(Ortrain.ModelError, Ortrain.ModelError.LIMIT,
            () => Ortrain.Model.new_from_bytes_with_limits(linearModel().to_bytes(), null, limits));
    },

    'equal parameters'() {
        const builder = Ortrain.GraphBuilder.new('tied');
        const w = Ortrain.Tensor.from(Float32Array.from({length: 400}, (_, i) => i), [20, 20]);
        const x = builder.add_input('x', Ortrain.DType.FLOAT32, 'n, 20');
        const hidden = builder.binary('MatMul', x, builder.add_tensor('first', w));
        builder.add_output(builder.binary('MatMul', hidden, builder.add_tensor('second', w)), 'y');
        const pairs = [...builder.build().find_equal_parameters()];
        assert(pairs.length === 1 && pairs[0] instanceof Ortrain.ParameterPair);
        equal([pairs[0].get_first(), pairs[0].get_second(), pairs[0].get_transposed()], ['first', 'second', false]);
    },

    'check report'() {
        const good = linearModel().check();
        assert(good instanceof Ortrain.CheckReport && good.trainable && good.diagnostics.get_n_items() === 0);
        const graph = Ortrain.Graph.new('g');
        graph.add_input('x', Ortrain.DType.FLOAT32, [2]);
        graph.add_initializer('w', Ortrain.Tensor.from([1, 2]));
        graph.add_node('Mystery', 'com.example', 'one', ['x', 'w'], ['a']);
        graph.add_node('Riddle', 'com.example', 'two', ['a'], ['y']);
        graph.add_output('y');
        const report = Ortrain.Model.new_from_graph(graph).check();
        equal(report.trainable, false);
        const diagnostics = [...report.diagnostics];
        equal(diagnostics.map(o => [o.node, o.operator]), [['one', 'Mystery'], ['two', 'Riddle']]);
        assert(diagnostics.every(o => o instanceof Ortrain.Diagnostic));
        assert(`${report}`.includes('Riddle'));
    },

    'what is trained'() {
        const report = linearModel().check();
        const list = [...report.parameters];
        assert(list.every(p => p instanceof Ortrain.ParameterInfo));
        equal(list.map(p => [p.name, p.shape, Number(p.n_elements), p.trained]),
            [['fc.weight', '[3, 4]', 12, true], ['fc.bias', '[3]', 3, true]]);
        equal([list[1].dtype, list[1].reason], [Ortrain.DType.FLOAT32, "bias of Gemm 'fc'"]);
        assert(list[1].to_string().includes('trained'));
    },

    'graph'() {
        const graph = linearModel().get_graph();
        equal([...graph.get_inputs()].map(v => v.name), ['x']);
        const [node] = [...graph.get_nodes()];
        assert(node instanceof Ortrain.Node);
        equal([node.op_type, node.get_attribute('transB').deepUnpack()], ['Gemm', 1]);
        const weight = graph.find_value('fc.weight');
        assert(weight instanceof Ortrain.Value);
        equal([weight.rank, weight.get_tensor().shape, weight.get_producer()], [2, [3, 4], null]);
        equal([...weight.get_consumers()].length, 1);
        assert(`${graph}`.includes('Gemm') && graph.to_dot().includes('digraph'));
    },

    'graph mutation'() {
        const graph = Ortrain.Graph.new('m');
        graph.add_input('x', Ortrain.DType.FLOAT32, [2]);
        graph.add_node('Relu', null, 'relu', ['x'], ['a']);
        graph.add_node('Neg', null, 'neg', ['a'], ['y']);
        graph.add_output('y');
        graph.replace_value(graph.find_value('a'), graph.find_value('x'));
        graph.remove_node(graph.find_node('relu'));
        const session = Ortrain.InferenceSession.new(Ortrain.Model.new_from_graph(graph), null);
        equal([...session.run({x: Ortrain.Tensor.from([-1, 2])}).get('y').toTypedArray()], [1, -2]);
        throws(Ortrain.GraphError, Ortrain.GraphError.NAME, () => graph.add_input('x', Ortrain.DType.FLOAT32, [2]));
    },

    'ready models'() {
        const cnn = Ortrain.GraphBuilder.new_cnn('cnn', 1, 12, 12, 10, 0).build();
        const image = Ortrain.Tensor.new(Ortrain.DType.FLOAT32, [2, 1, 12, 12]);
        equal(Ortrain.InferenceSession.new(cnn, null).run({image}).get('logits').shape, [2, 10]);
        assert(Ortrain.GraphBuilder.new_gpt('gpt', 16, 8, 8, 1, 2, 0).build().check().trainable);
    },

    async 'inference'() {
        const model = linearModel();
        const session = Ortrain.InferenceSession.new(model, new Ortrain.SessionOptions({threads: 1}));
        equal([session.get_input_names(), session.get_output_names()], [['x'], ['logits']]);
        const {x} = batch();
        check(session.run({x}), model, x);
        const outputs = await session.run_async({x}, null);
        equal(thread(), mainThread);
        check(outputs, model, x);
        const cancellable = new Gio.Cancellable();
        cancellable.cancel();
        await rejects(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED, session.run_async({x}, cancellable));
        throws(Ortrain.SessionError, Ortrain.SessionError.FEED, () => session.run({}));
        check(session.run({x}), model, x);
    },

    'binding'() {
        const model = linearModel(), {x} = batch();
        const session = Ortrain.InferenceSession.new(model, null);
        const binding = session.bind();
        assert(binding instanceof Ortrain.IoBinding);
        const logits = Ortrain.Tensor.new(Ortrain.DType.FLOAT32, [8, 3]);
        binding.bind_input('x', x);
        binding.bind_output('logits', logits);
        session.run_with_binding(binding);
        check({get: () => logits}, model, x);
        assert(binding.copy_output('logits').equal(logits));
    },

    'devices'() {
        const cpu = Ortrain.Device.list().get_item(0);
        assert(cpu instanceof Ortrain.Device);
        equal([cpu.name, cpu.get_reason()], ['cpu', null]);
        assert(cpu.total_memory > cpu.get_available_memory());
    },

    'arena'() {
        const arena = new Ortrain.Arena({device: Ortrain.Device.list().get_item(0), max_mem: 1 << 20});
        const address = arena.allocate(1000);
        const statistics = arena.get_statistics();
        assert(statistics instanceof Ortrain.ArenaStatistics);
        equal([statistics.bytes_in_use, statistics.bytes_limit].map(Number), [1024, 1 << 20]);
        throws(Ortrain.DeviceError, Ortrain.DeviceError.NO_MEMORY, () => arena.allocate(1 << 21));
        assert(arena.release(address));
    },

    'session options from JSON'() {
        GLib.file_set_contents(path('o.json'), '{"threads": 2, "deterministic": true}');
        const options = Ortrain.SessionOptions.new_from_file(path('o.json'));
        equal([options.threads, options.deterministic], [2, true]);
        GLib.file_set_contents(path('o.json'), '{"treads": 2}');
        throws(Ortrain.SessionError, Ortrain.SessionError.OPTION, () => Ortrain.SessionOptions.new_from_file(path('o.json')));
    },
});
