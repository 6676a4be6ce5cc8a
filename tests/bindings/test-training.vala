// SPDX-License-Identifier: LGPL-2.1-or-later
using Ortrain;
using Common;

class Halves : LrSchedule {
    public Halves () {
        Object ();
    }

    public override bool evaluate (uint64 step, out double factor) throws Error {
        factor = Math.pow (0.5, step);
        return true;
    }
}

class Batches : Ortrain.Metric {
    int n;

    public Batches () {
        Object (name: "batches");
    }

    public override void reset () {
        n = 0;
    }

    public override bool update (TensorDict outputs, TensorDict batch) throws Error {
        n++;
        return true;
    }

    public override bool compute (out double value) throws Error {
        value = n;
        return true;
    }
}

void test_metrics () throws Error {
    var trainer = new Trainer (training_session (), new TensorDataset (batch ()));
    trainer.validation = new TensorDataset (batch ());
    var accuracy = new ClassificationMetric.accuracy (2, "logits", "labels");
    trainer.add_metric (new Batches ());
    trainer.add_metric (accuracy);
    var record = (EpochRecord) trainer.fit (null).epochs.get_item (0);
    assert (record.get_value ("batches") == 1 && record.get_value ("top2_accuracy") > 0);
    assert (((ClassificationMetric) accuracy).get_confusion_matrix ().get_dim (1) == 3);
    var r2 = new RegressionMetric (RegressionMeasure.R2, "y", "t");
    assert (r2.name == "r2");
}

/* A handler ends the training behind the update, or the epoch, in which it is called. */
void test_stop () throws Error {
    var trainer = new Trainer (training_session (), new TensorDataset (batch ()));
    trainer.epochs = 5;
    trainer.batch_size = 2;
    trainer.show_progress = ShowProgress.NEVER;
    var handler = trainer.progress.connect ((progress) => {
        if (progress.step == 1)
            trainer.stop ();
    });
    var history = trainer.fit (null);
    assert (history.stopped_early && history.n_steps == 1 && history.n_epochs == 0);
    trainer.disconnect (handler);
    trainer.epoch_ended.connect ((record) => {
        if (record.epoch == 2)
            trainer.stop ();
    });
    history = trainer.fit (null);
    assert (history.stopped_early && history.n_epochs == 2);
}

void test_steps () throws Error {
    var session = training_session ();
    var phases = "";
    session.pre_forward.connect ((report) => { on_main_thread (); phases += report.phase + " "; });
    session.post_forward.connect ((report) => { on_main_thread (); phases += report.phase + " "; });
    session.pre_backward.connect ((report) => { on_main_thread (); phases += report.phase + " "; });
    session.post_backward.connect ((report) => { on_main_thread (); phases += report.phase + " "; });
    session.pre_update.connect ((report) => { on_main_thread (); phases += report.phase + " "; });
    session.post_update.connect ((report) => { on_main_thread (); phases += report.phase; });
    var plans = 0;
    session.plan_changed.connect ((plan) => { on_main_thread (); plans++; });
    var first = session.train_step (batch ());
    session.optimizer_step ();
    assert (phases == "pre_forward post_forward pre_backward post_backward pre_update post_update");
    assert (session.step == 1 && plans == 1 && session.get_gradients ().size == 2);
    for (var i = 0; i < 20; i++) {
        session.train_step (batch ());
        session.optimizer_step ();
    }
    assert (session.train_step (batch ()) < first);
    var outputs = session.eval_step (batch ());
    assert (outputs["logits"].get_dim (1) == 3 && outputs["loss"].get_scalar (0) > 0);
}

void test_async () throws Error {
    var session = training_session ();
    var loop = new MainLoop ();
    var phases = 0;
    session.post_forward.connect (() => { on_main_thread (); phases++; });
    steps.begin (session, null, (object, result) => {
        works (() => assert (steps.end (result) > 0));
        loop.quit ();
    });
    loop.run ();
    assert (phases == 1 && session.step == 1);

    var cancellable = new Cancellable ();
    cancellable.cancel ();
    steps.begin (session, cancellable, (object, result) => {
        assert (fails (() => steps.end (result)) is IOError.CANCELLED);
        loop.quit ();
    });
    loop.run ();
    assert (session.train_step (batch ()) > 0);
}

