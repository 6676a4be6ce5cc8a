// SPDX-License-Identifier: LGPL-2.1-or-later
using Ortrain;
using Common;

void test_model () throws Error {
    linear_model ().save (path ("m.onnx"));
    var model = new Model.from_file (path ("m.onnx"));
    assert (model.path == path ("m.onnx") && model.n_nodes == 1 && model.n_parameters == 15);
    assert ("linear" in model.to_string ());
    var limits = new ModelLimits ();
    limits.max_tensors = 1;
    assert (fails (() => { new Model.from_file_with_limits (path ("m.onnx"), limits); }) is ModelError.LIMIT);
    FileUtils.set_contents (path ("cut.onnx"), "\x08\x08\x3a\xff");
    assert (fails (() => { new Model.from_file (path ("cut.onnx")); }) is ModelError.INVALID);
}

void test_model_async () throws Error {
    linear_model ().save (path ("async.onnx"));
    var loop = new MainLoop ();
    Model? model = null;
    load.begin (path ("async.onnx"), null, (object, result) => {
        works (() => { model = load.end (result); });
        loop.quit ();
    });
    assert (model == null);
    loop.run ();
    assert (model.n_nodes == 1);

    var cancellable = new Cancellable ();
    cancellable.cancel ();
    load.begin (path ("async.onnx"), cancellable, (object, result) => {
        assert (fails (() => load.end (result)) is IOError.CANCELLED);
        loop.quit ();
    });
    loop.run ();
}

async Model load (string path, Cancellable? cancellable) throws Error {
    var model = yield new Model.from_file_async (path, cancellable);
    on_main_thread ();
    return model;
}

void test_check () throws Error {
    CheckReport good = linear_model ().check ();
    assert (good.trainable && good.diagnostics.get_n_items () == 0);
    var info = (ParameterInfo) good.parameters.get_item (1);
    assert (info.name == "fc.bias" && info.dtype == DType.FLOAT32 && info.shape == "[3]" && info.n_elements == 3);
    assert (info.trained && "bias of Gemm" in info.reason && "trained" in info.to_string ());
    var graph = new Graph ("g");
    graph.add_input ("x", DType.FLOAT32, { 2 });
    graph.add_initializer ("w", new Tensor.floats ({ 2 }, { 1, 2 }));
    graph.add_node ("Mystery", "com.example", "one", { "x", "w" }, { "y" });
    graph.add_output ("y");
    var report = new Model.from_graph (graph).check ();
    assert (!report.trainable && report.diagnostics.get_n_items () == 1);
    var diagnostic = (Diagnostic) report.diagnostics.get_item (0);
    assert (diagnostic.node == "one" && diagnostic.operator == "Mystery" && diagnostic.domain == "com.example");
    assert ("Mystery" in report.to_string ());
}

void test_pairs () throws Error {
    var builder = new GraphBuilder ("tied");
    var values = new float[400];
    for (var i = 0; i < 400; i++)
        values[i] = i;
    var w = new Tensor.floats ({ 20, 20 }, values);
    var hidden = builder.binary ("MatMul", builder.add_input ("x", DType.FLOAT32, "n, 20"), builder.add_tensor ("first", w));
    builder.add_output (builder.binary ("MatMul", hidden, builder.add_tensor ("second", w)), "y");
    var pairs = builder.build ().find_equal_parameters ();
    assert (pairs.get_n_items () == 1);
    var pair = (ParameterPair) pairs.get_item (0);
    assert (pair.get_first () == "first" && pair.get_second () == "second" && !pair.get_transposed ());
}

