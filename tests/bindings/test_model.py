# SPDX-License-Identifier: LGPL-2.1-or-later
import os
import pathlib
import unittest

import numpy as np
from gi.repository import Gio, GLib
from ortrain_tap import Ortrain, folder, linear_model, main, parameters_of


def save(model, name):
    path = os.path.join(folder, name)
    model.save(path)
    return path


class Models(unittest.TestCase):
    def test_suggested_integers(self):
        graph = Ortrain.Graph.new("lookup")
        x = graph.add_input("x", Ortrain.DType.INT64, [-1])
        graph.add_initializer("table", Ortrain.Tensor(np.zeros((5, 2), np.float32)))
        graph.add_node("Gather", "", "look", ["table", "x"], ["y"])
        graph.add_output("y")
        self.assertEqual(tuple(x.suggest_integers()), (0, 4))

    def test_properties(self):
        path = save(linear_model(), "linear.onnx")
        model = Ortrain.Model(path)
        self.assertEqual((model.path, model.n_nodes, model.n_parameters), (path, 1, 15))
        self.assertEqual(model.opset, model.get_opset_version(""))
        self.assertGreaterEqual(model.ir_version, 7)
        self.assertIn("linear", str(model))
        self.assertIsInstance(model.get_domains(), list)
        self.assertEqual(model.get_notes(), [])
        self.assertEqual([node.op_type for node in model.get_file_graph().get_nodes()], ["Gemm"])
        self.assertIsInstance(model.get_metadata_keys(), list)

    def test_path_object(self):
        import pathlib

        self.assertEqual(Ortrain.Model(pathlib.Path(save(linear_model(), "p.onnx"))).n_nodes, 1)

    def test_bytes(self):
        model = linear_model()
        again = Ortrain.Model.new_from_bytes(model.to_bytes(), None)
        self.assertEqual(str(again.get_graph()), str(model.get_graph()))

    def test_async(self):
        loop, results = GLib.MainLoop(), []
        path = save(linear_model(), "async.onnx")

        def done(source, result):
            results.append(Ortrain.Model.new_from_file_finish(result))
            loop.quit()

        Ortrain.Model.new_from_file_async(path, None, done)
        self.assertEqual(results, [])
        loop.run()
        self.assertEqual(results[0].n_nodes, 1)

    def test_cancelled(self):
        loop, errors, cancellable = GLib.MainLoop(), [], Gio.Cancellable()
        cancellable.cancel()

        def done(source, result):
            try:
                Ortrain.Model.new_from_file_finish(result)
            except GLib.Error as error:
                errors.append(error)
            loop.quit()

        Ortrain.Model.new_from_file_async(save(linear_model(), "c.onnx"), cancellable, done)
        loop.run()
        self.assertTrue(errors[0].matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))

    def test_errors(self):
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.Model(os.path.join(folder, "absent.onnx"))
        self.assertIn("absent.onnx", caught.exception.message)
        path = os.path.join(folder, "cut.onnx")
        with open(path, "wb") as file:
            file.write(linear_model().to_bytes().get_data()[:-20])
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.Model(path)
        self.assertTrue(caught.exception.matches(Ortrain.model_error_quark(), Ortrain.ModelError.INVALID))

    def test_limits(self):
        limits = Ortrain.ModelLimits(max_nodes=0)
        self.assertEqual(limits.max_nodes, 0)
        limits.max_nodes = 1
        limits.max_tensors = 1                    # the model has two
        self.assertTrue(limits.allow_external_data)
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.Model.new_from_bytes_with_limits(linear_model().to_bytes(), None, limits)
        self.assertTrue(caught.exception.matches(Ortrain.model_error_quark(), Ortrain.ModelError.LIMIT))
        path = save(linear_model(), "limits.onnx")
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.Model.new_from_file_with_limits(path, limits)
        self.assertTrue(caught.exception.matches(Ortrain.model_error_quark(), Ortrain.ModelError.LIMIT))
        limits.max_tensors = 2
        self.assertEqual(Ortrain.Model.new_from_file_with_limits(path, limits).n_nodes, 1)
        self.assertEqual(Ortrain.Model.new_from_file_with_limits(path, None).n_nodes, 1)

    def test_equal_parameters(self):
        builder = Ortrain.GraphBuilder.new("tied")
        weights = np.arange(600, dtype=np.float32).reshape(20, 30)
        x = builder.add_input("x", Ortrain.DType.FLOAT32, "n, 30")
        first = builder.add_tensor("first", Ortrain.Tensor(weights.T))
        second = builder.add_tensor("second", Ortrain.Tensor(weights))
        hidden = builder.binary("MatMul", x, first)
        builder.add_output(builder.binary("MatMul", hidden, second), "y")
        pairs = list(builder.build().find_equal_parameters())
        self.assertEqual(len(pairs), 1)
        self.assertIsInstance(pairs[0], Ortrain.ParameterPair)
        self.assertEqual({pairs[0].get_first(), pairs[0].get_second()}, {"first", "second"})
        self.assertTrue(pairs[0].get_transposed())


