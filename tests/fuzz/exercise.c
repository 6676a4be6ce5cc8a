/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/exercise.h"

#include "folder.h"
#include "fuzz/fuzz.h"
#include "model/ortrain-model-private.h"
#include "ortrain.h"

#include <math.h>

#define MAX_INPUT_ELEMENTS 4096
#define MAX_PLAN_BYTES ((guint64) 32 << 20) /* larger plans take time, and find nothing else */

/* Whether a stage runs. */
static gboolean
is_drawn (GRand *random, guint rarity)
{
  return rarity <= 1 || g_rand_int_range (random, 0, (gint32) rarity) == 0;
}

void
exercise_clear (Exercise *self)
{
  g_clear_pointer (&self->error, g_free);
}

/* The first error is kept. */
static void
note (Exercise *self, gboolean ok, GError **error)
{
  fuzz_check_error (ok, *error);
  if (*error != NULL && self->error == NULL)
    self->error = g_strdup ((*error)->message);
  g_clear_error (error);
}

static double
draw_float (GRand *random)
{
  static const double edges[] = { 0, -0.0, INFINITY, -INFINITY, NAN, 1e308, -3e38, 1e-45, 65520, 1e16 };
  if (g_rand_int_range (random, 0, 24) == 0)
    return edges[g_rand_int_range (random, 0, G_N_ELEMENTS (edges))];
  return g_rand_double_range (random, -2, 2);
}

static gint64
draw_int (GRand *random)
{
  /* none that memory would be found for: filling it takes time, and finds nothing */
  static const gint64 edges[] = {
    G_MAXINT64, G_MININT64, G_MININT32, (gint64) 1 << 44, -((gint64) 1 << 44), (gint64) 1 << 62, -100, 100, 17
  };
  if (g_rand_int_range (random, 0, 12) == 0)
    return edges[g_rand_int_range (random, 0, G_N_ELEMENTS (edges))];
  return g_rand_int_range (random, -1, 5);
}

static OrtrainTensor *
draw_tensor (GRand *random, OrtrainDType dtype, const gint64 *dims, gsize rank)
{
  OrtrainTensor *tensor = ortrain_tensor_new (dtype, dims, rank, NULL);
  const gint64 n = tensor != NULL ? ortrain_tensor_get_n_elements (tensor) : 0;
  guint8 *data = n > 0 && dtype != ORTRAIN_DTYPE_STRING ? ortrain_tensor_peek_writable (tensor) : NULL;
  for (gint64 i = 0; i < n && data != NULL; i++)
    {
      const gint64 number = draw_int (random);
      if (dtype == ORTRAIN_DTYPE_FLOAT32)
        ((float *) data)[i] = (float) draw_float (random);
      else if (dtype == ORTRAIN_DTYPE_FLOAT64)
        ((double *) data)[i] = draw_float (random);
      else if (dtype == ORTRAIN_DTYPE_FLOAT16 || dtype == ORTRAIN_DTYPE_BFLOAT16)
        ((guint16 *) data)[i] = (guint16) g_rand_int_range (random, 0, 65536);
      else if (dtype == ORTRAIN_DTYPE_BOOL)
        data[i] = number > 1;
      else if (ortrain_dtype_get_size (dtype) == 8)
        ((gint64 *) data)[i] = number;
      else if (ortrain_dtype_get_size (dtype) == 4)
        ((gint32 *) data)[i] = (gint32) number;
      else if (ortrain_dtype_get_size (dtype) == 2)
        ((gint16 *) data)[i] = (gint16) number;
      else if (ortrain_dtype_get_size (dtype) == 1)
        data[i] = (guint8) number;
    }
  return tensor;
}

