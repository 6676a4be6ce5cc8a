/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"
#include "ortrain.h"

#include <string.h>

#include "../model/ortrain-proto-maker.h"

/* Files whose declared shapes are wrong, loose or empty: the shapes that operators compute count, as in ONNX
 * Runtime. */

#define FLOAT ORTRAIN_DTYPE_FLOAT32
#define INT64 ORTRAIN_DTYPE_INT64

/* A ValueInfo. shape: sizes separated by commas, numbers or names, "_" for one that has neither; NULL: no shape. */
static Proto *
declare (const char *name, gint type, const char *shape)
{
  return shape != NULL ? proto_symbolic_value (name, type, shape) : proto_value_of_shape (name, type, NULL);
}

static void
add_input (Proto *graph, const char *name, gint type, const char *shape)
{
  proto_message (graph, 11, declare (name, type, shape));
}

static void
add_output (Proto *graph, const char *name, gint type, const char *shape)
{
  proto_message (graph, 12, declare (name, type, shape));
}

static void
add_value_info (Proto *graph, const char *name, gint type, const char *shape)
{
  proto_message (graph, 13, declare (name, type, shape));
}

/* Takes the graph. */
static OrtrainModel *
load (Proto *graph)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  OrtrainModel *model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return model;
}

static void
feed_floats (OrtrainTensorDict *feeds, const char *name, gint64 rows, gint64 columns)
{
  const gint64 dims[] = { rows, columns };
  g_autofree float *values = g_new (float, (rows * columns) + 1);
  for (gint64 i = 0; i < rows * columns; i++)
    values[i] = (float) (i % 5) - 1.5f;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_floats (dims, 2, values, (gsize) (rows * columns), NULL);
  ortrain_tensor_dict_set (feeds, name, tensor);
}

static void
feed_ints (OrtrainTensorDict *feeds, const char *name, const gint64 *values, gint64 n)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_ints (&n, 1, values, (gsize) n, NULL);
  ortrain_tensor_dict_set (feeds, name, tensor);
}

static char *
run (OrtrainModel *model, OrtrainTensorDict *feeds, const char *output)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
  g_assert_no_error (error);
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (ortrain_tensor_dict_get (outputs, output), &rank);
  GString *text = g_string_new (NULL);
  for (gsize i = 0; i < rank; i++)
    g_string_append_printf (text, "%s%d", i > 0 ? "," : "", (int) dims[i]);
  return g_string_free (text, FALSE);
}

/* x → Relu → z → Relu → y */
static Proto *
chain (const char *input, const char *middle, const char *output)
{
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("Relu", "x", "z"));
  proto_message (graph, 1, proto_node ("Relu", "z", "y"));
  add_input (graph, "x", FLOAT, input);
  add_output (graph, "y", FLOAT, output);
  if (middle != NULL)
    add_value_info (graph, "z", FLOAT, middle);
  return graph;
}