class Checks(unittest.TestCase):
    def test_check_with_options(self):
        builder = Ortrain.GraphBuilder("two")
        hidden = builder.linear(builder.add_input("x", "float32", "n, 4"), "a", 4, True)
        builder.add_output(builder.linear(builder.relu(hidden), "b", 2, True), "y")
        model, options = builder.build(), Ortrain.TrainingOptions()
        self.assertEqual(model.check_with_options(None).get_n_trainable(), 4)
        options.stop_gradient = [hidden.get_name()]
        self.assertEqual(model.check_with_options(options).get_n_trainable(), 2)
        options.stop_gradient = ["nothing"]
        with self.assertRaises(Ortrain.SessionError) as caught:
            model.check_with_options(options)
        self.assertEqual(caught.exception.code, Ortrain.SessionError.OPTION)

    def test_trainable(self):
        report = linear_model().check()
        self.assertIsInstance(report, Ortrain.CheckReport)
        self.assertTrue(report.trainable)
        self.assertEqual(report.get_n_trainable(), 2)
        self.assertEqual(list(report.diagnostics), [])
        self.assertEqual(report.get_notes(), [])
        self.assertIn("trainable", str(report))

    def test_options(self):
        """With gradients stopped at all that nodes read, or with a pattern that fits nothing."""
        builder = Ortrain.GraphBuilder.new("two")
        x = builder.add_input("x", Ortrain.DType.FLOAT32, "batch, 4")
        builder.add_output(builder.linear(builder.linear(x, "a", 3, True), "b", 2, True), "y")
        model = builder.build()
        self.assertEqual(model.check_with_options(None).get_n_trainable(), 4)
        options = Ortrain.TrainingOptions(stop_gradient=["*"])
        self.assertTrue(any("no gradient flows through" in note for note in model.check_with_options(options).get_notes()))
        options.set_stop_gradient(["nothing"])
        with self.assertRaises(GLib.Error) as caught:
            model.check_with_options(options)
        self.assertIn("'nothing'", str(caught.exception))

    def test_parameters(self):
        """Every tensor of a floating type, trained or not, and why."""
        graph = Ortrain.Graph.new("g")
        graph.add_input("x", Ortrain.DType.FLOAT32, [2, 3])
        graph.add_initializer("w", Ortrain.Tensor(np.ones((3, 4), np.float32)))
        graph.add_initializer("scale", Ortrain.Tensor(np.ones((1,), np.float32)))
        graph.add_node("MatMul", "", "product", ["x", "w"], ["a"])
        graph.add_node("Mul", "", "scaled", ["a", "scale"], ["y"])
        graph.add_output("y")
        report = Ortrain.Model.new_from_graph(graph).check()
        self.assertEqual([(p.name, p.dtype, p.shape, p.n_elements, p.trained, p.reason) for p in report.parameters],
                         [("w", Ortrain.DType.FLOAT32, "[3, 4]", 12, True, "weight of MatMul 'product'"),
                          ("scale", Ortrain.DType.FLOAT32, "[1]", 1, False, "one number: operand of Mul 'scaled'")])
        info = report.get_parameters()[1]
        self.assertIsInstance(info, Ortrain.ParameterInfo)
        self.assertEqual((info.get_name(), info.get_dtype(), info.get_shape(), info.get_n_elements(), info.get_trained(),
                          info.get_reason()),
                         ("scale", Ortrain.DType.FLOAT32, "[1]", 1, False, "one number: operand of Mul 'scaled'"))
        self.assertEqual(info.to_string(), "scale: float32 [1], not trained: one number: operand of Mul 'scaled'")
        self.assertIn("constants of one number, not trained: 1", str(report))

    def test_scoped_names(self):
        """What PyTorch calls a weight whose name its exporter made up."""
        fixture = pathlib.Path(__file__).resolve().parent.parent / "data" / "fixtures" / "distilbert" / "model.onnx"
        model = Ortrain.Model(fixture)
        scope = "model.distilbert.transformer.layer.0.attention.q_lin"
        info = next(p for p in model.check().parameters if p.name == "val_80")
        self.assertEqual((info.scoped_name, info.get_scoped_name()), (scope + ".weight", scope + ".weight"))
        node = model.get_graph().find_node("node_MatMul_79")
        self.assertEqual((node.scope, node.get_scope()), (scope, scope))
        options = Ortrain.TrainingOptions(losses=[Ortrain.MseLoss.new(model.get_graph().get_outputs()[0].name, "t")])
        options.set_trainable([scope])
        options.optimizer = Ortrain.AdamW()
        options.optimizer.add_group(scope + ".bias", 1.0, 0.0)
        session = Ortrain.TrainingSession(model, options)
        self.assertEqual(session.get_n_parameters(), 48 * 48 + 48)
        options.optimizer.add_group("nothing.*", 1.0, 0.0)
        with self.assertRaises(GLib.Error) as caught:
            Ortrain.TrainingSession(model, options)
        self.assertIn("nothing.*", caught.exception.message)

    def test_every_diagnostic_at_once(self):
        graph = Ortrain.Graph.new("g")
        graph.add_input("x", Ortrain.DType.FLOAT32, [2, 3])
        graph.add_initializer("w", Ortrain.Tensor(np.ones((2, 3), np.float32)))
        graph.add_node("Mystery", "com.example", "one", ["x", "w"], ["a"])
        graph.add_node("Riddle", "com.example", "two", ["a"], ["y"])
        graph.add_output("y")
        report = Ortrain.Model.new_from_graph(graph).check()
        self.assertFalse(report.trainable)
        diagnostics = list(report.diagnostics)
        self.assertEqual([(o.node, o.operator, o.domain) for o in diagnostics],
                         [("one", "Mystery", "com.example"), ("two", "Riddle", "com.example")])
        for diagnostic in diagnostics:
            self.assertIsInstance(diagnostic, Ortrain.Diagnostic)
            self.assertTrue(diagnostic.reason)
            self.assertIn(diagnostic.operator, str(diagnostic))
            self.assertIn(diagnostic.operator, str(report))


