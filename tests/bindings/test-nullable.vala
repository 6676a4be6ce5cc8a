// SPDX-License-Identifier: LGPL-2.1-or-later
// Compiled with --enable-experimental-non-null: what can be NULL is nullable, and what cannot is not.
using Ortrain;

TrainingSession make_session (TrainingOptions options) throws Error {
    options.optimizer = new Sgd (0.1);
    options.add_loss (new CrossEntropyLoss ("logits", "labels"));
    return new TrainingSession (Common.linear_model (), options);
}

void test_null () {
    try {
        var options = new TrainingOptions ();
        options.schedule = null;
        options.loss_scaler = null;
        options.memory_opt_config = null;
        options.set_schedule (null);
        LrSchedule? schedule = options.schedule;
        LossScaler? scaler = options.loss_scaler;
        string? config = options.memory_opt_config;
        assert (schedule == null && scaler == null && config == null);
        var loss = new CrossEntropyLoss ("logits", "labels");
        loss.class_weights = null;
        Tensor? weights = loss.class_weights;
        assert (weights == null);
        var session = make_session (options);
        MemoryPlan? plan = session.memory_plan;
        assert (plan == null && session.get_memory_plan () == null);
        var dict = new TensorDict ();
        Tensor? missing = dict.get ("nope");
        assert (missing == null);
        dict.set ("x", new Tensor.floats ({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
        dict.set ("labels", new Tensor.ints ({2}, {0, 1}));
        session.train_step (dict);
        session.optimizer_step ();
        plan = session.memory_plan;
        assert (plan != null);
        var dataset = new TensorDataset (dict);
        var loader = new DataLoader (dataset, 1);
        TensorDict? batch;
        var n = 0;
        while ((batch = loader.next ()) != null)
            n++;
        assert (n == 2);
        var trainer = new Trainer (session, dataset);
        trainer.show_progress = ShowProgress.NEVER;
        trainer.validation = null;
        trainer.checkpoint_dir = null;
        assert (trainer.validation == null && trainer.checkpoint_dir == null);
        assert (trainer.fit ().get_n_epochs () == 1);
        new InferenceSession (Common.linear_model (), null);
    } catch (Error e) {
        error ("%s", e.message);
    }
}

async void fit (MainLoop loop) {
    try {
        var dict = new TensorDict ();
        dict.set ("x", new Tensor.floats ({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
        dict.set ("labels", new Tensor.ints ({2}, {0, 1}));
        var trainer = new Trainer (make_session (new TrainingOptions ()), new TensorDataset (dict));
        trainer.show_progress = ShowProgress.NEVER;
        var history = yield trainer.fit_async ();       // without a cancellable, as fit ()
        assert (history.get_n_epochs () == 1);
    } catch (Error e) {
        error ("%s", e.message);
    }
    loop.quit ();
}

void test_async () {
    var loop = new MainLoop ();
    fit.begin (loop);
    loop.run ();
}

int main (string[] args) {
    unowned var arguments = args;
    Common.start (ref arguments);
    Test.add_func ("/nullable/null", test_null);
    Test.add_func ("/nullable/async", test_async);
    return Common.run ();
}
