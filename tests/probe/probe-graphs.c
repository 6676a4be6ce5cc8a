/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "probe-engines.h"

#include "cuda/ortrain-cuda-attention-graph-private.h"
#include "cuda/ortrain-cuda-conv-graph-private.h"

/* Which graphs of the provider's cuDNN computes on this device, and how it wants to be asked. */

static gboolean
begin_section (Probe *self, char **device)
{
  g_autoptr (GError) error = NULL;
  *device = NULL;
  if (ortrain_cuda_open_cudnn (&error) != NULL)
    {
      g_autoptr (GError) no_description = NULL;
      *device = probe_describe_device (&no_description);
      probe_add_text (self, "description", *device);
      if (no_description != NULL)
        probe_add_text (self, "description_error", no_description->message);
      return TRUE;
    }
  probe_add_text (self, "error", error->message);
  return FALSE;
}

/* Allocates all tensors of the graph that are in memory, in their types; floating-point ones get random numbers. */
static gboolean
allocate_tensors (Probe *self, const OrtrainDnnGraph *graph, void **addresses)
{
  for (gint64 i = 0; i < graph->n_tensors; i++)
    {
      const OrtrainDnnTensor *tensor = &graph->tensors[i];
      gsize n = 1;
      for (gint64 d = 0; d < tensor->rank; d++)
        n += (gsize) ((tensor->dims[d] - 1) * tensor->strides[d]);
      if (tensor->flags != ORTRAIN_DNN_NONE)
        continue;
      const ProbeType type = tensor->type == CUDNN_DATA_BFLOAT16 ? PROBE_BF16
                             : tensor->type == CUDNN_DATA_HALF   ? PROBE_F16
                                                                 : PROBE_F32;
      addresses[i] = probe_allocate_random (self, type, n);
      if (addresses[i] == NULL)
        return FALSE;
    }
  return TRUE;
}

static void
add_run (Probe *self, const OrtrainDnnGraph *graph)
{
  void *addresses[ORTRAIN_DNN_MAX_TENSORS] = { NULL };
  if (allocate_tensors (self, graph, addresses))
    probe_add_run (self, graph, addresses);
  else
    probe_add_text (self, "error", "there is no memory for its tensors");
  cudaStreamSynchronize (self->stream);
  for (guint i = 0; i < ORTRAIN_DNN_MAX_TENSORS; i++)
    cudaFree (addresses[i]);
}

/* ---- attention ---- */

static void
describe_side (OrtrainCudaAttentionSide *side, gint64 heads, gint64 length, gint64 width, gint64 n_packed)
{
  side->width = width;
  side->pitch = n_packed * heads * width;
  side->head_step = width;
  side->batch_step = n_packed * heads * width * length;
  side->dtype = ORTRAIN_DTYPE_BFLOAT16;
}

typedef enum
{
  FORWARD,
  BACKWARD, /* in the order of keys */
  BACKWARD_BY_CHANCE,
} Direction;

typedef enum
{
  PLAIN,
  CAUSAL,
  BIASED,
  DROPOUT,
} Kind;

static void
add_attention (Probe *self, gint64 width, Kind kind, Direction direction, const char *device)
{
  static const char *const names[] = { "forward", "backward", "backward-accumulating" };
  const gint64 batch = self->is_small ? 2 : 8, heads = self->is_small ? 2 : 12, length = self->is_small ? 16 : 1024;
  OrtrainCudaAttention attention = { .batch = batch,
                                     .heads = heads,
                                     .n_queries = length,
                                     .n_keys = length,
                                     .scale = 0.125f,
                                     .mask_kind = kind == CAUSAL ? ORTRAIN_CUDA_MASK_CAUSAL : ORTRAIN_CUDA_MASK_NONE };
  const OrtrainDnnAttentionShape shape = { .has_bias = kind == BIASED,
                                           .bias_batch = batch,
                                           .bias_heads = 1,
                                           .bias_dtype = ORTRAIN_DTYPE_BFLOAT16,
                                           .has_dropout = kind == DROPOUT,
                                           .accumulates = direction == BACKWARD_BY_CHANCE };
  OrtrainDnnAttentionTensors tensors;
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
  describe_side (&attention.q, heads, length, width, 3);
  describe_side (&attention.k, heads, length, width, 3);
  describe_side (&attention.v, heads, length, width, 3);
  describe_side (&attention.y, heads, length, width, 1);
  if (direction == FORWARD)
    ortrain_dnn_compose_attention (graph, &attention, &shape, &tensors);
  else
    ortrain_dnn_compose_attention_grad (graph, &attention, &attention.y, &shape, &tensors);
  probe_begin (self, NULL);
  probe_add_text (self, "direction", names[direction]);
  probe_add_int (self, "width", width);
  probe_add_int (self, "length", length);
  probe_add_bool (self, "causal", kind == CAUSAL);
  probe_add_bool (self, "biased", kind == BIASED);
  probe_add_bool (self, "dropout", kind == DROPOUT);
  probe_add_engines (self, graph, device);
  add_run (self, graph);
  probe_end (self);
}

