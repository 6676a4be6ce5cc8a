// SPDX-License-Identifier: LGPL-2.1-or-later
// What the tests in Vala share: small models.
using Ortrain;

namespace Common {
    public string folder;
    public unowned Thread<bool> main_thread;

    public void start (ref unowned string[] args) {
        Test.init (ref args);
        main_thread = Thread.self<bool> ();
        try {
            folder = DirUtils.make_tmp ("ortrain-vala-XXXXXX");
        } catch (FileError e) {
            error ("%s", e.message);
        }
    }

    public int run () {
        var status = Test.run ();
        remove (File.new_for_path (folder));
        return status;
    }

    void remove (File file) {
        try {
            if (file.query_file_type (NOFOLLOW_SYMLINKS) == DIRECTORY) {
                var children = file.enumerate_children ("standard::*", NOFOLLOW_SYMLINKS);
                for (var info = children.next_file (); info != null; info = children.next_file ())
                    remove (file.get_child (((!) info).get_name ()));
            }
            file.delete ();
        } catch (Error e) {
            message ("%s", e.message);
        }
    }

    public string path (string name) {
        return Path.build_filename (folder, name);
    }

    public void on_main_thread () {
        assert (Thread.self<bool> () == main_thread);
    }

    public delegate void Failing () throws Error;

    public Error fails (Failing f) {
        try {
            f ();
        } catch (Error e) {
            return e;
        }
        Test.fail ();
        return new IOError.FAILED ("no error");
    }

    public delegate void Working () throws Error;

    public void works (Working f) {
        try {
            f ();
        } catch (Error e) {
            message ("%s", e.message);
            Test.fail ();
        }
    }

    // x [batch, 4] → logits [batch, 3]; the parameters are fc.weight [3, 4] and fc.bias [3].
    public Model linear_model () throws Error {
        var builder = new GraphBuilder ("linear");
        builder.seed = 1;
        var x = builder.add_input ("x", DType.FLOAT32, "batch, 4");
        builder.add_output (builder.linear (x, "fc", 3, true), "logits");
        return builder.build ();
    }

    public TensorDict batch (int64 n = 8) throws Error {
        var x = new float[4 * n];
        var labels = new int64[n];
        for (var i = 0; i < x.length; i++)
            x[i] = Math.sinf (i * i);
        for (var i = 0; i < n; i++)
            labels[i] = x[4 * i] > 0 ? 1 : 0;
        var feeds = new TensorDict ();
        feeds.set ("x", new Tensor.floats ({ n, 4 }, x));
        feeds.set ("labels", new Tensor.ints ({ n }, labels));
        return feeds;
    }

    public TrainingSession training_session (Optimizer? optimizer = null) throws Error {
        var options = new TrainingOptions ();
        options.optimizer = optimizer ?? new Sgd (0.1);
        options.add_loss (new CrossEntropyLoss ("logits", "labels"));
        return new TrainingSession (linear_model (), options);
    }
}
