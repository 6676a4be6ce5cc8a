/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-conv-graph-private.h"

#include <string.h>

/* Convolutions and their gradients: by cuDNN where it has an engine, else by plain kernels. Tensors that cuDNN's graph
 * has in another type than the operands, and weights in another order, are converted through the workspace. Its graphs
 * overwrite their results; a gradient of weights that is to be added goes to the workspace first. */

typedef struct
{
  OrtrainCudaConv conv;
  gboolean forward;  /* Conv: the result is the small side */
  gboolean has_bias; /* input 2 */
  OrtrainCudaConvPlan plan;
  OrtrainDType dtypes[3]; /* of inputs 0 and 1 and the output */
  gint64 n_elements[3];
  gsize offsets[3]; /* in the workspace, of the plan's forms of them */
  guint weights;    /* which of the three: 1 or 2 */
  gboolean turns;   /* weights, for the library */
} ConvConstants;

/* An operand that has its channels last, as one in ONNX's order. dims: [rank], filled */
static OrtrainOperand
put_channels_second (const OrtrainOperand *operand, gint64 *dims)
{
  OrtrainOperand result = *operand;
  result.dims = dims;
  for (guint d = 0; d < operand->rank; d++)
    dims[d] = operand->dims[d < 2 ? (d == 0 ? 0 : operand->rank - 1) : d - 1];
  return result;
}

static gboolean
has_channels_last (const OrtrainKernelSetup *setup)
{
  return g_str_has_prefix (setup->op_type, "ConvChannelsLast");
}

static gboolean
read_shape (const OrtrainKernelSetup *setup, const OrtrainOperand *large, const OrtrainOperand *small,
            const OrtrainOperand *weights, gboolean transposed, OrtrainCudaConv *conv, GError **error)
{
  const gboolean last = has_channels_last (setup) && large->rank == 4 && small->rank == 4;
  gint64 large_dims[4], small_dims[4];
  const OrtrainOperand turned[] = { last ? put_channels_second (large, large_dims) : *large,
                                    last ? put_channels_second (small, small_dims) : *small };
  large = &turned[0];
  small = &turned[1];
  gsize n_strides, n_dilations, n_pads, n_more;
  const gint64 *strides = ORTRAIN_CUDA_INTS (setup, "strides", &n_strides);
  const gint64 *dilations = ORTRAIN_CUDA_INTS (setup, "dilations", &n_dilations);
  const gint64 *pads = ORTRAIN_CUDA_INTS (setup, "pads", &n_pads);
  const gint64 *more = ORTRAIN_CUDA_INTS (setup, "output_padding", &n_more);
  const char *auto_pad = ORTRAIN_CUDA_STRING (setup, "auto_pad", "NOTSET");
  const gboolean upper = g_str_equal (auto_pad, "SAME_UPPER"), same = upper || g_str_equal (auto_pad, "SAME_LOWER");
  const gboolean sized =
      same || (transposed && ortrain_cuda_library->attributes_has (setup->attributes, "output_shape"));
  const guint rank = weights->rank, n = rank - 2, shift = 5 - rank;
  if (rank < 3 || rank > 5 || large->rank != rank || small->rank != rank)
    return ortrain_cuda_refuse (setup, error, "only one to three spatial dimensions are supported");
  if ((strides != NULL && n_strides != n) || (dilations != NULL && n_dilations != n) ||
      (pads != NULL && n_pads != 2 * n) || (more != NULL && n_more != n))
    return ortrain_cuda_refuse (setup, error,
                                "strides, dilations, pads or output_padding do not have %u spatial dimensions", n);
  *conv = (OrtrainCudaConv){ .n_groups = ORTRAIN_CUDA_INT (setup, "group", 1),
                             .n_images = large->dims[0],
                             .large = { 1, 1, 1 },
                             .small = { 1, 1, 1 },
                             .kernel = { 1, 1, 1 },
                             .stride = { 1, 1, 1 },
                             .dilation = { 1, 1, 1 },
                             .large_channels = weights->dims[1],
                             .large_dtype = large->dtype,
                             .small_dtype = small->dtype,
                             .weight_dtype = weights->dtype,
                             .channels_last = last };
  if (conv->n_groups < 1 || weights->dims[0] % conv->n_groups != 0)
    return ortrain_cuda_refuse (setup, error,
                                "%" G_GINT64_FORMAT " filters cannot be divided into %" G_GINT64_FORMAT " groups",
                                weights->dims[0], conv->n_groups);
  conv->small_channels = weights->dims[0] / conv->n_groups;
  if (large->dims[1] != conv->n_groups * conv->large_channels || small->dims[1] != weights->dims[0] ||
      small->dims[0] != large->dims[0])
    return ortrain_cuda_refuse (setup, error,
                                "operands have %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT
                                " channels, which do not fit the weights",
                                large->dims[1], small->dims[1]);
  for (guint i = 0; i < n; i++)
    {
      const guint at = shift + i;
      conv->large[at] = large->dims[2 + i];
      conv->small[at] = small->dims[2 + i];
      conv->kernel[at] = weights->dims[2 + i];
      conv->stride[at] = strides != NULL ? strides[i] : 1;
      conv->dilation[at] = dilations != NULL ? dilations[i] : 1;
      if (conv->stride[at] < 1 || conv->dilation[at] < 1 || conv->stride[at] > G_MAXINT32 ||
          conv->dilation[at] > G_MAXINT32 || conv->kernel[at] > G_MAXINT32)
        return ortrain_cuda_refuse (setup, error, "strides and dilations must be positive");
      if (sized)
        {
          /* the pads that are missing for the known sizes */
          gint64 total = (conv->small[at] - 1) * conv->stride[at] + (conv->kernel[at] - 1) * conv->dilation[at] + 1 -
                         conv->large[at] + (transposed && more != NULL ? more[i] : 0);
          total = MAX (total, 0);
          conv->pad[at] = upper ? total / 2 : total - total / 2;
        }
      else if (pads != NULL && !g_str_equal (auto_pad, "VALID"))
        conv->pad[at] = pads[i];
    }
  return TRUE;
}

