/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-gemm.h"
#include "cuda/ortrain-cuda-loss.h"
#include "cuda/ortrain-cuda-sum-rows.h"

/* LinearCrossEntropy: scores of `rows` positions lie in the workspace, by cuBLASLt, and become their own gradients
 * there, from which the others are computed before the next ones are. */

/* The products for a piece of positions; NULL: not wanted. */
typedef struct
{
  OrtrainCudaGemm *scores, *dx, *dweight;
} Products;

typedef struct
{
  Products whole, last; /* of all pieces but the last, and of that */
  gint64 n_rows, rows, n, k;
  /* From row to row, in elements: of scores, of the weight, of its gradient. */
  gint64 pitch, weight_pitch, dweight_pitch;
  gboolean copies_weight, copies_dweight; /* they are not the operand's: that one has a copy in the workspace */
  gboolean is_transposed, is_swapped;     /* the weight, and its gradient, are [n, k] */
  gboolean has_bias;
  Reduction reduction;
  bool target_is_int32, has_ignore;
  gint64 ignore;
  float smoothing;
  OrtrainDType dtype, dx_dtype;
  gsize lse_at, parts_at, counts_at, numbers_at, weight_at, dweight_at,
      library_at; /* offsets in the workspace, after the scores */
  OrtrainOperandTypes types;
} Classifier;

enum
{
  INPUT_X,
  INPUT_WEIGHT,
  INPUT_TARGET,
  INPUT_DLOSS,
  INPUT_BIAS,
  INPUT_CLASS_WEIGHTS,
};

enum
{
  OUTPUT_LOSS,
  OUTPUT_DX,
  OUTPUT_DWEIGHT,
  OUTPUT_DBIAS,
};

/* ---- prepare ---- */

static void
free_products (Products *self)
{
  ortrain_cuda_gemm_free (self->scores);
  ortrain_cuda_gemm_free (self->dx);
  ortrain_cuda_gemm_free (self->dweight);
}

static void
free_classifier (gpointer data)
{
  Classifier *self = (Classifier *) data;
  free_products (&self->whole);
  free_products (&self->last);
  g_free (self);
}

static bool
has_output (const OrtrainKernelSetup *setup, guint k)
{
  return k < setup->n_outputs && setup->outputs[k].dtype != ORTRAIN_DTYPE_UNDEFINED;
}

static bool
has_input (const OrtrainKernelSetup *setup, guint i)
{
  return i < setup->n_inputs && setup->inputs[i].dtype != ORTRAIN_DTYPE_UNDEFINED;
}

/* The largest power of two that divides where pieces begin, at most what operands have. */
static gsize
find_alignment (gsize bytes)
{
  gsize alignment = ORTRAIN_DEVICE_ALIGNMENT;
  while (bytes % alignment != 0)
    alignment /= 2;
  return alignment;
}

static gboolean
add_product (OrtrainKernelSetup *setup, OrtrainCudaGemmShape *shape, OrtrainCudaGemm **gemm, gsize *workspace_bytes,
             GError **error)
{
  shape->n_batch = 1;
  shape->alpha = 1;
  *gemm = ortrain_cuda_gemm_new (setup, shape, error);
  if (*gemm == NULL)
    return FALSE;
  *workspace_bytes = MAX (*workspace_bytes, ortrain_cuda_gemm_get_workspace_bytes (*gemm));
  return TRUE;
}