void test_graph () throws Error {
    var model = linear_model ();
    unowned var graph = model.get_graph ();
    assert (graph.get_nodes ().get_n_items () == 1);
    var node = (Ortrain.Node) graph.get_nodes ().get_item (0);
    assert (node.op_type == "Gemm" && node.get_attribute ("transB").get_int64 () == 1);
    Ortrain.Value weight = graph.find_value ("fc.weight");
    assert (weight.rank == 2 && weight.get_dim (0) == 3 && weight.get_producer () == null);
    assert (((Ortrain.Node) weight.get_consumers ().get_item (0)) == node);
    assert ("Gemm" in graph.to_string () && "digraph" in graph.to_dot ());

    var made = new Graph ("m");
    made.add_input ("x", DType.FLOAT32, { 2 });
    made.add_node ("Relu", null, "relu", { "x" }, { "a" });
    made.add_node ("Neg", null, "neg", { "a" }, { "y" });
    made.add_output ("y");
    assert (fails (() => { made.add_input ("x", DType.FLOAT32, { 2 }); }) is GraphError.NAME);
    made.replace_value (made.find_value ("a"), made.find_value ("x"));
    made.remove_node (made.find_node ("relu"));
    var feeds = new TensorDict ();
    feeds["x"] = new Tensor.floats ({ 2 }, { -1, 2 });
    var y = new InferenceSession (new Model.from_graph (made), null).run (feeds)["y"];
    assert (y.get_scalar (0) == 1 && y.get_scalar (1) == -2);
}

void check (Model model, Tensor x, Tensor logits) throws Error {
    unowned var graph = model.get_graph ();
    var w = graph.find_value ("fc.weight").get_tensor ();
    var b = graph.find_value ("fc.bias").get_tensor ();
    for (var i = 0; i < 8; i++)
        for (var j = 0; j < 3; j++) {
            var sum = b.get_scalar (j);
            for (var k = 0; k < 4; k++)
                sum += x.get_scalar (4 * i + k) * w.get_scalar (4 * j + k);
            assert (Math.fabs (sum - logits.get_scalar (3 * i + j)) < 1e-5);
        }
}

void test_inference () throws Error {
    var model = linear_model ();
    var options = new SessionOptions ();
    options.threads = 1;
    var session = new InferenceSession (model, options);
    assert (session.get_input_names ()[0] == "x" && session.get_output_names ()[0] == "logits");
    var feeds = new TensorDict ();
    feeds["x"] = batch ()["x"];
    check (model, feeds["x"], session.run (feeds)["logits"]);
    assert (fails (() => session.run (new TensorDict ())) is SessionError.FEED);

    var loop = new MainLoop ();
    session.run_async.begin (feeds, null, (object, result) => {
        on_main_thread ();
        works (() => check (model, feeds["x"], session.run_async.end (result)["logits"]));
        loop.quit ();
    });
    loop.run ();

    IoBinding binding = session.bind ();
    var logits = new Tensor (DType.FLOAT32, { 8, 3 });
    binding.bind_input ("x", feeds["x"]);
    binding.bind_output ("logits", logits);
    session.run_with_binding (binding);
    check (model, feeds["x"], logits);
    assert (binding.copy_output ("logits").equal (logits));
}

void test_devices () throws Error {
    var cpu = (Device) Device.list ().get_item (0);
    assert (cpu.name == "cpu" && cpu.get_reason () == null);
    assert (cpu.total_memory > cpu.get_available_memory ());
    var options = new TrainingOptions ();
    options.provider = "cpu";
    assert (options.get_provider () == "cpu");
}

void test_arena () throws Error {
    var arena = new Arena ((Device) Device.list ().get_item (0));
    var address = arena.allocate (1000);
    ArenaStatistics statistics = arena.get_statistics ();
    assert (statistics.bytes_in_use == 1024 && statistics.num_allocs == 1);
    assert (arena.release (address) && !arena.release (address));
    assert (arena.extend_strategy == ArenaExtendStrategy.NEXT_POWER_OF_TWO);
}

int main (string[] args) {
    unowned string[] rest = args;
    start (ref rest);
    Test.add_func ("/vala/model", () => works (test_model));
    Test.add_func ("/vala/arena", () => works (test_arena));
    Test.add_func ("/vala/model-async", () => works (test_model_async));
    Test.add_func ("/vala/check-report", () => works (test_check));
    Test.add_func ("/vala/equal-parameters", () => works (test_pairs));
    Test.add_func ("/vala/graph", () => works (test_graph));
    Test.add_func ("/vala/devices", () => works (test_devices));
    Test.add_func ("/vala/inference", () => works (test_inference));
    return run ();
}