// Every other asynchronous pair, then each of them cancelled.
void test_async_pairs () throws Error {
    var loop = new MainLoop ();
    pairs.begin (null, (object, result) => {
        works (() => pairs.end (result));
        loop.quit ();
    });
    loop.run ();
    all_cancelled.begin ((object, result) => {
        assert (all_cancelled.end (result) == 10);
        loop.quit ();
    });
    loop.run ();
}

TrainingOptions adam_options () {
    var options = new TrainingOptions ();
    options.optimizer = new Adam (0.01);
    options.add_loss (new CrossEntropyLoss ("logits", "labels"));
    return options;
}

async void pairs (Cancellable? cancellable) throws Error {
    var session = yield new TrainingSession.from_model_async (linear_model (), adam_options (), cancellable);
    on_main_thread ();
    var loss = yield session.train_step_async (batch (), cancellable);
    yield session.optimizer_step_async (cancellable);
    assert (yield session.save_checkpoint_async (path ("async"), cancellable));
    assert (yield session.export_async (path ("async.onnx"), cancellable));
    assert (new Model.from_file (path ("async.onnx")).n_parameters == 15);
    var other = yield new TrainingSession.from_model_async (linear_model (), adam_options (), cancellable);
    assert (yield other.load_checkpoint_async (path ("async"), cancellable));
    assert (other.step == 1);
    var outputs = yield other.eval_step_async (batch (), cancellable);
    on_main_thread ();
    assert (outputs["loss"].get_scalar (0) < loss);
    var checkpoint = yield Checkpoint.load_async (path ("async"), cancellable);
    assert (checkpoint.get_tensors ("parameters").size == 2);
    assert (yield checkpoint.save_async (path ("again"), cancellable));
    assert (Checkpoint.exists (path ("again")));
    assert (yield checkpoint.export_async (path ("exported.onnx"), cancellable));
    var exported = new Model.from_file (path ("exported.onnx"));
    assert (yield exported.save_async (path ("saved.onnx"), cancellable));
    var inference = yield new InferenceSession.from_model_async (new Model.from_file (path ("saved.onnx")), null, cancellable);
    on_main_thread ();
    var feeds = batch ();
    feeds.remove ("labels");
    assert (Math.fabs (inference.run (feeds)["logits"].get_scalar (3) - outputs["logits"].get_scalar (3)) < 1e-5);
    var trainer = new Trainer (other, new TensorDataset (batch ()));
    double found, metric, expected;
    assert (yield trainer.evaluate_async (new TensorDataset (batch ()), cancellable, out found, out metric));
    trainer.evaluate (new TensorDataset (batch ()), null, out expected, null);
    assert (found == expected && metric >= 0);
}

