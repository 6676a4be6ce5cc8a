/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"
#include "session/ortrain-training-session-private.h"
#include "tensor/ortrain-tensor-private.h"

#include "../model/ortrain-proto-maker.h"

#include <string.h>

/* Inputs whose contents decide shapes, as the lengths of sequences do: plans for other batches, and for other contents.
 */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })
#define FLOAT 1
#define INT32 6
#define INT64 7
#define BATCH 4

typedef enum
{
  LENGTHS, /* int64 [batch]: the largest is the length of the resulting rows */
  COLUMN,  /* the same as int32 [batch, 1] */
  REPEATS, /* int64 [2]: how often the rows are repeated, whatever the batch is */
  SHAPE,   /* int64 [2]: the shape of the rows, with the batch in it */
  N_KINDS,
} Kind;

static Proto *
make_node (const char *op_type, const char *inputs, const char *output, const char *attribute, gint64 value)
{
  Proto *node = proto_node (op_type, inputs, output);
  if (attribute != NULL)
    proto_int_attribute (node, attribute, value);
  return node;
}

static Proto *
make_ints (const char *name, const gint64 *dims, gint64 value)
{
  return proto_tensor (name, INT64, dims, &value, sizeof value);
}

/* y: [batch, 3], float: x w, taken through a shape that input `d` decides */
static OrtrainModel *
make_model (Kind kind)
{
  static const float w[12] = { .5f, -1, .25f, 2, 1, .125f, -.5f, 1, -2, 1, .75f, -.25f };
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new ();
  if (kind == SHAPE)
    proto_message (graph, 1, make_node ("Reshape", "x,d", "rows", NULL, 0));
  proto_message (graph, 1, make_node ("MatMul", kind == SHAPE ? "rows,w" : "x,w", "h", NULL, 0));
  if (kind == LENGTHS || kind == COLUMN)
    {
      proto_message (graph, 1, make_node ("Cast", "d", "lengths", "to", INT64));
      proto_message (graph, 1, make_node ("ReduceMax", "lengths", "most", "keepdims", 0));
      proto_message (graph, 1, make_node ("Range", "zero,most,one", "range", NULL, 0));
      proto_message (graph, 1, make_node ("Shape", "range", "length", NULL, 0));
      proto_message (graph, 1, make_node ("Concat", "ones,length,ones", "shape", "axis", 0));
      proto_message (graph, 1, make_node ("Unsqueeze", "h,ones", "row", NULL, 0));
      proto_message (graph, 1, make_node ("Expand", "row,shape", "wide", NULL, 0));
      proto_message (graph, 1, make_node ("ReduceMean", "wide,ones", "y", "keepdims", 0));
    }
  else if (kind == REPEATS)
    {
      proto_message (graph, 1, make_node ("Tile", "h,d", "wide", NULL, 0));
      proto_message (graph, 1, make_node ("ReduceSum", "wide,zeros", "sum", "keepdims", 1));
      proto_message (graph, 1, make_node ("Mul", "h,sum", "y", NULL, 0));
    }
  else
    proto_message (graph, 1, make_node ("Relu", "h", "y", NULL, 0));
  proto_message (graph, 5, proto_tensor ("w", FLOAT, DIMS (4, 3), w, sizeof w));
  proto_message (graph, 5, make_ints ("zero", DIMS (-1), 0));
  proto_message (graph, 5, make_ints ("one", DIMS (-1), 1));
  proto_message (graph, 5, make_ints ("ones", DIMS (1), 1));
  proto_message (graph, 5, make_ints ("zeros", DIMS (1), 0));
  proto_message (graph, 11, proto_symbolic_value ("x", FLOAT, kind == SHAPE ? "batch,two,halves" : "batch,four"));
  if (kind == LENGTHS)
    proto_message (graph, 11, proto_symbolic_value ("d", INT64, "batch"));
  else if (kind == COLUMN)
    proto_message (graph, 11, proto_symbolic_value ("d", INT32, "batch,one_column"));
  else
    proto_message (graph, 11, proto_value ("d", INT64, DIMS (2)));
  proto_message (graph, 12, proto_symbolic_value ("y", FLOAT, "batch,three"));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 20);
  OrtrainModel *model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return model;
}