/* A symbol has one value in all inputs. NULL: an input that a test cannot feed. */
static OrtrainTensorDict *
draw_feeds (OrtrainGraph *graph, GRand *random)
{
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  g_autoptr (GHashTable) symbols = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  const gint32 common = g_rand_int_range (random, 1, 5); /* operands often have to agree */
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      const OrtrainValue *value = graph->inputs->pdata[i];
      gint64 dims[ORTRAIN_MAX_RANK], n = 1;
      const gint rank = value->rank >= 0 ? value->rank : g_rand_int_range (random, 0, 5);
      for (gint d = 0; d < rank; d++)
        {
          const char *name = NULL;
          dims[d] = g_rand_boolean (random)                ? common
                    : g_rand_int_range (random, 0, 8) == 0 ? 0
                                                           : g_rand_int_range (random, 1, 5);
          if (value->rank >= 0 && ortrain_dim_is_int (value->dims[d]))
            dims[d] = value->dims[d].value;
          else if (value->rank >= 0 && ortrain_dim_is_symbol (value->dims[d], &name))
            {
              gpointer known;
              if (g_hash_table_lookup_extended (symbols, name, NULL, &known))
                dims[d] = GPOINTER_TO_INT (known);
              else
                g_hash_table_insert (symbols, g_strdup (name), GINT_TO_POINTER ((gint) dims[d]));
            }
          if (dims[d] < 0 || dims[d] > MAX_INPUT_ELEMENTS || (n *= MAX (dims[d], 1)) > 16 * MAX_INPUT_ELEMENTS)
            return NULL;
        }
      const OrtrainDType dtype = value->dtype != ORTRAIN_DTYPE_UNDEFINED ? value->dtype : ORTRAIN_DTYPE_FLOAT32;
      g_autoptr (OrtrainTensor) tensor = draw_tensor (random, dtype, dims, (gsize) rank);
      if (tensor == NULL)
        return NULL;
      ortrain_tensor_dict_set (feeds, value->name, tensor);
    }
  return g_steal_pointer (&feeds);
}

static void
look_at (OrtrainMemoryPlan *plan)
{
  g_autofree char *text = ortrain_memory_plan_to_string (plan);
  g_autofree char *json = ortrain_memory_plan_to_json (plan);
  g_autofree char *svg = ortrain_memory_plan_to_svg (plan);
  FUZZ_CHECK (text != NULL && json != NULL && svg != NULL);
}

static void
keep (Exercise *self, OrtrainTrainingSession *session, OrtrainTensorDict *feeds)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *file = g_strconcat (fuzz_scratch (), ".onnx", NULL);
  g_autofree char *folder = g_strconcat (fuzz_scratch (), ".checkpoint", NULL);
  gboolean ok = ortrain_training_session_export (session, file, &error);
  note (self, ok, &error);
  if (ok)
    {
      g_autoptr (OrtrainModel) again = ortrain_model_new_from_file (file, &error);
      note (self, again != NULL, &error);
      FUZZ_CHECK (again != NULL);
    }
  ok = ortrain_training_session_save_checkpoint (session, folder, &error);
  note (self, ok, &error);
  if (ok)
    {
      ok = ortrain_training_session_load_checkpoint (session, folder, &error);
      note (self, ok, &error);
      FUZZ_CHECK (ok);
    }
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (session, feeds, &error);
  note (self, outputs != NULL, &error);
  test_remove_folder (folder);
  test_remove_folder (file);
}

/* Everything that can be trained; and if that is nothing, all that is floating. transfer full */
static OrtrainTrainingSession *
make_session (OrtrainModel *model, OrtrainTrainingOptions *options, GError **error)
{
  static const char *const all[] = { "*", NULL };
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  ortrain_training_options_set_trainable (options, all);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, error);
  if (session != NULL || !g_error_matches (*error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE))
    return session;
  OrtrainGraph *graph = ortrain_model_get_graph (model, NULL);
  for (guint i = 0; graph != NULL && i < graph->initializers->len; i++)
    if (ortrain_dtype_is_floating (((OrtrainValue *) graph->initializers->pdata[i])->dtype))
      g_ptr_array_add (names, ((OrtrainValue *) graph->initializers->pdata[i])->name);
  if (names->len == 0)
    return NULL;
  g_clear_error (error);
  g_ptr_array_add (names, NULL);
  ortrain_training_options_set_trainable (options, (const char *const *) names->pdata);
  return ortrain_training_session_new (model, options, error);
}