async int all_cancelled () {
    var cancellable = new Cancellable ();
    cancellable.cancel ();
    TrainingSession session;
    InferenceSession inference;
    TensorDict feeds;
    Trainer trainer;
    try {
        session = new TrainingSession (linear_model (), adam_options ());
        session.train_step (batch ());
        inference = new InferenceSession (linear_model (), null);
        feeds = batch ();
        feeds.remove ("labels");
        trainer = new Trainer (session, new TensorDataset (batch ()));
    } catch (Error e) {
        return -1;
    }
    var n = 0;
    try {
        yield new TrainingSession.from_model_async (session.model, adam_options (), cancellable);
    } catch (IOError.CANCELLED e) {
        n++;
    } catch (Error e) {
        message ("%s", e.message);
    }
    try {
        yield session.train_step_async (batch (), cancellable);
    } catch (IOError.CANCELLED e) {
        n++;
    } catch (Error e) {
        message ("%s", e.message);
    }
    try {
        yield session.optimizer_step_async (cancellable);
    } catch (IOError.CANCELLED e) {
        n++;
    } catch (Error e) {
        message ("%s", e.message);
    }
    try {
        yield session.eval_step_async (batch (), cancellable);
    } catch (IOError.CANCELLED e) {
        n++;
    } catch (Error e) {
        message ("%s", e.message);
    }
    try {
        yield session.export_async (path ("no.onnx"), cancellable);
    } catch (IOError.CANCELLED e) {
        n++;
    } catch (Error e) {
        message ("%s", e.message);
    }
    try {
        yield session.save_checkpoint_async (path ("no"), cancellable);
    } catch (IOError.CANCELLED e) {
        n++;
    } catch (Error e) {
        message ("%s", e.message);
    }
    try {
        yield session.load_checkpoint_async (path ("async"), cancellable);
    } catch (IOError.CANCELLED e) {
        n++;
    } catch (Error e) {
        message ("%s", e.message);
    }
    try {
        yield inference.run_async (feeds, cancellable);
    } catch (IOError.CANCELLED e) {
        n++;
    } catch (Error e) {
        message ("%s", e.message);
    }
    try {
        yield trainer.fit_async (cancellable);
    } catch (IOError.CANCELLED e) {
        n++;
    } catch (Error e) {
        message ("%s", e.message);
    }
    try {
        yield Checkpoint.load_async (path ("async"), cancellable);
    } catch (IOError.CANCELLED e) {
        n++;
    } catch (Error e) {
        message ("%s", e.message);
    }
    assert (!FileUtils.test (path ("no.onnx"), EXISTS) && !Checkpoint.exists (path ("no")));
    assert (session.step == 0);     // as it was: the gradients are there still
    works (() => session.optimizer_step ());
    return session.step == 1 ? n : -2;
}

void test_not_finite () throws Error {
    var options = adam_options ();
    options.stop_on_nan = true;
    var session = new TrainingSession (linear_model (), options);
    var seen = 0;
    session.not_finite.connect (() => { on_main_thread (); seen++; });
    var feeds = batch ();
    var bad = new float[32];
    bad[3] = float.NAN;
    feeds["x"] = new Tensor.floats ({ 8, 4 }, bad);
    assert (fails (() => session.train_step (feeds)) is SessionError.NOT_FINITE && seen == 1);
    var before = session.get_parameters ()["fc.weight"].copy ();
    assert (fails (() => session.optimizer_step ()) is SessionError.STATE);
    assert (session.get_parameters ()["fc.weight"].equal (before));
    options.stop_on_nan = false;
    options.max_grad_norm = 1;
    var lenient = new TrainingSession (linear_model (), options);
    var overflows = 0;
    lenient.overflow.connect (() => { on_main_thread (); overflows++; });
    assert (lenient.train_step (feeds).is_nan ());
    lenient.optimizer_step ();
    assert (overflows == 1 && lenient.step == 0 && lenient.get_parameters ()["fc.weight"].equal (before));
}

void test_loss_scale () throws Error {
    var options = adam_options ();
    options.precision = FP16;
    options.loss_scaler = new LossScaler ();
    options.loss_scaler.initial_scale = 16777216;
    var session = new TrainingSession (linear_model (), options);
    var overflows = 0;
    session.overflow.connect (() => { on_main_thread (); overflows++; });
    session.train_step (batch ());
    session.optimizer_step ();
    assert (overflows == 1 && session.step == 0 && session.n_overflows == 1 && session.loss_scale == 8388608);
}

async double steps (TrainingSession session, Cancellable? cancellable) throws Error {
    var loss = yield session.train_step_async (batch (), cancellable);
    on_main_thread ();
    yield session.optimizer_step_async (cancellable);
    return loss;
}