/* Contents that decide: row i of a batch of any size has the same length in each batch of BATCH rows. longest: at row 1
 */
static OrtrainTensor *
make_deciding (Kind kind, gint64 batch, gint64 longest)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) tensor = NULL;
  if (kind == LENGTHS || kind == COLUMN)
    {
      const gint64 dims[] = { batch, 1 };
      g_autofree gint64 *lengths = g_new (gint64, batch);
      for (gint64 i = 0; i < batch; i++)
        lengths[i] = i % BATCH == 1 ? longest : 1 + i % BATCH % longest;
      tensor = ortrain_tensor_new_ints (dims, kind == COLUMN ? 2 : 1, lengths, (gsize) batch, &error);
      g_assert_no_error (error);
      return kind == COLUMN ? ortrain_tensor_cast (tensor, ORTRAIN_DTYPE_INT32, &error) : g_steal_pointer (&tensor);
    }
  const gint64 dims[] = { 2 }, numbers[] = { kind == SHAPE ? batch : longest, kind == SHAPE ? 4 : 1 };
  tensor = ortrain_tensor_new_ints (dims, 1, numbers, 2, &error);
  g_assert_no_error (error);
  return g_steal_pointer (&tensor);
}

static void
add_floats (OrtrainTensorDict *feeds, const char *name, const gint64 *dims, gsize n_dims)
{
  g_autoptr (GError) error = NULL;
  gint64 n = 1;
  for (gsize i = 0; i < n_dims; i++)
    n *= dims[i];
  g_autofree float *numbers = g_new (float, n);
  for (gint64 i = 0; i < n; i++)
    numbers[i] = (float) (i * 7 % 11 - 5) / 4;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_floats (dims, n_dims, numbers, (gsize) n, &error);
  g_assert_no_error (error);
  ortrain_tensor_dict_set (feeds, name, tensor);
}

static OrtrainTensorDict *
make_feeds (Kind kind, gint64 batch, gint64 longest)
{
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  const gint64 rows[] = { batch, 4 }, halves[] = { batch, 2, 2 }, targets[] = { batch, 3 };
  add_floats (feeds, "x", kind == SHAPE ? halves : rows, kind == SHAPE ? 3 : 2);
  add_floats (feeds, "t", targets, 2);
  g_autoptr (OrtrainTensor) deciding = make_deciding (kind, batch, longest);
  ortrain_tensor_dict_set (feeds, "d", deciding);
  return feeds;
}

static OrtrainTrainingSession *
make_session (Kind kind, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model (kind);
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "t");
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_memory_budget (options, budget);
  ortrain_training_options_set_offload (options, ORTRAIN_OFFLOAD_OFF);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static guint64
measure_peak (OrtrainTrainingSession *session, Kind kind, gint64 batch, gint64 longest)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (kind, batch, longest);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, feeds, &error);
  g_assert_no_error (error);
  return ortrain_memory_plan_get_peak_bytes (plan);
}

/* ---- Other batches ---- */

/* As if the rows had been fed. */
static void
test_plan_batch (gconstpointer data)
{
  const Kind kind = GPOINTER_TO_UINT (data);
  static const gint64 batches[] = { 1, 2, 3, BATCH, 5, 8, 64, 1000 };
  g_autoptr (OrtrainTrainingSession) session = make_session (kind, 0);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (kind, BATCH, 6);
  for (guint i = 0; i < G_N_ELEMENTS (batches); i++)
    {
      g_autoptr (GError) error = NULL;
      const gint64 batch = batches[i];
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan_batch (session, feeds, batch, 0, &error);
      if (kind == SHAPE && batch != BATCH)
        {
          g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE);
          g_assert_nonnull (strstr (error->message, "('d'): feed those of a batch of"));
          continue;
        }
      g_assert_no_error (error);
      const gint64 longest = (kind == LENGTHS || kind == COLUMN) && batch == 1 ? 1 : 6;
      g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), ==, measure_peak (session, kind, batch, longest));
    }
}