void
probe_attention (Probe *self)
{
  static const gint64 widths[] = { 64, 128 };
  g_autofree char *device = NULL;
  if (!begin_section (self, &device))
    return;
  probe_begin_array (self, "graphs");
  for (guint w = 0; w < G_N_ELEMENTS (widths); w++)
    for (Kind kind = PLAIN; kind <= DROPOUT; kind++)
      for (Direction direction = FORWARD; direction <= BACKWARD_BY_CHANCE; direction++)
        add_attention (self, widths[w], kind, direction, device);
  probe_end_array (self);
}

/* ---- convolutions ---- */

typedef struct
{
  gint64 large_channels, small_channels, size, kernel, stride;
} Layer;

static void
add_convolution (Probe *self, const Layer *layer, guint kind, gboolean is_mixed, const char *device)
{
  static const cudnnBackendDescriptorType_t kinds[] = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR
  };
  static const char *const names[] = { "forward", "input-gradient", "weight-gradient" };
  const gint64 small = layer->size / layer->stride;
  OrtrainCudaConv conv = { .n_images = self->is_small ? 2 : 64,
                           .n_groups = 1,
                           .small_channels = layer->small_channels,
                           .large_channels = layer->large_channels,
                           .large = { 1, layer->size, layer->size },
                           .small = { 1, small, small },
                           .kernel = { 1, layer->kernel, layer->kernel },
                           .stride = { 1, layer->stride, layer->stride },
                           .dilation = { 1, 1, 1 },
                           .pad = { 0, layer->kernel / 2, layer->kernel / 2 },
                           .large_dtype = ORTRAIN_DTYPE_BFLOAT16,
                           .small_dtype = ORTRAIN_DTYPE_BFLOAT16,
                           .weight_dtype = is_mixed ? ORTRAIN_DTYPE_FLOAT32 : ORTRAIN_DTYPE_BFLOAT16 };
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
  ortrain_dnn_compose_convolution (graph, &conv, kinds[kind], FALSE);
  probe_begin (self, NULL);
  probe_add_text (self, "direction", names[kind]);
  probe_add_text (self, "weights", is_mixed ? "f32" : "bf16");
  probe_add_int (self, "images", conv.n_images);
  probe_add_int (self, "channels_in", layer->large_channels);
  probe_add_int (self, "channels_out", layer->small_channels);
  probe_add_int (self, "size", layer->size);
  probe_add_int (self, "kernel", layer->kernel);
  probe_add_int (self, "stride", layer->stride);
  probe_add_engines (self, graph, device);
  if (!is_mixed)
    add_run (self, graph);
  probe_end (self);
}

/* Shapes of ResNet-50. */
void
probe_convolutions (Probe *self)
{
  static const Layer layers[] = {
    { 3, 64, 224, 7, 2 }, { 64, 256, 56, 1, 1 }, { 128, 128, 28, 3, 1 }, { 512, 512, 7, 3, 1 }
  };
  static const Layer small_layers[] = { { 3, 4, 8, 3, 1 } };
  const Layer *all = self->is_small ? small_layers : layers;
  const guint n = self->is_small ? G_N_ELEMENTS (small_layers) : G_N_ELEMENTS (layers);
  g_autofree char *device = NULL;
  if (!begin_section (self, &device))
    return;
  probe_begin_array (self, "graphs");
  for (guint i = 0; i < n; i++)
    for (guint kind = 0; kind < 3; kind++)
      for (guint is_mixed = 0; is_mixed < (kind == 2 ? 2 : 1); is_mixed++)
        add_convolution (self, &all[i], kind, is_mixed, device);
  probe_end_array (self);
}