/* Plans the products for a piece of `rows` positions. */
static gboolean
plan_products (Products *products, const Classifier *self, OrtrainKernelSetup *setup, gint64 rows,
               gsize *workspace_bytes, GError **error)
{
  const gsize size = setup->inputs[INPUT_X].n_bytes / (gsize) (self->n_rows * self->k);
  OrtrainCudaGemmShape scores = {}, dx = {}, dweight = {};
  scores.dtype = scores.result_dtype = dx.dtype = dweight.dtype = self->dtype;
  scores.alignment = dx.alignment = dweight.alignment = find_alignment ((gsize) (self->rows * self->k) * size);
  scores.trans_b = self->is_transposed;
  scores.adds_bias = self->has_bias;
  scores.m = rows;
  scores.n = self->n;
  scores.ldc = self->pitch;
  scores.k = scores.lda = self->k;
  scores.ldb = self->weight_pitch;
  if (!add_product (setup, &scores, &products->scores, workspace_bytes, error))
    return FALSE;
  dx.result_dtype = self->dx_dtype;
  dx.trans_b = !self->is_transposed;
  dx.m = rows;
  dx.n = dx.ldc = self->k;
  dx.k = self->n;
  dx.lda = self->pitch;
  dx.ldb = self->weight_pitch;
  if (has_output (setup, OUTPUT_DX) && !add_product (setup, &dx, &products->dx, workspace_bytes, error))
    return FALSE;
  dweight.trans_a = TRUE;
  dweight.m = self->is_swapped ? self->n : self->k;
  dweight.n = self->is_swapped ? self->k : self->n;
  dweight.ldc = self->dweight_pitch;
  dweight.lda = self->is_swapped ? self->pitch : self->k;
  dweight.ldb = self->is_swapped ? self->k : self->pitch;
  dweight.k = rows;
  dweight.may_accumulate = TRUE;
  if (!has_output (setup, OUTPUT_DWEIGHT))
    return TRUE;
  dweight.result_dtype = setup->outputs[OUTPUT_DWEIGHT].dtype;
  return add_product (setup, &dweight, &products->dweight, workspace_bytes, error);
}

/* Rows of scores that all begin at a multiple of 16 bytes: without, the library has no kernels that copy 16 bytes at a
 * time, and none of Hopper's. Nobody else sees them, so that the class count may be odd, as that of most vocabularies;
 * the weight, and the sums of its gradient, are copied where they have rows of classes. */
static gint64
find_pitch (gint64 n, gsize size)
{
  const gint64 step = 64;
  return (gsize) n * size % 16 == 0 ? n : (n + step - 1) / step * step;
}

static gsize
take (gsize *at, gsize bytes)
{
  const gsize from = *at;
  *at = (from + bytes + 255) & ~(gsize) 255;
  return from;
}