static void
test_max_batch (gconstpointer data)
{
  const Kind kind = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (kind, 0);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (kind, BATCH, 6);
  const guint64 budget = 1 << 16;
  const gint64 most = ortrain_training_session_max_batch (session, feeds, budget, &error);
  if (kind == SHAPE)
    {
      g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE);
      g_assert_nonnull (strstr (error->message, "('d')"));
      return;
    }
  g_assert_no_error (error);
  g_assert_cmpint (most, >, BATCH);
  g_autoptr (OrtrainMemoryPlan) plan G_GNUC_UNUSED =
      ortrain_training_session_plan_batch (session, feeds, most, budget, &error);
  g_assert_no_error (error);
  g_assert_null (ortrain_training_session_plan_batch (session, feeds, most + 1, budget, &error));
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
}

/* The ways out of a budget that is too small are plans for other batches. */
static void
test_budget (gconstpointer data)
{
  const Kind kind = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) plain = make_session (kind, 0);
  const guint64 half = measure_peak (plain, kind, 32, 6);
  g_assert_cmpuint (half, <, measure_peak (plain, kind, 64, 6));
  g_autoptr (OrtrainTrainingSession) session = make_session (kind, half);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (kind, 64, 6);
  ortrain_training_session_train_step (session, feeds, &error);
  /* something is computed again, or a device does without second places for feeds, and it fits */
  if (error == NULL && (kind == SHAPE || g_getenv ("ORTRAIN_PROVIDER") != NULL))
    return;
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  g_test_message ("%s", error->message);
  g_assert_cmpint (strstr (error->message, " instead of 64 needs ") != NULL, ==, kind != SHAPE);
}