class Graphs(unittest.TestCase):
    def test_walk(self):
        graph = linear_model().get_graph()
        self.assertEqual([v.name for v in graph.get_inputs()], ["x"])
        self.assertEqual([v.name for v in graph.get_outputs()], ["logits"])
        self.assertEqual({v.name for v in graph.get_initializers()}, {"fc.weight", "fc.bias"})
        node = graph.get_nodes()[0]
        self.assertIsInstance(node, Ortrain.Node)
        self.assertEqual((node.op_type, node.get_n_inputs(), node.get_n_outputs()), ("Gemm", 3, 1))
        self.assertEqual(node.get_attribute("transB").unpack(), 1)
        self.assertIn("transB", node.get_attribute_names())
        self.assertEqual([node.get_input(i).name for i in range(3)], ["x", "fc.weight", "fc.bias"])
        self.assertEqual(node.get_output(0).name, "logits")
        self.assertIsNone(node.get_input(3))
        self.assertIsNone(node.get_attribute("absent"))
        weight = graph.find_value("fc.weight")
        self.assertIsInstance(weight, Ortrain.Value)
        self.assertEqual((weight.dtype, weight.rank, weight.get_dim(0)), (Ortrain.DType.FLOAT32, 2, 3))
        self.assertEqual(weight.get_tensor().shape, (3, 4))
        self.assertEqual([n.name for n in weight.get_consumers()], [node.name])
        self.assertIsNone(weight.get_producer())
        self.assertEqual(graph.find_value("logits").get_producer(), node)
        self.assertEqual(graph.find_value("x").get_shape_string(), "[batch, 4]")
        self.assertEqual(graph.find_value("x").get_dim(0), -1)
        self.assertIsNone(graph.find_value("absent"))

    def test_text(self):
        graph = linear_model().get_graph()
        self.assertIn("Gemm", str(graph))
        self.assertTrue(graph.to_dot().lstrip().startswith("digraph"))

    def test_make_and_run(self):
        graph = Ortrain.Graph.new("made")
        self.assertEqual(graph.get_name(), "made")
        graph.add_input("x", Ortrain.DType.FLOAT32, [-1, 3])
        graph.add_initializer("w", Ortrain.Tensor(np.array([1, 10, 100], np.float32)))
        graph.add_node("Mul", None, "mul", ["x", "w"], ["scaled"])
        reduce = graph.add_node("ReduceSum", None, "sum", ["scaled"], ["y"])
        reduce.set_attribute("keepdims", GLib.Variant("x", 0))
        graph.add_output("y")
        self.assertTrue(graph.infer())
        outputs = Ortrain.InferenceSession(Ortrain.Model.new_from_graph(graph)).run({"x": [np.float32([1, 2, 3])]})
        self.assertEqual(float(outputs["y"]), 321)

    def test_mutation(self):
        graph = Ortrain.Graph.new("m")
        graph.add_input("x", Ortrain.DType.FLOAT32, [2])
        graph.add_node("Relu", None, "relu", ["x"], ["a"])
        graph.add_node("Neg", None, "neg", ["a"], ["y"])
        graph.add_output("y")
        changes = []
        graph.get_nodes().connect("items-changed", lambda model, *change: changes.append(change))
        copy = graph.copy()
        with self.assertRaises(GLib.Error):
            graph.remove_node(graph.find_node("relu"))       # its output is in use
        graph.replace_value(graph.find_value("a"), graph.find_value("x"))
        graph.remove_node(graph.find_node("relu"))
        self.assertEqual([n.op_type for n in graph.get_nodes()], ["Neg"])
        self.assertEqual([n.op_type for n in copy.get_nodes()], ["Relu", "Neg"])
        outputs = Ortrain.InferenceSession(Ortrain.Model.new_from_graph(graph)).run({"x": np.float32([-1, 2])})
        self.assertEqual(outputs["y"].numpy().tolist(), [1, -2])

    def test_errors(self):
        graph = Ortrain.Graph.new("e")
        graph.add_input("x", Ortrain.DType.FLOAT32, [2])
        with self.assertRaises(GLib.Error) as caught:
            graph.add_input("x", Ortrain.DType.FLOAT32, [2])
        self.assertTrue(caught.exception.matches(Ortrain.graph_error_quark(), Ortrain.GraphError.NAME))