static gboolean
prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[INPUT_X], *weight = &setup->inputs[INPUT_WEIGHT];
  const OrtrainOperand *target = &setup->inputs[INPUT_TARGET];
  const char *reduction = ORTRAIN_CUDA_STRING (setup, "reduction", "mean");
  const gboolean transposed = ORTRAIN_CUDA_INT (setup, "transB", 0) != 0;
  if (x->rank < 2 || weight->rank != 2 || x->n_elements < 1 || weight->n_elements < 1 ||
      weight->dims[transposed ? 1 : 0] != x->dims[x->rank - 1])
    return ortrain_cuda_refuse (setup, error, "x and the weight do not fit, or are empty");
  const gint64 k = x->dims[x->rank - 1], n = weight->dims[transposed ? 0 : 1], n_rows = x->n_elements / k;
  const bool wants_gradients =
      has_output (setup, OUTPUT_DX) || has_output (setup, OUTPUT_DWEIGHT) || has_output (setup, OUTPUT_DBIAS);
  if ((target->dtype != ORTRAIN_DTYPE_INT32 && target->dtype != ORTRAIN_DTYPE_INT64) || target->n_elements != n_rows)
    return ortrain_cuda_refuse (setup, error, "one int32 or int64 target is needed for each row of x");
  if ((has_input (setup, INPUT_BIAS) && setup->inputs[INPUT_BIAS].n_elements != n) ||
      (has_input (setup, INPUT_CLASS_WEIGHTS) && setup->inputs[INPUT_CLASS_WEIGHTS].n_elements != n))
    return ortrain_cuda_refuse (setup, error, "a bias and class weights need one number for each class");
  if (wants_gradients && !has_input (setup, INPUT_DLOSS))
    return ortrain_cuda_refuse (setup, error, "gradients need that of the loss");
  if (n > ORTRAIN_CUDA_MAX_ROW)
    return ortrain_cuda_refuse (setup, error, "%" G_GINT64_FORMAT " classes are too many", n);
  Classifier *self = g_new0 (Classifier, 1);
  setup->constants = self;
  setup->constants_free = free_classifier;
  self->n_rows = n_rows;
  self->rows = CLAMP (ORTRAIN_CUDA_INT (setup, "rows", n_rows), 1, n_rows);
  self->n = n;
  self->k = k;
  self->is_transposed = transposed;
  self->is_swapped = ORTRAIN_CUDA_INT (setup, "transW", 0) != 0;
  self->has_bias = has_input (setup, INPUT_BIAS);
  self->reduction = g_str_equal (reduction, "sum") ? REDUCTION_SUM : REDUCTION_MEAN;
  self->target_is_int32 = target->dtype == ORTRAIN_DTYPE_INT32;
  self->has_ignore = ortrain_cuda_library->attributes_has (setup->attributes, "ignore_index");
  self->ignore = ORTRAIN_CUDA_INT (setup, "ignore_index", 0);
  self->smoothing = (float) ORTRAIN_CUDA_FLOAT (setup, "label_smoothing", 0);
  self->dtype = x->dtype;
  self->dx_dtype = has_output (setup, OUTPUT_DX) ? setup->outputs[OUTPUT_DX].dtype : x->dtype;
  ortrain_cuda_describe_types (&self->types, setup);
  gsize library_bytes = 0, at = 0;
  const gsize size = x->n_bytes / (gsize) x->n_elements;
  self->pitch = find_pitch (n, size);
  self->weight_pitch = transposed ? k : self->pitch;
  self->dweight_pitch = self->is_swapped ? k : find_pitch (n, sizeof (float));
  self->copies_weight = !transposed && self->weight_pitch != n;
  self->copies_dweight = has_output (setup, OUTPUT_DWEIGHT) && !self->is_swapped && self->dweight_pitch != n;
  const gint64 last = n_rows % self->rows;
  if (!plan_products (&self->whole, self, setup, self->rows, &library_bytes, error) ||
      (last > 0 && !plan_products (&self->last, self, setup, last, &library_bytes, error)))
    return FALSE;
  take (&at, (gsize) self->rows * (gsize) self->pitch * size);
  self->lse_at = take (&at, (gsize) self->rows * sizeof (float));
  self->parts_at = take (&at, (gsize) n_rows * sizeof (Part));
  self->counts_at = take (&at, (gsize) ((n_rows + ORTRAIN_CUDA_BLOCK - 1) / ORTRAIN_CUDA_BLOCK) * sizeof (Part));
  self->numbers_at = take (&at, 2 * sizeof (float)); /* sum of class weights; of the weights of positions that count */
  self->weight_at = take (&at, self->copies_weight ? (gsize) k * (gsize) self->weight_pitch * size : 0);
  self->dweight_at = take (&at, self->copies_dweight ? (gsize) k * (gsize) self->dweight_pitch * sizeof (float) : 0);
  self->library_at = at;
  if (has_output (setup, OUTPUT_DBIAS)) /* in turn with the products */
    library_bytes = MAX (library_bytes, ortrain_cuda_sum_rows_get_workspace_bytes (self->rows, n, self->dtype));
  setup->workspace_bytes = at + library_bytes;
  if (has_output (setup, OUTPUT_DX) && self->dx_dtype == x->dtype)
    setup->inplace[OUTPUT_DX] = 1 << INPUT_X;
  setup->can_accumulate = 1 << OUTPUT_DWEIGHT | 1 << OUTPUT_DBIAS;
  const int n_products = 1 + has_output (setup, OUTPUT_DX) + has_output (setup, OUTPUT_DWEIGHT);
  setup->flops = 2.0 * n_products * (double) n_rows * (double) n * (double) k;
  return TRUE;
}

/* ---- run ---- */

static const void *
skip (const void *address, gint64 n, OrtrainDType dtype)
{
  return (const guint8 *) address + n * (dtype == ORTRAIN_DTYPE_FLOAT32 ? 4 : 2);
}

/* Sums the weights where they are needed. */
static Classes
begin (const OrtrainKernelCall *call)
{
  const Classifier *self = (const Classifier *) call->constants;
  Classes classes;
  classes.target = call->inputs[INPUT_TARGET];
  classes.target_is_int32 = self->target_is_int32;
  classes.has_ignore = self->has_ignore;
  classes.ignore = self->ignore;
  classes.n = self->n;
  classes.pitch = self->pitch;
  classes.inner = 1;
  classes.reduction = self->reduction;
  classes.smoothing = self->smoothing;
  classes.weights = ortrain_cuda_view_input<OrtrainAny> (call, &self->types, INPUT_CLASS_WEIGHTS);
  classes.weight_sum = NULL;
  classes.fault = ortrain_cuda_get_fault (call);
  if (self->smoothing != 0 && classes.weights.data != NULL)
    {
      float *sum = (float *) ((guint8 *) call->workspace + self->numbers_at);
      ortrain_cuda_launch (call, "weight-sum", 1, LAST_BLOCK, weight_sum_kernel, classes.weights, self->n, sum);
      classes.weight_sum = sum;
    }
  return classes;
}

