/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-conv-private.h"
#include "cpu/ortrain-cpu-device-private.h"

#include "cpu/ortrain-cpu-conv-library.h"

#include <string.h>

#define MIXED 1
#define REAL float
#define CORE f32
#define NAME(x) x##_f32
#include "cpu/ortrain-cpu-conv-scatter-template.h"
#include "cpu/ortrain-cpu-conv-template.h"
/* with the types of the loops above */
#include "cpu/ortrain-cpu-conv-blocked-template.h"
#undef MIXED
#undef REAL
#undef CORE
#undef NAME

#define MIXED 0
#define REAL double
#define CORE f64
#define NAME(x) x##_f64
#include "cpu/ortrain-cpu-conv-scatter-template.h"
#include "cpu/ortrain-cpu-conv-template.h"
/* with the types of the loops above */
#include "cpu/ortrain-cpu-conv-blocked-template.h"
#undef REAL
#undef CORE
#undef NAME

typedef struct
{
  const OrtrainConv *conv;
  const void *bias;
  void *dest;
} PrefillJob;

static void
prefill_plane_mixed (const PrefillJob *job, gint64 plane, gint64 channel)
{
  const OrtrainConv *conv = job->conv;
  float value = 0;
  if (job->bias != NULL)
    ortrain_cpu_widen (conv->bias_dtype, &value, mixed_at (job->bias, conv->bias_dtype, channel), 1);
  const gint64 first = plane * conv->dest_plane;
  if (!ortrain_dtype_is_half (conv->dest_dtype))
    {
      for (gint64 j = 0; j < conv->dest_plane; j++)
        ((float *) job->dest)[first + j] = value;
      return;
    }
  guint16 narrow;
  ortrain_cpu_narrow (conv->dest_dtype, &narrow, &value, 1);
  for (gint64 j = 0; j < conv->dest_plane; j++)
    ((guint16 *) job->dest)[first + j] = narrow;
}

static void
prefill_planes (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const PrefillJob *job = data;
  const OrtrainConv *conv = job->conv;
  const gint64 channels = conv->n_groups * conv->dest_channels;
  for (gint64 i = begin; i < end; i++)
    for (gint64 j = 0; j < conv->dest_plane; j++)
      if (conv->is_mixed)
        {
          prefill_plane_mixed (job, i, i % channels);
          break;
        }
      else if (conv->is_double)
        ((double *) job->dest)[i * conv->dest_plane + j] =
            job->bias != NULL ? ((const double *) job->bias)[i % channels] : 0;
      else
        ((float *) job->dest)[i * conv->dest_plane + j] =
            job->bias != NULL ? ((const float *) job->bias)[i % channels] : 0;
}

static void
run_conv (const OrtrainKernelCall *call)
{
  const OrtrainConv *conv = call->constants;
  const void *bias = conv->has_bias ? call->inputs[2] : NULL;
  void *source = (void *) call->inputs[0], *weights = (void *) call->inputs[1], *dest = call->outputs[0];
  if (conv->dest_plane * conv->n_images == 0)
    return;
  if (conv->algorithm == ORTRAIN_CONV_LIBRARY)
    {
      ortrain_cpu_conv_library_run (conv->library, call, conv->forward ? source : dest, weights,
                                    conv->forward ? dest : source, bias, FALSE, call->workspace);
      return;
    }
  if (conv->algorithm == ORTRAIN_CONV_MATRIX)
    {
      ortrain_cpu_gemm_run (&conv->matrix, ortrain_cpu_get_pool (call), source, weights, bias, dest);
      return;
    }
  if (conv->prefill && conv->algorithm == ORTRAIN_CONV_GATHER)
    {
      PrefillJob job = { conv, bias, dest };
      ortrain_parallel_for (ortrain_cpu_get_pool (call), conv->n_images * conv->n_groups * conv->dest_channels, 16,
                            prefill_planes, &job);
    }
  static const OrtrainConvRunFunc functions[][2] = {
    [ORTRAIN_CONV_GATHER] = { gather_run_f32, gather_run_f64 },
    [ORTRAIN_CONV_SCATTER] = { scatter_run_f32, scatter_run_f64 },
    [ORTRAIN_CONV_DEPTHWISE] = { depthwise_run_f32, depthwise_run_f64 },
    [ORTRAIN_CONV_BLOCKED] = { blocked_run_f32, blocked_run_f64 },
  };
  functions[conv->algorithm][conv->is_double ? 1 : 0](conv, ortrain_cpu_get_pool (call), source, weights, bias, dest,
                                                      call->workspace);
}

static void
run_conv_grad_weight (const OrtrainKernelCall *call)
{
  const OrtrainConv *conv = call->constants;
  if (conv->algorithm == ORTRAIN_CONV_LIBRARY)
    {
      ortrain_cpu_conv_library_run (conv->library, call, (void *) call->inputs[1], call->outputs[0],
                                    (void *) call->inputs[0], NULL, ortrain_kernel_get_accumulate (call) != 0,
                                    call->workspace);
      return;
    }
  if (conv->algorithm == ORTRAIN_CONV_MATRIX)
    {
      OrtrainCpuGemm matrix = conv->matrix;
      matrix.beta = ortrain_kernel_get_accumulate (call) != 0 ? 1 : 0;
      ortrain_cpu_gemm_run (&matrix, ortrain_cpu_get_pool (call), call->inputs[0], call->inputs[1], NULL,
                            call->outputs[0]);
      return;
    }
  OrtrainConvGradWeightRunFunc run = conv->is_double ? conv_grad_weight_run_f64 : conv_grad_weight_run_f32;
  run (conv, ortrain_cpu_get_pool (call), call->inputs[0], call->inputs[1], call->outputs[0],
       ortrain_kernel_get_accumulate (call), call->workspace);
}

#define ROW(name, domain_, prepare_, run_)                                                                             \
  {                                                                                                                    \
    .op_type = name, .domain = domain_, .dtypes = ORTRAIN_DTYPES_FLOAT, .prepare = prepare_, .run = run_,              \
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED                                                                               \
  }

static const OrtrainKernel rows[] = {
  ROW ("Conv", "", ortrain_conv_prepare, run_conv),
  ROW ("ConvTranspose", "", ortrain_conv_prepare, run_conv),
  ROW ("ConvGradInput", "org.ortrain", ortrain_conv_prepare, run_conv),
  ROW ("ConvGradWeight", "org.ortrain", ortrain_conv_prepare_grad_weight, run_conv_grad_weight),
};
ORTRAIN_KERNEL_TABLE (conv, rows);