class Builders(unittest.TestCase):
    def test_mlp_against_numpy(self):
        model = Ortrain.GraphBuilder.new_mlp("mlp", [5, 7, 3], 3).build()
        graph = model.get_graph()
        w = parameters_of(graph)
        names = [v.name for v in graph.get_initializers()]
        first, second = [n for n in names if n.endswith(".weight")]
        x = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
        hidden = np.maximum(x @ w[first].T + w[first.replace("weight", "bias")], 0)
        expected = hidden @ w[second].T + w[second.replace("weight", "bias")]
        input_name, output_name = graph.get_inputs()[0].name, graph.get_outputs()[0].name
        outputs = Ortrain.InferenceSession(model).run({input_name: x})
        np.testing.assert_allclose(outputs[output_name].numpy(), expected, rtol=1e-5, atol=1e-5)

    def test_ready_models(self):
        ids = np.arange(6).reshape(2, 3)
        cnn = Ortrain.GraphBuilder.new_cnn("cnn", 1, 12, 12, 10, 0).build()
        self.assertEqual(Ortrain.InferenceSession(cnn).run({"image": np.zeros((2, 1, 12, 12), np.float32)})[0].shape, (2, 10))
        for builder in (Ortrain.GraphBuilder.new_gpt("gpt", 16, 8, 8, 2, 2, 0),
                        Ortrain.GraphBuilder.new_bert("bert", 16, 8, 8, 1, 2, 4, 0)):
            model = builder.build()
            self.assertTrue(model.check().trainable, str(model.check()))
            session = Ortrain.InferenceSession(model)
            feeds = {name: ids if name == "input_ids" else np.ones_like(ids) for name in session.get_input_names()}
            self.assertEqual(session.run(feeds)[0].shape[0], 2)

    def build(self, shape, make):
        """A model from a builder: x [shape] → y; gives what it computes, and its parameters."""
        builder = Ortrain.GraphBuilder.new("built")
        builder.seed = 4
        x = builder.add_input("x", Ortrain.DType.FLOAT32, ", ".join(map(str, shape)))
        builder.add_output(make(builder, x), "y")
        self.assertEqual(builder.get_graph().get_name(), "built")
        model = builder.build()
        session = Ortrain.InferenceSession(model)
        return lambda feed: session.run({"x": feed})["y"].numpy(), parameters_of(model.get_graph())

    def test_layers_against_numpy(self):
        rng = np.random.default_rng(5)
        x = rng.standard_normal((2, 3, 8)).astype(np.float32)
        run, _ = self.build(x.shape, lambda b, v: b.transpose(v, [0, 2, 1]))
        np.testing.assert_array_equal(run(x), x.transpose(0, 2, 1))
        run, _ = self.build(x.shape, lambda b, v: b.flatten(v))
        np.testing.assert_array_equal(run(x), x.reshape(2, 24))
        run, _ = self.build(x.shape, lambda b, v: b.reshape(v, [6, -1]))
        np.testing.assert_array_equal(run(x), x.reshape(6, 8))
        run, _ = self.build(x.shape, lambda b, v: b.unary("Neg", b.add(v, b.relu(v))))
        np.testing.assert_allclose(run(x), -(x + np.maximum(x, 0)), rtol=1e-6)
        run, _ = self.build(x.shape, lambda b, v: b.softmax(v, 1))
        np.testing.assert_allclose(run(x), np.exp(x) / np.exp(x).sum(axis=1, keepdims=True), rtol=1e-5)
        run, _ = self.build(x.shape, lambda b, v: b.gelu(v))
        erf = np.vectorize(__import__("math").erf)
        np.testing.assert_allclose(run(x), 0.5 * x * (1 + erf(x / np.sqrt(2))), rtol=1e-4, atol=1e-6)
        run, _ = self.build(x.shape, lambda b, v: b.dropout(v, 0.5))
        np.testing.assert_array_equal(run(x), x)        # of no effect but while training
        run, w = self.build(x.shape, lambda b, v: b.layer_norm(v, "ln"))
        self.assertEqual({name: value.shape for name, value in w.items()}, {"ln.weight": (8,), "ln.bias": (8,)})
        expected = (x - x.mean(axis=2, keepdims=True)) / np.sqrt(x.var(axis=2, keepdims=True) + 1e-5)
        np.testing.assert_allclose(run(x), expected, rtol=1e-4, atol=1e-5)
        run, w = self.build(x.shape, lambda b, v: b.binary("Mul", v, b.add_filled("two", [8], 2)))
        np.testing.assert_array_equal(run(x), 2 * x)
        run, w = self.build((2, 8), lambda b, v: b.binary("MatMul", v, b.add_normal("n", [8, 300], 1, 0.5)))
        np.testing.assert_allclose((w["n"].mean(), w["n"].std()), (1, 0.5), atol=0.05)
        run, w = self.build((2, 8), lambda b, v: b.binary("MatMul", v, b.add_uniform("u", [8, 300], -1, 3)))
        self.assertTrue(-1 <= w["u"].min() < -0.9 and 2.9 < w["u"].max() <= 3)

    def test_images_against_numpy(self):
        x = np.random.default_rng(6).standard_normal((2, 3, 6, 6)).astype(np.float32)
        windows = x.reshape(2, 3, 3, 2, 3, 2)
        run, _ = self.build(x.shape, lambda b, v: b.max_pool(v, 2, 2))
        np.testing.assert_array_equal(run(x), windows.max(axis=(3, 5)))
        run, _ = self.build(x.shape, lambda b, v: b.average_pool(v, 2, 2))
        np.testing.assert_allclose(run(x), windows.mean(axis=(3, 5)), rtol=1e-5, atol=1e-6)
        run, w = self.build(x.shape, lambda b, v: b.conv(v, "c", 4, 3, 1, 1, 1, True))
        self.assertEqual((w["c.weight"].shape, w["c.bias"].shape), ((4, 3, 3, 3), (4,)))
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        expected = np.zeros((2, 4, 6, 6)) + w["c.bias"][:, None, None]
        for i in range(3):
            for j in range(3):
                expected += np.einsum("nchw,oc->nohw", padded[:, :, i:i + 6, j:j + 6], w["c.weight"][:, :, i, j])
        np.testing.assert_allclose(run(x), expected, rtol=1e-4, atol=1e-5)
        run, w = self.build(x.shape, lambda b, v: b.batch_norm(v, "bn"))
        self.assertEqual({name: value.shape for name, value in w.items()},
                         {"bn.weight": (3,), "bn.bias": (3,), "bn.running_mean": (3,), "bn.running_var": (3,)})
        np.testing.assert_allclose(run(x), x / np.sqrt(1 + 1e-5), rtol=1e-5, atol=1e-6)      # fresh statistics: 0 and 1

    def test_attention_against_numpy(self):
        builder = Ortrain.GraphBuilder.new("attention")
        ids = builder.add_input("ids", Ortrain.DType.INT64, "2, 5")
        x = builder.embedding(ids, "embedding", 11, 8)
        builder.add_output(x, "x")
        builder.add_output(builder.attention(x, "a", 2, 5, True), "y")
        model = builder.build()
        tokens = np.arange(10).reshape(2, 5)
        outputs = Ortrain.InferenceSession(model).run({"ids": tokens})
        w = parameters_of(model.get_graph())
        x = outputs["x"].numpy()
        np.testing.assert_allclose(x, w["embedding.weight"][tokens], rtol=1e-6)
        # causal: the first position sees itself alone, and what comes later does not change what was before
        changed = tokens.copy()
        changed[:, 3:] = 10
        again = Ortrain.InferenceSession(model).run({"ids": changed})["y"].numpy()
        np.testing.assert_allclose(again[:, :3], outputs["y"].numpy()[:, :3], rtol=1e-5, atol=1e-6)
        self.assertGreater(np.abs(again[:, 3:] - outputs["y"].numpy()[:, 3:]).max(), 1e-4)

    def test_seed(self):
        weights = [parameters_of(linear_model(seed=s).get_graph())["fc.weight"] for s in (1, 1, 2)]
        np.testing.assert_array_equal(weights[0], weights[1])
        self.assertTrue((weights[0] != weights[2]).any())

    def test_any_operator(self):
        builder = Ortrain.GraphBuilder.new("any")
        builder.add_input("x", Ortrain.DType.FLOAT32, "2, 3")
        y = builder.add_op("LeakyRelu", None, ["x"], ["y"], GLib.Variant("a{sv}", {"alpha": GLib.Variant("d", 0.5)}))
        builder.add_output(y, "y")
        outputs = Ortrain.InferenceSession(builder.build()).run({"x": np.full((2, 3), -4, np.float32)})
        self.assertEqual(outputs["y"].numpy().tolist(), [[-2] * 3] * 2)


if __name__ == "__main__":
    main()