void test_memory () throws Error {
    var session = training_session ();
    MemoryReport? last = null;
    session.post_backward.connect ((report) => { last = report.copy (); });
    session.train_step (batch ());
    MemoryPlan plan = session.memory_plan;
    assert (last.max_allocated == plan.peak_bytes && last.rank == 0 && last.step == 1);
    assert (last.to_string ().has_prefix ("rank-0 step 1 memory (MiB) | phase: post_backward | allocated: "));
    assert (plan.blocks.get_n_items () > 3 && plan.lower_bound_bytes <= plan.arena_bytes);
    var found = false;
    for (var i = 0; i < plan.blocks.get_n_items (); i++) {
        var block = (MemoryBlock) plan.blocks.get_item (i);
        found |= block.name == "fc.weight" && block.bytes == 48 && block.category == "parameter";
    }
    assert (plan.steps.get_n_items () == plan.n_steps && plan.gradients_kept != null);
    assert (((MemoryStep) plan.steps.get_item (plan.peak_step)).live_bytes == plan.lower_bound_bytes);
    assert (found && "<svg" in plan.to_svg () && "peak_bytes" in plan.to_json ());
    plan.save_html (path ("plan.html"));
    var rows = session.get_recompute_clusters ();
    assert (rows.get_n_items () > 0);
    var row = (RecomputeCluster) rows.get_item (0);
    uint64 bytes;
    assert (row.evaluate ("batch=8", out bytes) && bytes == row.saving_bytes && row.saving_bytes > 0);
    assert (row.configuration in session.format_recompute_table (false) && row.id in session.recompute_to_json ());
}

void test_errors () throws Error {
    var session = training_session ();
    var feeds = batch ();
    feeds.remove ("labels");
    assert (fails (() => session.train_step (feeds)) is SessionError.FEED);
    feeds["labels"] = new Tensor.ints ({ 8 }, { 0, 1, 2, 99, 0, 1, 2, 0 });
    assert (fails (() => session.train_step (feeds)) is SessionError.INDEX);
    assert (session.train_step (batch ()) > 0);
}

void test_optimizers () throws Error {
    var adam = new Adam (0.05);
    adam.beta1 = 0.8;
    var adamw = new AdamW (0.05);
    adamw.mode = AdamwMode.DECAY_LAST;
    Optimizer[] optimizers = { new Sgd (0.5), adam, adamw, new Lamb (0.05), new Adagrad (0.3) };
    foreach (var optimizer in optimizers) {
        var session = training_session (optimizer);
        double first = 0, last = 0;
        for (var i = 0; i < 20; i++) {
            last = session.train_step (batch ());
            if (i == 0)
                first = last;
            session.optimizer_step ();
        }
        assert (last < first);
        optimizer.learning_rate = 0.125;
        assert (session.get_current_learning_rate () == 0.125);
    }
    // each one's own properties, told once
    var told = 0;
    var sgd = (Sgd) optimizers[0];
    sgd.notify["momentum"].connect (() => told++);
    sgd.momentum = 0.5;
    sgd.momentum = 0.5;
    sgd.nesterov = true;
    assert (told == 1 && sgd.get_momentum () == 0.5 && sgd.nesterov && sgd.weight_decay == 0);
    adam.beta2 = 0.75;
    adam.epsilon = 0.125;
    adam.bias_correction = false;
    assert (adam.beta1 == 0.8 && adam.get_beta2 () == 0.75 && adam.epsilon == 0.125 && !adam.bias_correction);
    assert (adamw.get_mode () == AdamwMode.DECAY_LAST && adamw.weight_decay > 0);
    var lamb = (Lamb) optimizers[3];
    lamb.ratio_min = 0.5;
    lamb.ratio_max = 2;
    assert (lamb.get_ratio_min () == 0.5 && lamb.ratio_max == 2);
    var adagrad = (Adagrad) optimizers[4];
    adagrad.initial_accumulator = 0.5;
    adagrad.learning_rate_decay = 0.25;
    assert (adagrad.get_initial_accumulator () == 0.5 && adagrad.learning_rate_decay == 0.25);
    ParameterGroup group = optimizers[0].add_group ("*.bias", 0.5, -1);
    assert (group.matches ("fc.bias") && !group.matches ("fc.weight") && optimizers[0].groups.get_n_items () == 1);
}