static gsize
reserve (OrtrainKernelSetup *setup, gint64 n_elements, OrtrainDType dtype)
{
  const gsize offset = (setup->workspace_bytes + 255) & ~(gsize) 255;
  setup->workspace_bytes = offset + (gsize) n_elements * ortrain_cuda_library->dtype_get_size (dtype);
  return offset;
}

static gboolean
converts (const ConvConstants *constants, guint operand)
{
  return constants->plan.dtypes[operand] != constants->dtypes[operand] ||
         (constants->turns && operand == constants->weights);
}

static gint64
count_taps (const OrtrainCudaConv *conv)
{
  return conv->kernel[0] * conv->kernel[1] * conv->kernel[2];
}

/* Bytes that a plan moves besides its operands: all of its workspace is written once and read once. */
static double
count_copied (const OrtrainCudaConvPlan *plan)
{
  return 2.0 * (double) ortrain_dnn_plan_get_workspace_bytes (plan->plan);
}

static gboolean
uses_tensor_cores (const OrtrainCudaConvPlan *plan)
{
  return (ortrain_dnn_plan_get_notes (plan->plan, 0) & 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != 0;
}

/* The bytes that the same convolution in ONNX's order would copy into another layout: the heuristics say it by the
 * workspaces that the two need. A limit of workspaces decides about engines, not about layouts. */
static double
find_spared_bytes (const OrtrainKernelSetup *setup, const ConvConstants *constants, cudnnBackendDescriptorType_t type,
                   const OrtrainDnnTarget *target)
{
  OrtrainCudaConv conv = constants->conv;
  OrtrainDnnTarget free_target = *target;
  OrtrainCudaConvPlan last, second;
  double operands = 0;
  for (guint i = 0; i < 3; i++)
    operands +=
        (double) constants->n_elements[i] * (double) ortrain_cuda_library->dtype_get_size (constants->dtypes[i]);
  free_target.workspace_limit = MAX (target->workspace_limit, (gsize) 1 << 30);
  free_target.search = ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC;
  ortrain_cuda_conv_plan (&conv, type, constants->has_bias, &free_target, &last, NULL);
  conv.channels_last = FALSE;
  ortrain_cuda_conv_plan (&conv, type, constants->has_bias, &free_target, &second, NULL);
  if (last.plan == NULL)
    return -(double) G_MAXINT64;
  if (second.plan == NULL)
    return operands;
  double spared = count_copied (&second) - count_copied (&last);
  if (uses_tensor_cores (&second) != uses_tensor_cores (&last))
    spared = uses_tensor_cores (&last) ? MAX (spared, 0) + operands : -operands;
  if (constants->turns)
    spared -= 2.0 * (double) constants->n_elements[constants->weights] *
              (double) ortrain_cuda_library->dtype_get_size (constants->dtypes[constants->weights]);
  return spared;
}

/* Without an engine the plain kernels stay. FALSE: they may not. */
static gboolean
find_plan (OrtrainKernelSetup *setup, ConvConstants *constants, cudnnBackendDescriptorType_t type, GError **error)
{
  g_autoptr (GError) refusal = NULL;
  OrtrainDnnTarget target;
  const OrtrainCudaConv *conv = &constants->conv;
  if (constants->dtypes[0] == ORTRAIN_DTYPE_FLOAT64 || conv->n_images < 1 || conv->large_channels < 1 ||
      conv->small_channels < 1)
    return TRUE;
  for (guint i = 0; i < 3; i++)
    if (conv->large[i] < 1 || conv->small[i] < 1 || conv->kernel[i] < 1 || conv->pad[i] < 0)
      return TRUE;
  ortrain_dnn_target_init (&target, setup);
  constants->turns = conv->channels_last && conv->large_channels > 1 && count_taps (conv) > 1;
  constants->weights = type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ? 2 : 1;
  if (conv->channels_last)
    setup->spared_bytes = find_spared_bytes (setup, constants, type, &target);
  if (setup->spared_bytes <= -(double) G_MAXINT64)
    return ortrain_cuda_refuse (setup, error, "cuDNN has no engine for it");
  ortrain_cuda_conv_plan (conv, type, constants->has_bias, &target, &constants->plan, &refusal);
  if (constants->plan.plan == NULL)
    return ortrain_cuda_fall_back (setup, "dnn-fallbacks", refusal->message, error);
  setup->workspace_bytes = ortrain_dnn_plan_get_workspace_bytes (constants->plan.plan);
  for (guint i = 0; i < 3; i++)
    if (converts (constants, i))
      constants->offsets[i] = reserve (setup, constants->n_elements[i], constants->plan.dtypes[i]);
  for (guint i = 0; i < setup->n_inputs + setup->n_outputs; i++)
    setup->bytes_moved +=
        (double) (i < setup->n_inputs ? setup->inputs[i] : setup->outputs[i - setup->n_inputs]).n_bytes;
  setup->bytes_moved += 2.0 * (double) setup->workspace_bytes; /* all of it is written once and read once */
  return TRUE;
}

static OrtrainCudaConvTurn
describe_turn (const ConvConstants *constants, OrtrainDType from, OrtrainDType to, gboolean back)
{
  const OrtrainCudaConv *conv = &constants->conv;
  return (OrtrainCudaConvTurn){ .filters = conv->n_groups * conv->small_channels,
                                .channels = conv->large_channels,
                                .taps = count_taps (conv),
                                .x_dtype = from,
                                .y_dtype = to,
                                .back = back };
}

static ConvConstants *
new_constants (OrtrainKernelSetup *setup, const OrtrainCudaConv *conv)
{
  ConvConstants *constants = g_new0 (ConvConstants, 1);
  const OrtrainOperand *operands[] = { &setup->inputs[0], &setup->inputs[1], &setup->outputs[0] };
  constants->conv = *conv;
  for (guint i = 0; i < 3; i++)
    {
      constants->dtypes[i] = operands[i]->dtype;
      constants->n_elements[i] = operands[i]->n_elements;
    }
  setup->constants = constants;
  setup->constants_free = g_free;
  setup->flops = 2.0 * (double) (conv->n_images * conv->n_groups * conv->small_channels) *
                 (double) (conv->small[0] * conv->small[1] * conv->small[2]) * (double) conv->large_channels *
                 (double) (conv->kernel[0] * conv->kernel[1] * conv->kernel[2]);
  return constants;
}

/* Conv (x, w[, b]) → y; ConvTranspose (x, w[, b]) → y; org.ortrain::ConvGradInput (dy, w, shape of x) → dx; the same
 * with channels last, where weights are in ONNX's order all the same */
static gboolean
prepare_conv (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *source = &setup->inputs[0], *weights = &setup->inputs[1], *result = &setup->outputs[0];
  const gboolean forward = g_str_equal (setup->op_type, "Conv") || g_str_equal (setup->op_type, "ConvChannelsLast");
  const gboolean transposed = g_str_has_suffix (setup->op_type, "Transpose");
  OrtrainCudaConv conv;
  if (!read_shape (setup, forward ? source : result, forward ? result : source, weights, transposed, &conv, error))
    return FALSE;
  ConvConstants *constants = new_constants (setup, &conv);
  constants->forward = forward;
  /* input 2 of ConvGradInput is a shape */
  constants->has_bias =
      (forward || transposed) && setup->n_inputs > 2 && setup->inputs[2].dtype != ORTRAIN_DTYPE_UNDEFINED;
  if (constants->has_bias)
    constants->conv.bias_dtype = setup->inputs[2].dtype;
  return find_plan (setup, constants,
                    forward ? CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
                            : CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                    error);
}

/* The library's part. result: where its result goes, or a place in the workspace. Returns that; NULL: it cannot. */
static void *
run_plan (const OrtrainKernelCall *call, const void *bias, void *result)
{
  const ConvConstants *constants = call->constants;
  void *operands[3] = { (void *) call->inputs[0], (void *) call->inputs[1], result };
  for (guint i = 0; i < 3; i++)
    {
      if (!converts (constants, i))
        continue;
      const OrtrainCudaConvFinish shape = { .n = constants->n_elements[i],
                                            .x_dtype = constants->dtypes[i],
                                            .y_dtype = constants->plan.dtypes[i] };
      operands[i] = (guint8 *) call->workspace + constants->offsets[i];
      if (i < 2 && constants->turns && i == constants->weights)
        {
          const OrtrainCudaConvTurn turn =
              describe_turn (constants, constants->dtypes[i], constants->plan.dtypes[i], FALSE);
          ortrain_cuda_conv_turn (call, &turn, call->inputs[i], operands[i]);
        }
      else if (i < 2)
        ortrain_cuda_conv_finish (call, &shape, call->inputs[i], NULL, operands[i], FALSE);
    }
  void *addresses[ORTRAIN_DNN_MAX_TENSORS] = { operands[0], operands[1], operands[2] };
  if (bias != NULL)
    {
      addresses[2] = (void *) bias;
      addresses[3] = operands[2];
    }
  return ortrain_dnn_run (constants->plan.plan, call, addresses, call->workspace) ? operands[2] : NULL;
}

static void
run_conv (const OrtrainKernelCall *call)
{
  const ConvConstants *constants = call->constants;
  const OrtrainCudaConv *conv = &constants->conv;
  const void *bias = constants->has_bias ? call->inputs[2] : NULL;
  const void *result = NULL;
  if (constants->plan.plan != NULL)
    result = run_plan (call, constants->plan.adds_bias ? bias : NULL, call->outputs[0]);
  if (result == NULL)
    {
      (constants->forward ? ortrain_cuda_conv_forward : ortrain_cuda_conv_backward) (
          call, conv, call->inputs[0], call->inputs[1], bias, call->outputs[0]);
      return;
    }
  if (constants->plan.adds_bias || (bias == NULL && result == call->outputs[0]))
    return;
  const gint64 *dims = constants->forward ? conv->small : conv->large;
  const OrtrainCudaConvFinish shape = {
    .n = constants->n_elements[2],
    .plane = conv->channels_last ? 1 : dims[0] * dims[1] * dims[2],
    .n_channels = conv->n_groups * (constants->forward ? conv->small_channels : conv->large_channels),
    .x_dtype = constants->plan.dtypes[2],
    .y_dtype = constants->dtypes[2],
    .bias_dtype = conv->bias_dtype,
  };
  ortrain_cuda_conv_finish (call, &shape, result, bias, call->outputs[0], FALSE);
}

/* org.ortrain::ConvGradWeight (dy, x, shape of w) → dw */
static gboolean
prepare_grad_weight (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dy = &setup->inputs[0], *x = &setup->inputs[1], *weights = &setup->outputs[0];
  OrtrainCudaConv conv;
  if (!read_shape (setup, x, dy, weights, FALSE, &conv, error))
    return FALSE;
  ConvConstants *constants = new_constants (setup, &conv);
  setup->can_accumulate = 1;
  if (!find_plan (setup, constants, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, error))
    return FALSE;
  if (constants->plan.plan != NULL && !converts (constants, 2) && weights->dtype == ORTRAIN_DTYPE_FLOAT32)
    constants->offsets[2] = reserve (setup, weights->n_elements, weights->dtype);
  return TRUE;
}

static void
run_grad_weight (const OrtrainKernelCall *call)
{
  const ConvConstants *constants = call->constants;
  const gboolean adds = call->accumulates != 0 || call->gradients != 0;
  const gboolean is_float = constants->dtypes[2] == ORTRAIN_DTYPE_FLOAT32;
  const void *result = NULL;
  /* a sum in 16 bits, which no plan asks for: to round it once needs what cuDNN does not give */
  if (constants->plan.plan != NULL && (!adds || is_float || converts (constants, 2)))
    result =
        run_plan (call, NULL, adds && is_float ? (guint8 *) call->workspace + constants->offsets[2] : call->outputs[0]);
  if (result == NULL)
    {
      ortrain_cuda_conv_weights (call, &constants->conv, call->inputs[0], call->inputs[1], call->outputs[0]);
      return;
    }
  const OrtrainCudaConvFinish shape = { .n = constants->n_elements[2],
                                        .x_dtype = constants->plan.dtypes[2],
                                        .y_dtype = constants->dtypes[2] };
  const OrtrainCudaConvTurn turn = describe_turn (constants, constants->plan.dtypes[2], constants->dtypes[2], TRUE);
  if (result != call->outputs[0] && constants->turns)
    ortrain_cuda_conv_turn (call, &turn, result, call->outputs[0]);
  else if (result != call->outputs[0])
    ortrain_cuda_conv_finish (call, &shape, result, NULL, call->outputs[0], TRUE);
}

#define ROW(name, domain_, prepare_, run_)                                                                             \
  {                                                                                                                    \
    .op_type = name, .domain = domain_, .dtypes = ORTRAIN_DTYPES_FLOAT, .prepare = prepare_, .run = run_,              \
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED                                                                               \
  }

static const OrtrainKernel rows[] = {
  ROW ("Conv", "", prepare_conv, run_conv),
  ROW ("ConvTranspose", "", prepare_conv, run_conv),
  ROW ("ConvGradInput", "org.ortrain", prepare_conv, run_conv),
  ROW ("ConvGradWeight", "org.ortrain", prepare_grad_weight, run_grad_weight),
  ROW ("ConvChannelsLast", "org.ortrain", prepare_conv, run_conv),
  ROW ("ConvChannelsLastTranspose", "org.ortrain", prepare_conv, run_conv),
  ROW ("ConvChannelsLastGradInput", "org.ortrain", prepare_conv, run_conv),
  ROW ("ConvChannelsLastGradWeight", "org.ortrain", prepare_grad_weight, run_grad_weight),
};
ORTRAIN_CUDA_TABLE (conv, rows);