/* More rows than any shape is worth. */
static void
test_huge_batch (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (LENGTHS, 0);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (LENGTHS, BATCH, 6);
  g_assert_null (ortrain_training_session_plan_batch (session, feeds, G_GINT64_CONSTANT (1) << 40, 0, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
  g_assert_true (g_str_has_prefix (error->message, "Input 'd': its contents decide shapes"));
}

static void
test_no_rows (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (LENGTHS, 0);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (LENGTHS, 0, 6);
  g_assert_null (ortrain_training_session_plan_batch (session, feeds, 3, 0, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE);
  g_assert_true (g_str_has_prefix (error->message, "Input 'd': [0] has no element"));
}

static void
take_released (GError **error, const char *name)
{
  g_assert_error (*error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED);
  g_assert_true (name == NULL || strstr ((*error)->message, name) != NULL);
  g_clear_error (error);
}

/* A released tensor has a shape, and no contents. */
static void
test_released (void)
{
  for (guint k = 0; k < 2; k++)
    {
      const char *name = k == 0 ? "d" : "x";
      g_autoptr (OrtrainTrainingSession) session = make_session (LENGTHS, 0);
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (LENGTHS, BATCH, 6), run_feeds = ortrain_tensor_dict_new ();
      ortrain_tensor_release (ortrain_tensor_dict_get (feeds, name));
      const char *quoted = k == 0 ? "'d'" : "'x'";
      g_autoptr (GError) error = NULL;
      g_assert_null (ortrain_training_session_plan (session, feeds, &error));
      take_released (&error, quoted);
      g_assert_null (ortrain_training_session_plan_batch (session, feeds, 8, 0, &error));
      take_released (&error, quoted);
      g_assert_cmpint (ortrain_training_session_max_batch (session, feeds, 1 << 20, &error), ==, -1);
      take_released (&error, quoted);
      ortrain_training_session_train_step (session, feeds, &error);
      take_released (&error, quoted);
      g_autoptr (OrtrainModel) model = make_model (LENGTHS);
      g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (model, NULL, &error);
      g_assert_no_error (error);
      ortrain_tensor_dict_set (run_feeds, "x", ortrain_tensor_dict_get (feeds, "x"));
      ortrain_tensor_dict_set (run_feeds, "d", ortrain_tensor_dict_get (feeds, "d"));
      g_assert_null (ortrain_inference_session_run (inference, run_feeds, &error));
      take_released (&error, quoted);
    }
}

/* ---- Other contents ---- */

static Proto *
make_output (const char *name)
{
  Proto *output = proto_new ();
  proto_string (output, 1, name);
  return output;
}

/* Other contents with the same shapes have the same plan, and the losses that a new session has. */
static void
test_same_outcome (gconstpointer data)
{
  const Kind kind = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (kind, 0);
  guint n_plans = 0;
  for (gint64 longest = 4; longest < 7; longest++)
    {
      n_plans++;
      for (gint64 turn = 0; turn < 4; turn++)
        {
          g_autoptr (OrtrainTensorDict) feeds = make_feeds (kind, BATCH, longest);
          if (kind == LENGTHS) /* the longest stands elsewhere each time */
            {
              gint64 lengths[BATCH] = { 1, 2, 1, 3 };
              const gint64 dims[] = { BATCH };
              lengths[turn] = longest;
              g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_ints (dims, 1, lengths, BATCH, NULL);
              ortrain_tensor_dict_set (feeds, "d", tensor);
            }
          g_autoptr (OrtrainTrainingSession) fresh = make_session (kind, 0);
          const double loss = ortrain_training_session_train_step (session, feeds, &error);
          g_assert_no_error (error);
          const double expected = ortrain_training_session_train_step (fresh, feeds, &error);
          g_assert_no_error (error);
          g_assert_cmpfloat (loss, ==, expected);
          g_assert_cmpuint (ortrain_executor_get_n_plans (session->executors[ORTRAIN_TRAINING_RUN_TRAIN]), ==, n_plans);
        }
    }
}

/* y: [batch, longest], float: x where the column is below the length, else 0. The lengths decide the shape, and are
 * read. */
static OrtrainModel *
make_mask_model (void)
{
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new ();
  proto_message (graph, 1, make_node ("ReduceMax", "d", "most", "keepdims", 0));
  proto_message (graph, 1, make_node ("Range", "zero,most,one", "range", NULL, 0));
  proto_message (graph, 1, make_node ("Unsqueeze", "d,ones", "column", NULL, 0));
  proto_message (graph, 1, make_node ("Less", "range,column", "mask", NULL, 0));
  proto_message (graph, 1, make_node ("Cast", "mask", "factors", "to", FLOAT));
  proto_message (graph, 1, make_node ("Mul", "x,factors", "y", NULL, 0));
  proto_message (graph, 5, make_ints ("zero", DIMS (-1), 0));
  proto_message (graph, 5, make_ints ("one", DIMS (-1), 1));
  proto_message (graph, 5, make_ints ("ones", DIMS (1), 1));
  proto_message (graph, 11, proto_symbolic_value ("x", FLOAT, "batch,single"));
  proto_message (graph, 11, proto_symbolic_value ("d", INT64, "batch"));
  proto_message (graph, 12, make_output ("y"));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 20);
  OrtrainModel *model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  return model;
}

/* Nodes that read the contents as data read those of each run. */
static void
test_data_of_shape_inputs (void)
{
  static const gint64 lengths[][3] = { { 1, 4, 2 }, { 4, 1, 1 }, { 2, 3, 4 }, { 1, 4, 2 } };
  const gint64 x_dims[] = { 3, 1 }, dims[] = { 3 };
  const float x[] = { 5, 6, 7 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_mask_model ();
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainMemoryPlan) plan = NULL;
  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_floats (x_dims, 2, x, 3, NULL);
      g_autoptr (OrtrainTensor) deciding = ortrain_tensor_new_ints (dims, 1, lengths[i], 3, NULL);
      ortrain_tensor_dict_set (feeds, "x", tensor);
      ortrain_tensor_dict_set (feeds, "d", deciding);
      g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
      g_assert_no_error (error);
      const float *y = (const float *) ortrain_tensor_get_address (ortrain_tensor_dict_get (outputs, "y"));
      for (gint64 n = 0; n < 12; n++)
        g_assert_cmpfloat (y[n], ==, n % 4 < lengths[i][n / 4] ? x[n / 4] : 0);
      g_autoptr (OrtrainMemoryPlan) now = ortrain_inference_session_get_memory_plan (session);
      g_assert_true (plan == NULL || plan == now);
      g_set_object (&plan, now);
    }
}

/* ---- Branches ---- */

static void
add_branch (Proto *node, const char *name, Proto *graph)
{
  Proto *attribute = proto_new ();
  proto_string (graph, 2, name);
  proto_string (attribute, 1, name);
  proto_message (attribute, 6, graph);
  proto_int (attribute, 20, 5);
  proto_message (node, 5, attribute);
}

/* y = c ? -x : the places of random numbers that are not 0, of which nobody knows how many there are */
static OrtrainInferenceSession *
make_choice (void)
{
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new (), *plain = proto_new (), *places = proto_new (), *node = proto_node ("If", "c", "y");
  proto_message (plain, 1, make_node ("Neg", "x", "minus", NULL, 0));
  proto_message (plain, 12, make_output ("minus"));
  Proto *attribute = proto_new (), *random = proto_new ();
  proto_string (attribute, 1, "shape");
  proto_int (attribute, 8, 4);
  proto_int (attribute, 20, 7);
  proto_string (random, 2, "random");
  proto_string (random, 4, "RandomUniform");
  proto_message (random, 5, attribute);
  proto_message (places, 1, random);
  proto_message (places, 1, make_node ("NonZero", "random", "numbers", NULL, 0));
  proto_message (places, 1, make_node ("Cast", "numbers", "floats", "to", FLOAT));
  proto_message (places, 12, make_output ("floats"));
  add_branch (node, "then_branch", plain);
  add_branch (node, "else_branch", places);
  proto_message (graph, 1, node);
  proto_message (graph, 11, proto_symbolic_value ("c", 9, "k"));
  proto_message (graph, 11, proto_symbolic_value ("x", FLOAT, "n,m"));
  proto_message (graph, 12, make_output ("y"));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 20);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  OrtrainInferenceSession *session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  return session;
}