/* Each is run with x [2, 4]. */
static void
test_wrong_shapes (void)
{
  const struct
  {
    const char *input, *middle, *output;
    gboolean is_noted;
  } cases[] = {
    { "b,4", NULL, "3,4,5", TRUE }, { "b,4", NULL, "b,7", TRUE },         { "b,4", "b,4,1", "b,4", TRUE },
    { "b,4", "b,5", "b,4", TRUE },  { "b,4", "1,4", "8,4", FALSE },       { "b,4", "b,4", "1,4", FALSE },
    { "?,?", "?,?", "?,?", FALSE }, { "0,4", NULL, "0,4", FALSE },        { "-1,4", NULL, "-1,4", FALSE },
    { "_,4", NULL, "_,4", FALSE },  { "?,? ", NULL, "?", TRUE },          { " ,4", NULL, " , ", FALSE },
    { NULL, NULL, NULL, FALSE },    { "2,4", "b,b", "b,4", FALSE },       { "b,c", "c,b", "c,b", FALSE },
    { "b,c", "4,4", "b,b", FALSE }, { "b,c", "b,c,c,c,c,c,c", "", TRUE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (OrtrainModel) model = load (chain (cases[i].input, cases[i].middle, cases[i].output));
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      feed_floats (feeds, "x", 2, 4);
      g_autofree char *shape = run (model, feeds, "y");
      g_assert_cmpstr (shape, ==, "2,4");
      g_auto (GStrv) notes = ortrain_model_get_notes (model);
      g_test_message ("case %u: %s", i, notes[0] != NULL ? notes[0] : "no note");
      g_assert_cmpint (notes[0] != NULL, ==, cases[i].is_noted);
      if (notes[0] != NULL)
        g_assert_nonnull (strstr (notes[0], "Relu"));
    }
}

/* ONNX Runtime refuses a wrong element type, and a size of an input that differs from the file's. */
static void
test_binding (void)
{
  g_autoptr (GError) error = NULL;
  Proto *graph = chain ("b,4", NULL, "b,4");
  add_value_info (graph, "z", INT64, "b,4");
  g_autoptr (OrtrainModel) typed = load (graph);
  g_assert_null (ortrain_model_get_graph (typed, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DTYPE);
  g_assert_nonnull (strstr (error->message, "'z'"));
  g_clear_error (&error);

  g_autoptr (OrtrainModel) model = load (chain ("3,4", NULL, NULL));
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  feed_floats (feeds, "x", 2, 4);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_null (ortrain_inference_session_run (session, feeds, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
}

/* A file with a thousand of them is told in a few lines. */
static void
test_many_notes (void)
{
  Proto *graph = proto_new ();
  add_input (graph, "v0", FLOAT, "b,4");
  for (guint i = 0; i < 1000; i++)
    {
      g_autofree char *from = g_strdup_printf ("v%u", i), *to = g_strdup_printf ("v%u", i + 1);
      proto_message (graph, 1, proto_node ("Relu", from, to));
      add_value_info (graph, to, FLOAT, "b,4,9");
    }
  add_output (graph, "v1000", FLOAT, "b,4");
  g_autoptr (OrtrainModel) model = load (graph);
  g_auto (GStrv) notes = ortrain_model_get_notes (model);
  g_assert_cmpuint (g_strv_length (notes), ==, 5);
  g_assert_nonnull (strstr (notes[4], "996 more"));
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_autofree char *text = ortrain_check_report_to_string (report), *told = ortrain_model_to_string (model);
  g_assert_nonnull (strstr (text, "996 more"));
  g_assert_nonnull (strstr (told, "996 more"));
}

/* Two inputs that share a name of a size, fed with two sizes: the operators decide whether they fit. */
static void
test_shared_names (void)
{
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("Add", "x,w", "y"));
  add_input (graph, "x", FLOAT, "b,4");
  add_input (graph, "w", FLOAT, "b,4");
  add_output (graph, "y", FLOAT, "b,4");
  g_autoptr (OrtrainModel) model = load (graph);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  feed_floats (feeds, "x", 3, 4);
  feed_floats (feeds, "w", 1, 4);
  g_autofree char *shape = run (model, feeds, "y");
  g_assert_cmpstr (shape, ==, "3,4");

  g_autoptr (GError) error = NULL;
  feed_floats (feeds, "w", 2, 4);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_null (ortrain_inference_session_run (session, feeds, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
}

/* Where inference knows nothing, a declaration is taken, until the numbers say otherwise. */
static void
test_unknown_ranks (void)
{
  const char *const declared[] = { NULL, "b,4", "2,2,2", "9,9,9", "1,8", "8", "a,b,c,d" };
  for (guint i = 0; i < G_N_ELEMENTS (declared); i++)
    {
      Proto *graph = proto_new ();
      proto_message (graph, 1, proto_node ("Reshape", "x,s", "r"));
      proto_message (graph, 1, proto_node ("Shape", "r", "n"));
      proto_message (graph, 1, proto_node ("Expand", "one,n", "e"));
      proto_message (graph, 1, proto_node ("Mul", "e,r", "y"));
      add_input (graph, "x", FLOAT, "b,4");
      add_input (graph, "s", INT64, "_");
      add_input (graph, "one", FLOAT, "1,1");
      add_output (graph, "y", FLOAT, declared[i]);
      add_value_info (graph, "r", FLOAT, declared[i]);
      g_autoptr (OrtrainModel) model = load (graph);
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      feed_floats (feeds, "x", 2, 4);
      feed_floats (feeds, "one", 1, 1);
      feed_ints (feeds, "s", (const gint64[]){ 2, 2, 2 }, 3);
      g_autofree char *shape = run (model, feeds, "y");
      g_assert_cmpstr (shape, ==, "2,2,2");
    }
}

/* The session may go on with another graph in the middle of a step, which others may look at. */
typedef struct
{
  OrtrainTrainingSession *session;
  gint stop;
} Reader;

static gpointer
read_graph (gpointer data)
{
  Reader *self = data;
  while (!g_atomic_int_get (&self->stop))
    {
      g_autoptr (OrtrainGraph) graph = NULL;
      g_auto (GStrv) notes G_GNUC_UNUSED = ortrain_training_session_get_notes (self->session);
      g_object_get (self->session, "training-graph", &graph, NULL);
      g_assert_nonnull (graph);
      g_assert_true (ORTRAIN_IS_GRAPH (ortrain_training_session_get_training_graph (self->session)));
    }
  return NULL;
}

/* y = r w + bias, r = Reshape (x w0, s) with a fed s: the weights train whatever is declared of r and y. */
static void
test_training (void)
{
  const char *const declared[] = { NULL, "b,4", "4,4", "7,9", "b,4,2", "4" };
  double first = 0;
  for (guint i = 0; i < G_N_ELEMENTS (declared); i++)
    {
      g_autoptr (GError) error = NULL;
      const float weights[16] = { .5f, -1, .25f, 2, 1, .125f, -.5f, 1, -2, 1, .75f, -.25f, 1, -1, .5f, 2 };
      Proto *graph = proto_new ();
      proto_message (graph, 1, proto_node ("MatMul", "x,w0", "h"));
      proto_message (graph, 1, proto_node ("Reshape", "h,s", "r"));
      proto_message (graph, 1, proto_node ("Mul", "r,w", "p"));
      proto_message (graph, 1, proto_node ("Add", "p,bias", "y"));
      proto_message (graph, 5, proto_tensor ("w0", 1, (const gint64[]){ 4, 4, -1 }, weights, sizeof weights));
      proto_message (graph, 5, proto_tensor ("w", 1, (const gint64[]){ 4, -1 }, weights, 4 * sizeof (float)));
      proto_message (graph, 5, proto_tensor ("bias", 1, (const gint64[]){ 4, -1 }, weights, 4 * sizeof (float)));
      add_input (graph, "x", FLOAT, "b,4");
      add_input (graph, "s", INT64, "_");
      add_output (graph, "y", FLOAT, declared[i]);
      add_value_info (graph, "r", FLOAT, declared[i]);
      g_autoptr (OrtrainModel) model = load (graph);
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
      g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.05);
      ortrain_training_options_set_optimizer (options, optimizer);
      ortrain_training_options_add_loss (options, loss);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      feed_floats (feeds, "x", 6, 4);
      feed_ints (feeds, "s", (const gint64[]){ 6, 4 }, 2);
      feed_floats (feeds, "t", 6, 4);
      double last = 0;
      Reader reader = { session, 0 };
      GThread *thread = g_thread_new ("reader", read_graph, &reader);
      for (guint k = 0; k < 3; k++)
        {
          last = ortrain_training_session_train_step (session, feeds, &error);
          g_assert_no_error (error);
          ortrain_training_session_optimizer_step (session, &error);
          g_assert_no_error (error);
        }
      g_atomic_int_set (&reader.stop, 1);
      g_thread_join (thread);
      g_test_message ("%s: %.9g", declared[i] != NULL ? declared[i] : "nothing", last);
      if (i == 0)
        first = last;
      g_assert_cmpfloat (ABS (last - first), <, 1e-6 * first);
    }
}

/* y = x w + z. Where an evaluation has feeds that the names of sizes do not allow, the session goes on with other
 * graphs: the update of the step before is made all the same. */
static void
test_update_after_evaluation (void)
{
  g_autoptr (GError) error = NULL;
  const float weights[16] = { .5f, -1, .25f, 2, 1, .125f, -.5f, 1, -2, 1, .75f, -.25f, 1, -1, .5f, 2 };
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("MatMul", "x,w", "h"));
  proto_message (graph, 1, proto_node ("Add", "h,z", "y"));
  proto_message (graph, 5, proto_tensor ("w", 1, (const gint64[]){ 4, 4, -1 }, weights, sizeof weights));
  add_input (graph, "x", FLOAT, "b,4");
  add_input (graph, "z", FLOAT, "b,4");
  add_output (graph, "y", FLOAT, "b,4");
  g_autoptr (OrtrainModel) model = load (graph);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new (), odd = ortrain_tensor_dict_new ();
  feed_floats (feeds, "x", 6, 4);
  feed_floats (feeds, "z", 6, 4);
  feed_floats (feeds, "t", 6, 4);
  feed_floats (odd, "x", 3, 4);
  feed_floats (odd, "z", 1, 4);
  double losses[2][3];
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
      ortrain_training_options_add_loss (options, loss);
      ortrain_training_options_set_max_grad_norm (options, 1.0);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      for (guint k = 0; k < 3; k++)
        {
          losses[i][k] = ortrain_training_session_train_step (session, feeds, &error);
          g_assert_no_error (error);
          g_autoptr (OrtrainTensorDict) outputs G_GNUC_UNUSED =
              i > 0 ? ortrain_training_session_eval_step (session, odd, &error) : NULL;
          g_assert_no_error (error);
          ortrain_training_session_optimizer_step (session, &error);
          g_assert_no_error (error);
        }
    }
  g_assert_cmpmem (losses[0], sizeof losses[0], losses[1], sizeof losses[1]);
  g_assert_cmpfloat (losses[0][2], <, losses[0][0]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/declarations/wrong-shapes", test_wrong_shapes);
  g_test_add_func ("/declarations/binding", test_binding);
  g_test_add_func ("/declarations/many-notes", test_many_notes);
  g_test_add_func ("/declarations/shared-names", test_shared_names);
  g_test_add_func ("/declarations/unknown-ranks", test_unknown_ranks);
  g_test_add_func ("/declarations/training", test_training);
  g_test_add_func ("/declarations/update-after-evaluation", test_update_after_evaluation);
  return g_test_run ();
}