/* x: [rows, n], `pitch` from row to row → y: [rows, n]; total: rows · n */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    add_rows_kernel (const float *x, float *y, gint64 total, gint64 n, gint64 pitch, OrtrainAccumulate accumulate)
{
  const bool adds = accumulate.is_set ();
  for (gint64 i = ortrain_cuda_first (); i < total; i += ortrain_cuda_stride ())
    {
      const float value = x[i / n * pitch + i % n];
      y[i] = adds ? y[i] + value : value;
    }
}

static const void *
get_weight (const OrtrainKernelCall *call)
{
  const Classifier *self = (const Classifier *) call->constants;
  return self->copies_weight ? (const guint8 *) call->workspace + self->weight_at
                             : (const guint8 *) call->inputs[INPUT_WEIGHT];
}

/* scores: [rows, n], `pitch` from row to row, which become their gradients */
template <typename T>
static void
run_piece (const OrtrainKernelCall *call, const Classes &classes, const Products *products, gint64 row, gint64 rows)
{
  const Classifier *self = (const Classifier *) call->constants;
  guint8 *workspace = (guint8 *) call->workspace;
  void *const *outputs = call->outputs;
  T *scores = (T *) workspace;
  const OrtrainView<T> view = { scores };
  const OrtrainView<OrtrainAny> absent = { NULL, ORTRAIN_DTYPE_FLOAT32 };
  const OrtrainView<OrtrainAny> lse = { workspace + self->lse_at, ORTRAIN_DTYPE_FLOAT32 };
  const OrtrainView<OrtrainAny> total = { (float *) (workspace + self->numbers_at) + 1, ORTRAIN_DTYPE_FLOAT32 };
  const void *x = skip (call->inputs[INPUT_X], row * self->k, self->dtype);
  void *library = workspace + self->library_at;
  ortrain_cuda_gemm_run (products->scores, call, x, get_weight (call), self->has_bias ? call->inputs[INPUT_BIAS] : NULL,
                         NULL, scores, ORTRAIN_CUDA_BETA_ZERO, library);
  launch_loss_rows (call, classes, view, lse, absent, (Part *) (workspace + self->parts_at) + row, rows);
  const bool has_dbias = call->n_outputs > OUTPUT_DBIAS && outputs[OUTPUT_DBIAS] != NULL;
  if (products->dx == NULL && products->dweight == NULL && !has_dbias)
    return;
  launch_loss_grad_rows (call, classes, ortrain_cuda_view_input<OrtrainAny> (call, &self->types, INPUT_DLOSS), view,
                         lse, total, view, rows);
  if (has_dbias)
    {
      OrtrainAccumulate accumulate = ortrain_cuda_get_accumulate (call, OUTPUT_DBIAS);
      accumulate.always = accumulate.always || row > 0;
      ortrain_cuda_sum_rows (call, scores, outputs[OUTPUT_DBIAS], ORTRAIN_DTYPE_FLOAT32, rows, self->n, self->pitch,
                             accumulate, library);
    }
  if (products->dweight != NULL)
    {
      const bool apart = self->copies_dweight;
      const OrtrainCudaBeta beta = row > 0 || (!apart && (call->accumulates >> OUTPUT_DWEIGHT & 1))
                                       ? ORTRAIN_CUDA_BETA_ONE
                                   : !apart && (call->gradients >> OUTPUT_DWEIGHT & 1) ? ORTRAIN_CUDA_BETA_GRADIENT
                                                                                       : ORTRAIN_CUDA_BETA_ZERO;
      ortrain_cuda_gemm_run (products->dweight, call, self->is_swapped ? scores : x, self->is_swapped ? x : scores,
                             NULL, NULL, apart ? workspace + self->dweight_at : outputs[OUTPUT_DWEIGHT], beta, library);
    }
  if (products->dx != NULL) /* perhaps over the rows of x */
    ortrain_cuda_gemm_run (products->dx, call, scores, get_weight (call), NULL, NULL,
                           (void *) skip (outputs[OUTPUT_DX], row * self->k, self->dx_dtype), ORTRAIN_CUDA_BETA_ZERO,
                           library);
}

