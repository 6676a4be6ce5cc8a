/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-optimizer-math.h"
#include "cpu/ortrain-cpu-device-private.h"

#include <string.h>

/* ONNX's Adam, Adagrad and Momentum over the formulas that our own optimizers use. */

typedef enum
{
  KIND_ADAM,
  KIND_ADAGRAD,
  KIND_MOMENTUM,
} Kind;

typedef struct
{
  Kind kind;
  guint n, n_states;
  OrtrainDType rate_dtype;
  gboolean step_64;
  double alpha, beta, epsilon, norm, norm_post, decay_factor;
  gboolean nesterov;
  struct
  {
    gint64 n_elements;
    gboolean is_double;
  } tensors[];
} Update;

typedef struct
{
  const Update *update;
  gboolean is_double;
  OrtrainAdamMath adam;
  OrtrainAdagradMath adagrad;
  OrtrainSgdMath sgd;
  gconstpointer x, g, v, h;
  gpointer x_out, v_out, h_out;
} Job;

static gboolean
prepare (OrtrainKernelSetup *setup, GError **error)
{
  Kind kind = g_str_equal (setup->op_type, "Adam")      ? KIND_ADAM
              : g_str_equal (setup->op_type, "Adagrad") ? KIND_ADAGRAD
                                                        : KIND_MOMENTUM;
  guint n_states = kind == KIND_ADAM ? 2 : 1, n = (setup->n_inputs - 2) / (2 + n_states);
  Update *u = g_malloc0 (sizeof (Update) + n * sizeof u->tensors[0]);
  setup->constants = u;
  setup->constants_free = g_free;
  u->kind = kind;
  u->n = n;
  u->n_states = n_states;
  u->rate_dtype = setup->inputs[0].dtype;
  u->step_64 = setup->inputs[1].dtype == ORTRAIN_DTYPE_INT64;
  u->alpha = ortrain_attributes_get_float (setup->attributes, "alpha", 0.9);
  u->beta = ortrain_attributes_get_float (setup->attributes, "beta", kind == KIND_ADAM ? 0.999 : 1.0);
  u->epsilon = ortrain_attributes_get_float (setup->attributes, "epsilon", 1e-6);
  u->norm = ortrain_attributes_get_float (setup->attributes, "norm_coefficient", 0);
  u->norm_post = ortrain_attributes_get_float (setup->attributes, "norm_coefficient_post", 0);
  u->decay_factor = ortrain_attributes_get_float (setup->attributes, "decay_factor", 0);
  u->nesterov = g_str_equal (ortrain_attributes_get_string (setup->attributes, "mode", "standard"), "nesterov");
  for (guint i = 0; i < n; i++)
    {
      const OrtrainOperand *x = &setup->inputs[2 + i];
      if (x->dtype != ORTRAIN_DTYPE_FLOAT32 && x->dtype != ORTRAIN_DTYPE_FLOAT64)
        {
          g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s has no kernel for %s",
                       setup->op_type, ortrain_dtype_get_name (x->dtype));
          return FALSE;
        }
      for (guint group = 1; group < 2 + n_states; group++)
        if (setup->inputs[2 + group * n + i].n_elements != x->n_elements)
          {
            g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID,
                         "%s: gradients and states must have the shape of their weight", setup->op_type);
            return FALSE;
          }
      u->tensors[i].n_elements = x->n_elements;
      u->tensors[i].is_double = x->dtype == ORTRAIN_DTYPE_FLOAT64;
      if (n * (1 + n_states) <= ORTRAIN_KERNEL_MAX_OUTPUTS && setup->n_inputs <= 64)
        {
          setup->inplace[i] = G_GUINT64_CONSTANT (1) << (2 + i);
          for (guint s = 0; s < n_states; s++)
            setup->inplace[(1 + s) * n + i] = G_GUINT64_CONSTANT (1) << (2 + (2 + s) * n + i);
        }
    }
  return TRUE;
}

#define RANGE(NAME, T)                                                                                                 \
  static void range_##NAME (const Job *job, gint64 begin, gint64 end)                                                  \
  {                                                                                                                    \
    const T *x = job->x, *g = job->g, *v = job->v, *h = job->h;                                                        \
    T *x_out = job->x_out, *v_out = job->v_out, *h_out = job->h_out;                                                   \
    for (gint64 i = begin; i < end; i++)                                                                               \
      {                                                                                                                \
        T w = x[i], m = v[i], s = h != NULL ? h[i] : 0;                                                                \
        switch (job->update->kind)                                                                                     \
          {                                                                                                            \
          case KIND_ADAM:                                                                                              \
            ortrain_adam_element_##NAME (&job->adam, &w, g[i], &m, &s);                                                \
            break;                                                                                                     \
          case KIND_ADAGRAD:                                                                                           \
            ortrain_adagrad_element_##NAME (&job->adagrad, &w, g[i], &m);                                              \
            break;                                                                                                     \
          case KIND_MOMENTUM:                                                                                          \
            ortrain_momentum_element_##NAME (&job->sgd, &w, g[i], &m);                                                 \
            break;                                                                                                     \
          }                                                                                                            \
        if (x_out != NULL)                                                                                             \
          x_out[i] = w;                                                                                                \
        if (v_out != NULL)                                                                                             \
          v_out[i] = m;                                                                                                \
        if (h_out != NULL)                                                                                             \
          h_out[i] = s;                                                                                                \
      }                                                                                                                \
  }
RANGE (f32, float)
RANGE (f64, double)

static void
update_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Job *job = data;
  if (job->is_double)
    range_f64 (job, begin, end);
  else
    range_f32 (job, begin, end);
}

static void
run (const OrtrainKernelCall *call)
{
  const Update *u = call->constants;
  double rate = u->rate_dtype == ORTRAIN_DTYPE_FLOAT64 ? *(const double *) call->inputs[0]
                                                       : (double) *(const float *) call->inputs[0];
  double step = u->step_64 ? (double) *(const gint64 *) call->inputs[1] : (double) *(const gint32 *) call->inputs[1];
  Job job = { .update = u };
  job.adam = ortrain_adam_math_onnx (rate, step, u->alpha, u->beta, u->epsilon, u->norm, u->norm_post);
  job.adagrad = (OrtrainAdagradMath){ rate / (1.0 + step * u->decay_factor), 1.0, u->norm, u->epsilon };
  job.sgd = (OrtrainSgdMath){ rate, 1.0, u->norm, u->alpha, step > 0 ? u->beta : 1.0, u->nesterov };
  for (guint i = 0; i < u->n; i++)
    {
      job.is_double = u->tensors[i].is_double;
      job.x = call->inputs[2 + i];
      job.g = call->inputs[2 + u->n + i];
      job.v = call->inputs[2 + 2 * u->n + i];
      job.h = u->n_states > 1 ? call->inputs[2 + 3 * u->n + i] : NULL;
      job.x_out = call->outputs[i];
      job.v_out = call->outputs[u->n + i];
      job.h_out = u->n_states > 1 ? call->outputs[2 * u->n + i] : NULL;
      ortrain_parallel_for (ortrain_cpu_get_pool (call), u->tensors[i].n_elements, 16384, update_range, &job);
    }
}

#define ROW(op)                                                                                                        \
  {                                                                                                                    \
    .op_type = op, .domain = "ai.onnx.preview.training", .dtypes = ORTRAIN_DTYPES_F32F64, .prepare = prepare,          \
    .run = run                                                                                                         \
  }

static const OrtrainKernel rows[] = { ROW ("Adam"), ROW ("Adagrad"), ROW ("Momentum") };

ORTRAIN_KERNEL_TABLE (optimizer, rows);