/* Returns the plan of the last run that succeeded, as the session has it. */
static OrtrainMemoryPlan *
choose (OrtrainInferenceSession *session, gint64 n, guint8 condition, gint64 rows, GError **error)
{
  const gint64 dims[] = { n }, x_dims[] = { rows, 2 };
  const guint8 conditions[] = { condition, condition };
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) c = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_BOOL, dims, 1, conditions, (gsize) n, NULL);
  add_floats (feeds, "x", x_dims, 2);
  ortrain_tensor_dict_set (feeds, "c", c);
  g_autoptr (OrtrainTensorDict) outputs G_GNUC_UNUSED = ortrain_inference_session_run (session, feeds, error);
  return ortrain_inference_session_get_memory_plan (session);
}

/* Neither a feed that is refused nor one that needs to be run node by node slows down later runs. */
static void
test_branches (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainInferenceSession) session = make_choice ();
  g_autoptr (OrtrainMemoryPlan) first = choose (session, 1, TRUE, 3, &error);
  g_assert_no_error (error);
  g_assert_nonnull (first);
  for (guint i = 0; i < 3; i++)
    {
      for (guint k = 0; k < 2; k++)
        {
          g_autoptr (OrtrainMemoryPlan) refused = choose (session, 2, (guint8) k, 3, &error);
          g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE);
          g_assert_nonnull (strstr (error->message, "condition must have one element"));
          g_clear_error (&error);
          g_assert_true (refused == first);
        }
      for (guint k = 0; k < 2; k++)
        {
          g_autoptr (OrtrainMemoryPlan) none = choose (session, 1, FALSE, 3 + k, &error);
          g_assert_no_error (error);
          g_assert_null (none);
        }
      g_autoptr (OrtrainMemoryPlan) again = choose (session, 1, TRUE, 3, &error);
      g_assert_no_error (error);
      g_assert_true (again == first);
    }
}