void test_schedules () throws Error {
    LrSchedule[] schedules = { new ConstantSchedule (0.5), new LinearSchedule (100), new CosineSchedule (100),
                               new PolynomialSchedule (100, 2), new StepSchedule (10, 0.1), new WarmUpSchedule (10, null),
                               new OneCycleSchedule (100), new Halves (), new EpochSchedule (new Halves ()) };
    ((EpochSchedule) schedules[8]).updates_per_epoch = 20;
    double[] expected = { 0.5, 0.5, 0.5, 0.25, 1e-5, 1, -1, Math.pow (0.5, 50), 0.25 };
    for (var i = 0; i < schedules.length; i++) {
        double factor;
        assert (schedules[i].evaluate (50, out factor));
        assert (expected[i] < 0 || Math.fabs (factor - expected[i]) < 1e-9);
    }
    ((LinearSchedule) schedules[1]).end_factor = 0.5;
    ((CosineSchedule) schedules[2]).end_factor = 0.5;
    ((PolynomialSchedule) schedules[3]).power = 1;
    ((StepSchedule) schedules[4]).gamma = 0.5;
    ((WarmUpSchedule) schedules[5]).steps = 100;
    ((WarmUpSchedule) schedules[5]).start_factor = 0.5;
    double[] changed = { 0.5, 0.75, 0.75, 0.5, 1.0 / 32, 0.75 };
    for (var i = 0; i < changed.length; i++) {
        double factor;
        assert (schedules[i].evaluate (50, out factor) && Math.fabs (factor - changed[i]) < 0.01);
    }
    var cycle = (OneCycleSchedule) schedules[6];
    cycle.initial_divisor = 8;
    double first;
    assert (cycle.evaluate (0, out first) && Math.fabs (first - 1.0 / 8) < 1e-9 && cycle.rise > 0 && cycle.final_divisor > 1);
    var plateau = new PlateauSchedule (0.1, 1);
    plateau.threshold = 0.25;
    plateau.least_factor = 0.05;
    assert (plateau.gamma == 0.1 && plateau.patience == 1 && plateau.get_threshold () == 0.25 && plateau.get_least_factor () == 0.05);
    for (var i = 0; i < 4; i++)
        plateau.observe (1);
    double factor;
    assert (plateau.evaluate (0, out factor) && factor < 1);
}

int index_of_zero (Tensor labels) {
    for (var i = 0; i < labels.n_elements; i++)
        if (labels.get_scalar (i) == 0)
            return i;
    assert_not_reached ();
}

void test_losses () throws Error {
    var huber = new HuberLoss ("logits", "t");
    huber.delta = 0.5;
    Loss[] losses = { new MseLoss ("logits", "t"), new L1Loss ("logits", "t"), huber, new BceWithLogitsLoss ("logits", "t") };
    var feeds = new TensorDict ();
    feeds["x"] = batch ()["x"];
    feeds["t"] = new Tensor (DType.FLOAT32, { 8, 3 });
    foreach (var loss in losses) {
        var options = new TrainingOptions ();
        loss.weight = 2;
        options.add_loss (loss);
        var twice = new TrainingSession (linear_model (), options).train_step (feeds);
        loss.weight = 1;
        var once = new TrainingSession (linear_model (), options).train_step (feeds);
        assert (once > 0 && Math.fabs (twice - 2 * once) < 1e-6);
    }
    assert (new OutputLoss ("mean").output == "mean");
    var likelihood = new NllLoss ("logits", "labels");
    assert (likelihood.axis == -1 && likelihood.ignore_index == -100);
    // labels that are ignored leave the mean as it is of the others
    var entropy = new CrossEntropyLoss ("logits", "labels");
    entropy.ignore_index = 0;
    entropy.label_smoothing = 0.25;
    entropy.class_weights = new Tensor.floats ({ 3 }, { 1, 2, 4 });
    assert (entropy.axis == -1 && entropy.get_class_weights ().get_scalar (2) == 4);
    var ignoring = new TrainingOptions ();
    ignoring.add_loss (entropy);
    var session = new TrainingSession (linear_model (), ignoring);
    var some = batch ();
    var before = session.train_step (some);
    ((float*) some["x"].get_address ())[4 * index_of_zero (some["labels"])] += 1;
    assert (session.train_step (some) == before);
}