static void
run (const OrtrainKernelCall *call)
{
  const Classifier *self = (const Classifier *) call->constants;
  guint8 *workspace = (guint8 *) call->workspace;
  const OrtrainView<OrtrainAny> absent = { NULL, ORTRAIN_DTYPE_FLOAT32 };
  const OrtrainView<OrtrainAny> total = { (float *) (workspace + self->numbers_at) + 1, ORTRAIN_DTYPE_FLOAT32 };
  Classes classes = begin (call);
  /* The weight of all that counts, which the gradients of the first rows need. Labels out of range are found here, with
   * their place among all. */
  Part *counts = (Part *) (workspace + self->counts_at);
  ortrain_cuda_launch (call, "likelihood", ortrain_cuda_grid (call, self->n_rows, ORTRAIN_CUDA_BLOCK),
                       ORTRAIN_CUDA_BLOCK, likelihood_kernel, classes, absent, absent, counts, self->n_rows);
  ortrain_cuda_launch (call, "loss-sum", 1, LAST_BLOCK, loss_sum_kernel, (const Part *) counts,
                       (self->n_rows + ORTRAIN_CUDA_BLOCK - 1) / ORTRAIN_CUDA_BLOCK, false, absent, total);
  const gsize size = self->dtype == ORTRAIN_DTYPE_FLOAT32 ? 4 : 2, row_bytes = (gsize) self->n * size;
  if (self->copies_weight)
    cudaMemcpy2DAsync (workspace + self->weight_at, (gsize) self->weight_pitch * size, call->inputs[INPUT_WEIGHT],
                       row_bytes, row_bytes, (gsize) self->k, cudaMemcpyDefault,
                       ortrain_cuda_get_stream (call)->stream);
  for (gint64 row = 0; row < self->n_rows; row += self->rows)
    {
      const gint64 rows = MIN (self->rows, self->n_rows - row);
      const Products *products = rows == self->rows ? &self->whole : &self->last;
      classes.target = (const guint8 *) call->inputs[INPUT_TARGET] + row * (self->target_is_int32 ? 4 : 8);
      ORTRAIN_CUDA_FLOATING (self->dtype, T, run_piece<T> (call, classes, products, row, rows););
    }
  if (self->copies_dweight && call->outputs[OUTPUT_DWEIGHT] != NULL)
    ortrain_cuda_launch (call, "add-rows", ortrain_cuda_grid (call, self->k * self->n, ORTRAIN_CUDA_BLOCK),
                         ORTRAIN_CUDA_BLOCK, add_rows_kernel, (const float *) (workspace + self->dweight_at),
                         (float *) call->outputs[OUTPUT_DWEIGHT], self->k * self->n, self->n, self->dweight_pitch,
                         ortrain_cuda_get_accumulate (call, OUTPUT_DWEIGHT));
  ortrain_cuda_launch (call, "loss-sum", 1, LAST_BLOCK, loss_sum_kernel, (const Part *) (workspace + self->parts_at),
                       self->n_rows, self->reduction == REDUCTION_MEAN,
                       ortrain_cuda_view_output<OrtrainAny> (call, &self->types, OUTPUT_LOSS), absent);
}

/* The factors of products have one type, and the bias has it too; sums over several pieces are float32. */
static gboolean
takes (const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  const OrtrainDType dtype = inputs[INPUT_X].dtype;
  static const guint same[] = { INPUT_WEIGHT, INPUT_BIAS };
  for (guint i = 0; i < G_N_ELEMENTS (same); i++)
    if (same[i] < n_inputs && inputs[same[i]].dtype != ORTRAIN_DTYPE_UNDEFINED && inputs[same[i]].dtype != dtype)
      return FALSE;
  if (OUTPUT_DX < n_outputs && outputs[OUTPUT_DX].dtype != ORTRAIN_DTYPE_UNDEFINED &&
      outputs[OUTPUT_DX].dtype != dtype && outputs[OUTPUT_DX].dtype != ORTRAIN_DTYPE_FLOAT32)
    return FALSE;
  for (guint k = OUTPUT_DWEIGHT; k < n_outputs; k++)
    if (outputs[k].dtype != ORTRAIN_DTYPE_UNDEFINED && outputs[k].dtype != ORTRAIN_DTYPE_FLOAT32)
      return FALSE;
  return TRUE;
}

static const OrtrainKernel rows[] = {
  { "LinearCrossEntropy", "org.ortrain", ORTRAIN_DTYPES_MIXED, prepare, run, 0, ORTRAIN_DTYPES_MIXED, takes },
};

ORTRAIN_CUDA_TABLE (classifier, rows);