/* ---- The tensors themselves ---- */

static void
test_without_contents (void)
{
  const gint64 dims[] = { 1000, 1000 }, flat[] = { -1 };
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_without_contents (ORTRAIN_DTYPE_INT64, dims, 2, NULL);
  g_autoptr (GError) error = NULL;
  g_assert_cmpuint (ortrain_tensor_get_n_bytes (tensor), ==, 8000000);
  g_assert_null (ortrain_tensor_peek (tensor));
  g_assert_null (ortrain_tensor_peek_unaligned (tensor));
  g_assert_null (ortrain_tensor_peek_writable (tensor));
  g_assert_null (ortrain_tensor_peek_device_address (tensor));
  g_assert_null (ortrain_tensor_get_storage (tensor));
  g_assert_null (ortrain_tensor_copy (tensor, &error));
  take_released (&error, NULL);
  g_assert_null (ortrain_tensor_get_bytes (tensor, &error));
  take_released (&error, NULL);
  g_assert_null (ortrain_tensor_reshape (tensor, flat, 1, &error));
  take_released (&error, NULL);
  g_assert_null (ortrain_tensor_slice_rows (tensor, 0, 1, &error));
  take_released (&error, NULL);
  g_assert_null (ortrain_tensor_cast (tensor, ORTRAIN_DTYPE_INT32, &error));
  take_released (&error, NULL);
}

static void
test_repeat (void)
{
  const gint64 dims[] = { 2, 3 }, wanted[] = { 3, 7 }, none[] = { 0, 7 };
  const guint8 numbers[] = { 1, 2, 3, 4, 5, 6 };
  const guint8 expected[] = { 1, 2, 3, 1, 2, 3, 1, 4, 5, 6, 4, 5, 6, 4, 1, 2, 3, 1, 2, 3, 1 };
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_UINT8, dims, 2, numbers, 6, NULL);
  g_autoptr (OrtrainTensor) repeated = ortrain_tensor_repeat (tensor, wanted, NULL);
  g_autoptr (OrtrainTensor) empty = ortrain_tensor_repeat (tensor, none, NULL);
  g_assert_cmpmem (ortrain_tensor_peek (repeated), 21, expected, 21);
  g_assert_cmpint (ortrain_tensor_get_n_elements (empty), ==, 0);
}

int
main (int argc, char *argv[])
{
  static const char *const names[N_KINDS] = { "lengths", "column", "repeats", "shape" };
  g_test_init (&argc, &argv, NULL);
  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      g_autofree char *plan = g_strdup_printf ("/shape-inputs/plan-batch/%s", names[kind]);
      g_autofree char *most = g_strdup_printf ("/shape-inputs/max-batch/%s", names[kind]);
      g_autofree char *budget = g_strdup_printf ("/shape-inputs/budget/%s", names[kind]);
      g_test_add_data_func (plan, GUINT_TO_POINTER (kind), test_plan_batch);
      g_test_add_data_func (most, GUINT_TO_POINTER (kind), test_max_batch);
      g_test_add_data_func (budget, GUINT_TO_POINTER (kind), test_budget);
      g_autofree char *outcome = g_strdup_printf ("/shape-inputs/same-outcome/%s", names[kind]);
      if (kind != SHAPE) /* which has one for each batch */
        g_test_add_data_func (outcome, GUINT_TO_POINTER (kind), test_same_outcome);
    }
  g_test_add_func ("/shape-inputs/huge-batch", test_huge_batch);
  g_test_add_func ("/shape-inputs/no-rows", test_no_rows);
  g_test_add_func ("/shape-inputs/released", test_released);
  g_test_add_func ("/shape-inputs/data", test_data_of_shape_inputs);
  g_test_add_func ("/shape-inputs/branches", test_branches);
  g_test_add_func ("/shape-inputs/without-contents", test_without_contents);
  g_test_add_func ("/shape-inputs/repeat", test_repeat);
  return g_test_run ();
}