void test_options () throws Error {
    FileUtils.set_contents (path ("o.json"), """{"optimizer": {"type": "adamw", "learning_rate": 0.25}, "frozen": ["*.bias"],
                            "losses": [{"type": "cross-entropy", "output": "logits", "target": "labels"}]}""");
    var options = new TrainingOptions.from_file (path ("o.json"));
    assert (options.optimizer is AdamW && options.optimizer.learning_rate == 0.25 && options.frozen[0] == "*.bias");
    var session = new TrainingSession (linear_model (), options);
    session.train_step (batch ());
    assert (session.get_gradients ().size == 1);
    FileUtils.set_contents (path ("o.json"), """{"optimiser": 1}""");
    assert (fails (() => options.load_file (path ("o.json"))) is SessionError.OPTION);
    assert (fails (() => { new SessionOptions.from_file (path ("o.json")); }) is SessionError.OPTION);
}

void test_persistence () throws Error {
    var session = training_session (new Adam (0.01));
    session.train_step (batch ());
    session.optimizer_step ();
    session.save_checkpoint (path ("session"));
    var other = training_session (new Adam (0.01));
    other.load_checkpoint (path ("session"));
    assert (other.step == 1 && other.train_step (batch ()) == session.train_step (batch ()));
    session.export (path ("trained.onnx"));
    assert (new Model.from_file (path ("trained.onnx")).n_parameters == 15);
}

void test_trainer () throws Error {
    var trainer = new Trainer (training_session (), new TensorDataset (batch (48)));
    trainer.epochs = 3;
    trainer.batch_size = 16;
    trainer.validation = new TensorDataset (batch (16));
    double fraction = 0;
    var epochs = 0;
    trainer.progress.connect ((progress) => {
        on_main_thread ();
        Progress copy = progress.copy ();
        fraction = copy.fraction;
    });
    trainer.epoch_ended.connect ((record) => { on_main_thread (); epochs++; assert (record.epoch == epochs); });
    TrainingHistory history = trainer.fit ();
    assert (fraction == 1 && epochs == 3 && history.n_epochs == 3 && history.n_steps == 9);
    assert (((EpochRecord) history.epochs.get_item (2)).loss == history.last_loss);

    fraction = 0;
    epochs = 0;
    var loop = new MainLoop ();
    trainer.fit_async.begin (null, (object, result) => {
        on_main_thread ();
        works (() => assert (trainer.fit_async.end (result).n_epochs == 3));
        loop.quit ();
    });
    loop.run ();
    assert (fraction == 1);

    epochs = 0;
    trainer.epochs = 100000;
    var cancellable = new Cancellable ();
    ulong handler = 0;
    handler = trainer.progress.connect (() => cancellable.cancel ());
    trainer.fit_async.begin (cancellable, (object, result) => {
        assert (fails (() => trainer.fit_async.end (result)) is IOError.CANCELLED);
        loop.quit ();
    });
    loop.run ();
    assert (trainer.get_session ().train_step (batch ()) > 0);
}

int main (string[] args) {
    unowned string[] rest = args;
    start (ref rest);
    Test.add_func ("/vala/steps", () => works (test_steps));
    Test.add_func ("/vala/async", () => works (test_async));
    Test.add_func ("/vala/async-pairs", () => works (test_async_pairs));
    Test.add_func ("/vala/not-finite", () => works (test_not_finite));
    Test.add_func ("/vala/loss-scale", () => works (test_loss_scale));
    Test.add_func ("/vala/memory", () => works (test_memory));
    Test.add_func ("/vala/errors", () => works (test_errors));
    Test.add_func ("/vala/optimizers", () => works (test_optimizers));
    Test.add_func ("/vala/schedules", () => works (test_schedules));
    Test.add_func ("/vala/losses", () => works (test_losses));
    Test.add_func ("/vala/options", () => works (test_options));
    Test.add_func ("/vala/persistence", () => works (test_persistence));
    Test.add_func ("/vala/metrics", () => works (test_metrics));
    Test.add_func ("/vala/stop", () => works (test_stop));
    Test.add_func ("/vala/trainer", () => works (test_trainer));
    return run ();
}