/* One step. target: of the output's shape; NULL: the output itself is the loss. */
static void
train (Exercise *self, OrtrainModel *model, OrtrainTensorDict *feeds, const char *output, OrtrainTensor *target,
       GRand *random, guint rarity)
{
  const gboolean stop_on_nan = g_rand_boolean (random);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss =
      target != NULL ? ortrain_mse_loss_new (output, "exercise.target") : ortrain_output_loss_new (output);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_threads (options, 1);
  ortrain_training_options_set_stop_on_nan (options, stop_on_nan);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, options, &error);
  note (self, session != NULL, &error);
  if (session == NULL)
    return;
  if (target != NULL)
    ortrain_tensor_dict_set (feeds, "exercise.target", target);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, feeds, &error);
  note (self, plan != NULL, &error);
  if (plan != NULL && is_drawn (random, rarity))
    look_at (plan);
  if (plan != NULL && ortrain_tensor_dict_get_size (feeds) > 1 && is_drawn (random, rarity))
    {
      g_autoptr (OrtrainMemoryPlan) other = ortrain_training_session_plan_batch (session, feeds, 3, 0, &error);
      note (self, other != NULL, &error);
    }
  if (plan != NULL && ortrain_memory_plan_get_arena_bytes (plan) < MAX_PLAN_BYTES)
    {
      ortrain_training_session_train_step (session, feeds, &error);
      const gboolean stepped = error == NULL;
      self->n_steps += stepped;
      note (self, stepped, &error);
      if (stepped)
        {
          const gboolean ok = ortrain_training_session_optimizer_step (session, &error);
          note (self, ok, &error);
        }
      if (is_drawn (random, rarity))
        keep (self, session, feeds);
    }
  ortrain_tensor_dict_remove (feeds, "exercise.target");
}

static void
look_at_model (Exercise *self, OrtrainModel *model)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = ortrain_model_to_string (model);
  g_autoptr (GBytes) saved = ortrain_model_export_bytes (model, NULL, &error);
  note (self, saved != NULL, &error);
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_autofree char *report_text = ortrain_check_report_to_string (report);
  FUZZ_CHECK (text != NULL && report_text != NULL);
}

void
exercise_model (GBytes *bytes, GRand *random, guint rarity, Exercise *self)
{
  g_autoptr (GError) error = NULL;
  *self = (Exercise){ 0 };
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  note (self, model != NULL, &error);
  if (model == NULL)
    return;
  if (is_drawn (random, rarity))
    look_at_model (self, model);
  OrtrainGraph *graph = ortrain_model_get_graph (model, &error);
  note (self, graph != NULL, &error);
  if (graph == NULL)
    return;

  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  ortrain_session_options_set_threads (options, 1);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, options, &error);
  note (self, session != NULL, &error);
  g_autoptr (OrtrainTensorDict) feeds = session != NULL ? draw_feeds (graph, random) : NULL;
  if (feeds == NULL)
    return;
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
  note (self, outputs != NULL, &error);
  if (outputs != NULL)
    {
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_inference_session_get_memory_plan (session);
      self->n_runs++;
      if (plan != NULL && is_drawn (random, rarity))
        look_at (plan);
    }
  /* other contents, and perhaps other shapes: plans that are kept, and inputs that decide shapes */
  g_autoptr (OrtrainTensorDict) others = is_drawn (random, rarity) ? draw_feeds (graph, random) : NULL;
  if (others != NULL)
    {
      g_autoptr (OrtrainTensorDict) again = ortrain_inference_session_run (session, others, &error);
      note (self, again != NULL, &error);
    }
  const guint n_outputs = MIN (graph->outputs->len, 2);
  for (guint k = 0; k < n_outputs; k++)
    {
      if (!is_drawn (random, MIN (rarity, n_outputs)))
        continue;
      const OrtrainValue *output = graph->outputs->pdata[k];
      g_autofree char *name = g_strdup (output->name);
      OrtrainTensor *value = outputs != NULL ? ortrain_tensor_dict_get (outputs, name) : NULL;
      gsize rank = 0;
      const gint64 *dims = value != NULL ? ortrain_tensor_get_dims (value, &rank) : NULL;
      g_autoptr (OrtrainTensor) target = NULL;
      if (value != NULL && rank > 0)
        target = draw_tensor (random, ortrain_tensor_get_dtype (value), dims, rank);
      train (self, model, feeds, name, target, random, rarity);
    }
}
